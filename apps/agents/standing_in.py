"""Which agents may take the turns of one that cannot be reached, as its operators name them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError

if TYPE_CHECKING:
    from apps.agents.models import Agent

MOST = 5  # fallbacks of one agent


def check_fallbacks(agent: Agent) -> None:
    """Raises ValidationError where they are no list of slugs, or an agent names itself or one that does not exist."""
    named: Any = agent.fallbacks
    if not isinstance(named, list) or not all(isinstance(slug, str) and slug for slug in named):
        raise _refused('Write a list of slugs, such as ["report"].')
    if len(named) > MOST or len(set(named)) < len(named):
        raise _refused(f"Name at most {MOST} agents, each once.")
    if agent.slug in named:
        raise _refused("An agent cannot stand in for itself.")
    known = set(type(agent).objects.filter(slug__in=named).values_list("slug", flat=True)) if named else set()
    if missing := [slug for slug in named if slug not in known]:
        raise _refused(f"There is no agent {', '.join(missing)}. Register it first.")


def _refused(sentence: str) -> ValidationError:
    return ValidationError({"fallbacks": sentence})
