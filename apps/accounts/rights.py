"""What a caller's credential and role allow."""

from __future__ import annotations

from apps.accounts.errors import Kind, Refusal
from apps.accounts.permissions import NEEDED_FOR_SCOPE, Permission, missing_permission
from apps.accounts.principals import SCOPES, Principal


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


def check_allowed(principal: Principal, scope: str, permission: Permission | None = None) -> None:
    """Whether the credential has the scope, and the role in the workspace a permission, by default that of the scope.

    What anonymous callers may do, the agent says. Raises MissingScope, MissingRole.
    """
    if not principal.may(scope):
        raise MissingScope(scope)
    needed = permission or NEEDED_FOR_SCOPE.get(scope, Permission.READ)
    if principal.is_known and not principal.can(needed):
        raise MissingRole(needed)
