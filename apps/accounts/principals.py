"""The caller of a request, and what their credential and role allow."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from apps.accounts.errors import Kind, Refusal
from apps.accounts.permissions import NEEDED_FOR_SCOPE, PERMISSIONS, Permission, Role, missing_permission

if TYPE_CHECKING:
    from django.db.models import QuerySet

READ = "tasks:read"
WRITE = "tasks:write"
KEYS = "keys:write"
MANAGE = "workspace:write"
CREDENTIALS = "credentials:write"
AGENTS = "agents:write"
TASK_SCOPES = {READ: "see tasks, conversations and files", WRITE: "send messages and cancel tasks"}
"""What agents ask for, and what an OAuth client can get."""
SCOPES = {
    **TASK_SCOPES,
    CREDENTIALS: "give agents the credentials that tasks ask for",
    KEYS: "see, make and revoke API keys",
    MANAGE: "change the workspace and its members",
    AGENTS: "deploy agents and set their secrets, as an operator, and choose which versions sessions use",
}
"""What an API key may be limited to."""
PRESETS = {"read": (READ,), "call": (READ, WRITE), "full": tuple(SCOPES)}
"""Scopes that go together; `call` is meant for one agent."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A user in a workspace, or an anonymous caller. `scopes` of None: all that the user may do.

    `workspace_id` is the current workspace: that of the key, or the one that the person chose. `role` is theirs there.

    `agents` are the slugs of the only agents that there are for the caller; None: all. `key` names the API key or the
    OAuth client that was used, for the audit. `key_id` is the key's id.

    `is_staff`: they may be an operator; `models.may_operate` says whether they are.

    `is_notified`: the person has a channel by which they are told of their sessions.

    `sender` is the name in idempotency records and quotas; "" if anonymous.

    `permissions` are those of their role in the current workspace. Their scopes are another question.
    """

    user_id: int | None = None
    workspace_id: int | None = None
    name: str = ""
    scopes: frozenset[str] | None = None
    agents: frozenset[str] | None = None
    role: Role | None = None
    is_notified: bool = field(default=False, compare=False)
    is_staff: bool = field(default=False, compare=False)
    key: str = field(default="", compare=False)
    key_id: int | None = field(default=None, compare=False)
    is_known: bool = field(init=False, repr=False, compare=False)
    sender: str = field(init=False, repr=False, compare=False)
    permissions: frozenset[Permission] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_known", self.user_id is not None)
        object.__setattr__(self, "sender", "" if self.user_id is None else f"user:{self.user_id}")
        permissions = PERMISSIONS[self.role] if self.role is not None else frozenset()
        object.__setattr__(self, "permissions", permissions)

    def own(self, path: str = "") -> dict[str, Any]:
        """The filter of their own rows in the current workspace; `path` leads to the row with owner and workspace."""
        whose: dict[str, Any] = {f"{path}owner": self.user_id}
        return whose | {f"{path}workspace": self.workspace_id} if self.is_known else whose

    def owns(self, owner: int | None, workspace: int) -> bool:
        """The rule of `own`. Anonymous callers share their rows."""
        return owner == self.user_id and (owner is None or workspace == self.workspace_id)

    def can(self, permission: Permission) -> bool:
        return permission in self.permissions

    def may(self, scope: str) -> bool:
        """Whether their credential allows it."""
        return self.scopes is None or scope in self.scopes

    def may_use(self, slug: str) -> bool:
        """Whether the caller's credential reaches this agent. The agent's own access is another question."""
        return self.agents is None or slug in self.agents

    def only_agents[S: QuerySet[Any]](self, rows: S, path: str) -> S:
        """The rows whose agent the credential reaches; `path` leads to the agent."""
        return rows if self.agents is None else rows.filter(**{f"{path}__slug__in": self.agents})


ANONYMOUS = Principal()


class MissingScope(Refusal):
    """The caller's credential lacks `scope`."""

    kind = Kind.FORBIDDEN

    def __init__(self, scope: str) -> None:
        super().__init__(f"Your API key or token is missing the scope {scope}, to {SCOPES[scope]}.")
        self.scope = scope


class MissingRole(Refusal):
    """The caller's role in the workspace does not permit this."""

    kind = Kind.FORBIDDEN

    def __init__(self, permission: Permission) -> None:
        super().__init__(missing_permission(permission))


class MissingRight(Refusal):
    """The caller is no operator, or one without this right."""

    kind = Kind.FORBIDDEN

    def __init__(self, right: str) -> None:
        super().__init__(f"Only operators with the right {right} do this. Ask one of them.")


def check_allowed(principal: Principal, scope: str, permission: Permission | None = None) -> None:
    """Whether the credential has the scope, and the role in the workspace a permission, by default that of the scope.

    What anonymous callers may do, the agent says. Raises MissingScope, MissingRole.
    """
    if not principal.may(scope):
        raise MissingScope(scope)
    needed = permission or NEEDED_FOR_SCOPE.get(scope, Permission.READ)
    if principal.is_known and needed not in principal.permissions:
        raise MissingRole(needed)


def address_key(address: str) -> str:
    """An IPv6 network (/64) counts as one address."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return f"at:{address}"
    if isinstance(ip, ipaddress.IPv4Address):
        return f"at:{ip}"
    # IPv6 sockets show all IPv4 callers in one network.
    return f"at:{ip.ipv4_mapped or ipaddress.ip_network((ip, 64), strict=False)}"
