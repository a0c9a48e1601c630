"""Who may see a session: its owner, and the members of its workspace if it is shared.

The rule stands here for querysets, for rows that were read by their key, and for hand-written SQL.
"""

from __future__ import annotations

from django.db.models import Q

from apps.accounts.permissions import Permission
from apps.accounts.principals import Principal


def shared_workspace(principal: Principal) -> int | None:
    """The workspace whose shared sessions the caller may see: the current one, for its members."""
    return principal.workspace_id if principal.can(Permission.READ) else None


def may_write_shared(principal: Principal) -> bool:
    """Whether the caller may write in the shared sessions that they see: viewers only read."""
    return principal.can(Permission.SEND)


def seen_by(principal: Principal, path: str = "") -> Q:
    """The condition for sessions that the caller may see; `path` leads to the session."""
    own, workspace = Q(**principal.own(path)), shared_workspace(principal)
    return own if workspace is None else own | Q(**{f"{path}is_shared": True, f"{path}workspace": workspace})


def is_seen(principal: Principal, owner: int | None, workspace: int, is_shared: bool) -> bool:
    """Whether the caller may see a session with these values."""
    return principal.owns(owner, workspace) or (is_shared and workspace == shared_workspace(principal))


def may_run(principal: Principal, owner: int | None, workspace: int, is_shared: bool) -> bool:
    """Whether the caller may share and delete what has these values: its owner, and of what is shared also those who
    manage the workspace.
    """
    manages = is_shared and workspace == principal.workspace_id and principal.can(Permission.SETTINGS)
    return principal.owns(owner, workspace) or manages


def may_edit(principal: Principal, owner: int | None, workspace: int, is_shared: bool) -> bool:
    """Whether the caller may change what agents are told: also members who may edit agents and plans."""
    builds = is_shared and workspace == principal.workspace_id and principal.can(Permission.BUILD)
    return builds or may_run(principal, owner, workspace, is_shared)


OWN_SQL = "context.owner_id = %s AND context.workspace_id = %s"
"""A known caller's own: their id and workspace."""
SHARED_SQL = "context.is_shared AND context.workspace_id = %s"
"""Those that others share: `shared_workspace`."""
