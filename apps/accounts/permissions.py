"""Roles in a workspace, and what each may do there."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from django.db import models


class Role(models.TextChoices):
    """What a member is in a workspace."""

    VIEWER = "viewer", "Viewer"
    MEMBER = "member", "Member"
    MANAGER = "manager", "Manager"
    OWNER = "owner", "Owner"


class Permission(StrEnum):
    """What can be done in a workspace. The caller's credential must allow it too."""

    READ = "read"  # see shared sessions, agents, plans and files
    SEND = "send"  # send messages, answer questions, cancel
    BUILD = "build"  # register and edit agents and plans
    MEMBERS = "members"  # invite and remove members, change roles
    SETTINGS = "settings"  # name, retention, limits
    DELETE = "delete"  # transfer or delete the workspace


_VIEWER = frozenset({Permission.READ})
_MEMBER = _VIEWER | {Permission.SEND, Permission.BUILD}
_MANAGER = _MEMBER | {Permission.MEMBERS, Permission.SETTINGS}

PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    Role.VIEWER: _VIEWER,
    Role.MEMBER: _MEMBER,
    Role.MANAGER: _MANAGER,
    Role.OWNER: _MANAGER | {Permission.DELETE},
}

NEEDED_FOR_SCOPE: Mapping[str, Permission] = {
    "tasks:write": Permission.SEND,
    "credentials:write": Permission.SEND,
    "agents:write": Permission.BUILD,
}
"""What a caller's role must permit where an address asks for this scope; by default reading."""


def missing_permission(permission: Permission) -> str:
    """The sentence of a refusal: the lowest role that permits it."""
    lowest = next(role for role in Role if permission in PERMISSIONS[role])
    return f"Your role in this workspace does not permit this. You need the role {lowest.label} or a higher one."
