"""Ranking the agents that a caller may use for a piece of work: for negotiation, search and the router."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.db.models import Count, Exists, F, OuterRef

from apps.accounts.principals import Principal
from apps.agents import search
from apps.agents.cards import card_skills
from apps.agents.models import Agent, caller_latency_ms
from apps.agents.negotiation import GOOD_MATCH, Assessment, Measurements, WorkRequest, assess
from apps.agents.search import SkillIndex, SkillMatch, words_of
from apps.installation.embeddings import Vector
from apps.record.execution import Run
from apps.routing import embeddings
from parley import db

Stamps = Mapping[int, datetime.datetime]


@dataclass(frozen=True)
class Registry:
    """All enabled agents as they were at these times, and the index of their skills.

    Every ranking uses all agents, so that an agent's score does not depend on who asks.
    """

    stamps: Stamps
    agents: Mapping[int, Agent]
    owners: Sequence[int]  # the agent of each text of the index
    index: SkillIndex

    @classmethod
    def read(cls) -> Registry:
        agents = {agent.pk: agent for agent in Agent.objects.enabled()}
        skills = [(key, skill) for key, agent in agents.items() for skill in card_skills(agent)]
        stamps = {key: agent.updated_at for key, agent in agents.items()}
        return cls(stamps, agents, [key for key, _ in skills], SkillIndex(skill for _, skill in skills))

    def matches(self, text: str, vectors: tuple[Vector, list[Vector]] | None) -> dict[int, list[SkillMatch]]:
        """How the skills of each agent fit a text: by words, or with vectors half by words and half by meaning."""
        found = self.index.matches(words_of(text))
        if vectors is not None:
            asked, known = vectors
            alike = (embeddings.cosine_similarity(asked, vector) for vector in known)
            found = [
                replace(match, score=(match.score + likeness) / 2, likeness=likeness)
                for match, likeness in zip(found, alike, strict=True)
            ]
        by_agent: dict[int, list[SkillMatch]] = {}
        for owner, match in zip(self.owners, found, strict=True):
            by_agent.setdefault(owner, []).append(match)
        return by_agent


_registry: Registry | None = None
_registry_lock = threading.Lock()


async def rank_agents(principal: Principal, ask: WorkRequest, agent: Agent | None = None) -> list[Assessment]:
    """The listed agents that the caller may use, without the router, best first; those that would decline come last.

    With `agent`, which the caller may use, only that one, listed or not.
    """
    registry, measured = await db.run(usable_agents, principal, agent)
    vectors = await embeddings.vectors_of(ask.text, [text.plain for text in registry.index.texts])

    def assess_all() -> list[Assessment]:
        matches = registry.matches(ask.text, vectors)
        found = (assess(ask, registry.agents[key], facts, matches.get(key, [])) for key, facts in measured.items())
        return sorted(found, key=lambda one: one.rank)

    return await db.run(assess_all)


def usable_agents(principal: Principal, agent: Agent | None = None) -> tuple[Registry, dict[int, Measurements]]:
    """The listed agents that a caller may use, or `agent`, by key, with their measurements.

    Two queries while the registry is unchanged.
    """
    usable = Agent.objects.visible_to(principal).filter(pk=OuterRef("pk"))
    known = Agent.objects.enabled().order_by().annotate(is_usable=Exists(usable))
    measured = known.annotate(took=F("stats__took_p50"), waited=F("stats__waited_p50"))
    rows = list(measured.values_list("pk", "slug", "updated_at", "is_usable", "listed", "took", "waited"))
    registry = _current_registry({key: updated for key, _, updated, *_ in rows})
    queues = queue_depths()
    return registry, {
        key: Measurements(caller_latency_ms(took, waited), queues.get(key, 0))
        for key, slug, _, is_usable, listed, took, waited in rows
        if is_usable
        and key in registry.agents
        and (key == agent.pk if agent else listed and slug != settings.ROUTER_AGENT)
    }


def queue_depths() -> dict[int, int]:
    unfinished: Any = Run.objects.unfinished().values_list("task__agent").order_by()
    return dict(unfinished.annotate(Count("pk")))


def _current_registry(stamps: Stamps) -> Registry:
    """The registry, read again if its stamps differ, by one thread at a time."""
    global _registry
    with _registry_lock:
        if _registry is None or _registry.stamps != stamps:
            _registry = Registry.read()
        return _registry


@dataclass(frozen=True, slots=True)
class FoundAgent:
    agent: Agent
    assessment: Assessment | None

    @property
    def rank(self) -> tuple[bool, tuple[bool, float, str], str]:
        assessed = self.assessment
        return assessed is None, assessed.rank if assessed else (True, 0.0, ""), self.agent.slug


async def search_agents(principal: Principal, text: str, **narrowed: str) -> list[FoundAgent]:
    """The listed agents that the caller may use and that fit by their words or a skill, best first.

    `narrowed` are the filters of `agents.search.matching`. The agents' stats are loaded.
    """
    assessed = {one.agent.pk: one for one in await rank_agents(principal, WorkRequest(text))}
    return await db.run(_matching_agents, principal, text, narrowed, assessed)


def _matching_agents(
    principal: Principal, text: str, narrowed: Mapping[str, str], assessed: Mapping[int, Assessment]
) -> list[FoundAgent]:
    usable = search.matching(search.find_agents(principal), **narrowed)
    worded = {agent.pk for agent in search.matching(usable, text)}
    found = [FoundAgent(agent, assessed.get(agent.pk)) for agent in usable]
    fitting = [one for one in found if one.agent.pk in worded or _fits(one.assessment)]
    return sorted(fitting, key=lambda one: one.rank)


def _fits(assessment: Assessment | None) -> bool:
    return assessment is not None and any(match.score > GOOD_MATCH for match in assessment.matches)
