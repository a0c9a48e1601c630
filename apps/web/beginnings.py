"""Where a session may begin: agents to write to, and things to try with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Max

from apps.accounts.principals import Principal
from apps.agents import finding
from apps.agents.models import Agent
from apps.record.models import Context

LONGEST = 200  # characters of what is searched for
TRIES = 3
GOOD_TO_TRY = ("travel", "writer", "builder")  # of the showcase: one asks, one writes at length, one delivers files


@dataclass(frozen=True, slots=True)
class Try:
    """Something to say to an agent."""

    agent: Agent
    words: str


def agents(principal: Principal, asked: Mapping[str, str] | None = None) -> list[Agent]:
    """Those that the caller may use and that fit the words `q`, the best first; without words, those of late.

    One that cannot work comes last. Two queries at most.
    """
    text = (asked or {}).get("q", "").replace("\x00", "").strip()[:LONGEST]
    found = finding.find(principal, text)
    if text:
        return found
    late = _late(principal)
    return sorted(found, key=lambda agent: (not agent.is_available, -late.get(agent.pk, 0.0), agent.name.casefold()))


def _late(principal: Principal) -> dict[int, float]:
    """When the caller last had to do with an agent, by its key."""
    own = Context.objects.visible_to(principal).listed().order_by()
    rows = own.values_list("agent").annotate(last=Max("updated_at"))
    return {agent: last.timestamp() for agent, last in rows}


def tries(agents: list[Agent]) -> list[Try]:
    """Something to try with some of the agents, which are not all there is."""
    told = {agent.slug: words for agent in agents if agent.is_available and (words := _example(agent))}
    first = {slug: place for place, slug in enumerate(GOOD_TO_TRY)}
    chosen = sorted(told, key=lambda slug: first.get(slug, TRIES))[:TRIES]
    by_slug = {agent.slug: agent for agent in agents}
    return [Try(by_slug[slug], told[slug]) for slug in chosen]


def _example(agent: Agent) -> str:
    return next((example for skill in agent.skills for example in skill.get("examples", [])), "")
