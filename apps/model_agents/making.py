"""Agents that people make in the app: who may, drafts to try, and deleting. Each change is audited."""

from __future__ import annotations

import secrets
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import ProtectedError

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User
from apps.accounts.permissions import Permission
from apps.agents import tool_policies
from apps.agents.models import DRAFT_PREFIX, Agent, ToolSecret
from apps.agents.registration import define
from apps.model_agents.forms import AgentForm
from parley.db.sql import write_transaction

POLICIES = frozenset({"access", "groups", "keep_thoughts", "minutes", "drawing", "without_drawing"})
"""Fields of the form that no version has."""


def why_not_make(user: User) -> str:
    """Why the person may make no agent in their current workspace; "" if they may."""
    here, workspace = user.principal, user.membership.workspace
    if not here.can(Permission.BUILD):
        return "Your role in this workspace does not permit this."
    if user.has_perm("agents.add_agent"):
        return ""
    if not (here.can(Permission.SETTINGS) or workspace.members_make_agents):
        return "Members of this workspace make no agents. A manager can change this in the workspace's settings."
    if _made_in(user).count() >= settings.WORKSPACE_AGENTS:
        return f"This workspace has {settings.WORKSPACE_AGENTS} agents. Delete one first."
    return ""


def _made_in(user: User) -> Any:
    made = Agent.objects.filter(workspace=user.membership.workspace, owner__isnull=False, is_enabled=True)
    return made.exclude(slug__startswith=DRAFT_PREFIX)


def save(form: AgentForm, user: User) -> Agent:
    """Save what a valid form has. Raises ValidationError."""
    with write_transaction():
        form.save_definition(user)
        changed = sorted(POLICIES.intersection(form.changed_data))
        if changed and not form.is_new and not form.is_candidate:
            _record(AuditAction.AGENT_CHANGED, form.instance, user, changed=changed)
    made: Agent = form.instance
    return made


def try_draft(form: AgentForm, user: User, of: Agent | None) -> Agent:
    """An agent for this person alone that works as a valid form says. They have one, which the next draft changes.

    `of` is the agent that they edit: its policies and secrets for tools hold for the draft, too.
    Raises ValidationError.
    """
    if form.definition is None:
        raise AssertionError("a valid form has a definition")
    home = user.membership.workspace
    with write_transaction():
        own = Agent.objects.filter(owner=user, workspace=home, slug__startswith=DRAFT_PREFIX)
        draft = own.first() or Agent(slug=f"{DRAFT_PREFIX}{secrets.token_hex(8)}", workspace=home, owner=user)
        kept: dict[str, Any] = {"access": Agent.Access.OWNER, "listed": False, "is_enabled": True}
        kept |= {"time_limit": form.instance.time_limit, "keep_thoughts": form.cleaned_data["keep_thoughts"]}
        define(draft, form.definition, author=user, **kept)
        _set_tools_of_draft(draft, of, form.cleaned_data["servers"], user)
    return draft


def _set_tools_of_draft(draft: Agent, of: Agent | None, servers: list[str], user: User) -> None:
    """Whatever the draft before had is gone: what asks when it is saved asks here, too."""
    asking = {tool_policies.ALL_MCP: "ask"} if servers else {}
    tool_policies.set_policies(draft, asking | (tool_policies.policies_of(of) if of else {}), user)
    draft.tool_secrets.all().delete()
    for known in of.tool_secrets.filter(url__in=servers) if of else ():
        ToolSecret.objects.create(agent=draft, url=known.url, secret=known.secret)


def delete(agent: Agent, user: User) -> bool:
    """Delete the agent. One that has sessions is only switched off, because they refer to it: False."""
    try:
        with write_transaction():
            _record(AuditAction.AGENT_DELETED, agent, user)
            Agent.objects.get(pk=agent.pk).delete()
    except ProtectedError:
        set_enabled(agent, user, False)
        return False
    return True


def set_enabled(agent: Agent, user: User, wanted: bool) -> None:
    """Raises ValidationError if the workspace has too many agents to bring one back."""
    with write_transaction():
        if wanted and (problem := why_not_make(user)):
            raise ValidationError(problem)
        Agent.objects.filter(pk=agent.pk).update(is_enabled=wanted)
        _record(AuditAction.AGENT_CHANGED, agent, user, enabled=wanted)


def _record(action: AuditAction, agent: Agent, user: User, **details: Any) -> None:
    audit.record(action, actor=user, object=agent, workspace=agent.workspace_id, details=details)
