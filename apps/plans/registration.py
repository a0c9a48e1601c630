"""Registering plans: their definition says what they are, the platform how they are used."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from apps.accounts.models import User
from apps.agents import versions
from apps.agents.models import Agent, AgentVersion
from apps.agents.registration import found_or_new, set_fields
from apps.plans import checks
from apps.plans.definitions import PlanDefinition

RESERVED_SLUGS = frozenset({"new", "check", "runs", "schema", "questions"})
"""Words that stand beside the names of plans in addresses, so that no plan could be reached by them."""


@transaction.atomic
def register_plan(
    slug: str, definition: PlanDefinition, *, author: User | None = None, note: str = "", **policies: Any
) -> Agent:
    """Register or update the plan `slug`. Raises ValidationError with sentences by their paths.

    Args:
        author: who writes it; a new plan is theirs, for the members of their own workspace until its `access` says
            otherwise. None is the installation itself.
        policies: further fields of Agent, such as `access`; those not given keep their value.
    """
    agent = found_or_new(slug)
    if not agent.pk and slug in RESERVED_SLUGS:
        sentence = f"{slug} cannot be the name of a plan: pages and addresses here are called so. Choose another slug."
        raise ValidationError({"slug": sentence})
    if agent.pk and agent.kind != Agent.Kind.PLAN:
        raise ValidationError({"slug": f"{slug} is an agent of another kind. Choose another slug."})
    if agent.pk and author and not may_change(author, agent):
        raise ValidationError({"slug": f"There is an agent {slug} already. Choose another slug."})
    if author and not agent.pk:
        policies = {"workspace": author.personal_workspace, "access": Agent.Access.WORKSPACE, **policies}
    define(agent, definition, author=author, note=note, **policies)
    return agent


@transaction.atomic
def define(
    agent: Agent, definition: PlanDefinition, *, author: User | None = None, note: str = "", **policies: Any
) -> AgentVersion:
    """Make the plan what the definition says, as a new version where it differs. Raises ValidationError."""
    checks.check(definition, agent.slug, author.principal if author else None)
    capabilities = {**agent.capabilities, "streaming": True}
    kept = {"capabilities": capabilities, "retry_safe": True, "health": Agent.Health.OK, "ailment": ""}
    set_fields(agent, {**kept, **policies, **definition.stated})
    return versions.keep(agent, definition.content, author=author, note=note)


def restore(version: AgentVersion, *, author: User | None, note: str) -> AgentVersion:
    """Make the plan what that version says (RESTORERS). Raises ValidationError where it cannot work so any more."""
    return define(version.agent, PlanDefinition.read(version.content), author=author, note=note)


def may_change(user: User, agent: Agent) -> bool:
    """Is the plan theirs, or are they an operator of agents?"""
    return agent.workspace.personal_of_id == user.pk or user.has_perm("agents.change_agent")
