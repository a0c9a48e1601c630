"""Deleting a workspace: access ends at once, and a job deletes its sessions. Agents that only members used are off.

The row of the workspace stays without its name, because agents, tombstones and the audit refer to it.
"""

from __future__ import annotations

from django.db import transaction

from apps.accounts import workspaces
from apps.accounts.models import Workspace
from apps.accounts.principals import Principal
from apps.agents.models import OF_MEMBERS, Agent
from apps.conversations.sessions.deletion import publish_deleted_account
from parley.db.sql import write_transaction


def delete_workspace(principal: Principal, workspace: int, name: str) -> None:
    """`name` confirms it. Raises NotFound, WorkspaceRefused."""
    with write_transaction():
        workspaces.close_workspace(principal, workspace, name, _switch_off_agents)
        transaction.on_commit(publish_deleted_account, robust=True)


def _switch_off_agents(workspace: Workspace) -> None:
    Agent.objects.filter(workspace=workspace, access__in=OF_MEMBERS).update(is_enabled=False)
