"""Finding agents: by words, and by what their cards say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apps.accounts.principals import Principal
from apps.agents.matching import Index
from apps.agents.models import Agent
from apps.agents.words import words_of

SHARES = {Agent.Health.OK: 1.0, Agent.Health.DEGRADED: 0.7, Agent.Health.UNAVAILABLE: 0.4}
"""What counts of how well an agent fits, by its health: one that is not well comes later, and is there."""


def find(
    principal: Principal,
    text: str = "",
    *,
    skill: str = "",
    tag: str = "",
    mode: str = "",
    health: str = "",
    kind: str = "",
) -> list[Agent]:
    """The agents that `principal` may use and that fit all that is asked, the best first. One query.

    Args:
        text: words that the agent or a skill of it says, or a part of its name.
        skill: id or name of a skill.
        tag: of a skill.
        mode: a media type that the agent, or a skill of it, takes or makes; `image/*` is any image.
        health, kind: values of `Agent.Health` and `Agent.Kind`.
    """
    exact = {name: value for name, value in {"health": health, "kind": kind}.items() if value}
    agents = [
        agent
        for agent in Agent.objects.visible_to(principal).filter(**exact)
        if has_skill(agent, skill) and has_tag(agent, tag) and has_mode(agent, mode)
    ]
    scores = _scores(agents, text) if text.strip() else dict.fromkeys((agent.pk for agent in agents), 1.0)
    found = [agent for agent in agents if scores[agent.pk]]
    return sorted(found, key=lambda agent: (-scores[agent.pk] * SHARES[Agent.Health(agent.health)], agent.name))


def has_skill(agent: Agent, skill: str) -> bool:
    """Has it a skill of this id or name? Every agent has the skill ""."""
    return not skill or any(_same(skill, one.get(name, "")) for one in agent.skills for name in ("id", "name"))


def has_tag(agent: Agent, tag: str) -> bool:
    """Has a skill of it this tag? Every agent has the tag ""."""
    return not tag or any(_same(tag, one) for one in tags_of([agent]))


def has_mode(agent: Agent, mode: str) -> bool:
    """Does it take or make this media type? Every agent does ""."""
    return not mode or agent.takes(mode) or agent.makes_any_of([mode])


def skills_of(agents: Iterable[Agent]) -> list[str]:
    """The names of all their skills, in order."""
    return sorted({skill["name"] for agent in agents for skill in agent.skills})


def tags_of(agents: Iterable[Agent]) -> list[str]:
    """All the tags of their skills, in order."""
    return sorted({tag for agent in agents for skill in agent.skills for tag in skill.get("tags", [])})


def modes_of(agents: Iterable[Agent]) -> list[str]:
    """All the media types that they take or make, in order."""
    lists = [modes for agent in agents for modes in (agent.input_modes, agent.output_modes)]
    of_skills = [
        skill.get(name, []) for agent in agents for skill in agent.skills for name in ("inputModes", "outputModes")
    ]
    return sorted({mode for modes in [*lists, *of_skills] for mode in modes})


def _scores(agents: list[Agent], text: str) -> dict[int, float]:
    """How well each agent fits the text: as well as what fits best of it, and wholly where its name says it."""
    said = [(agent.pk, one) for agent in agents for one in _texts(agent)]
    found = Index(one for _, one in said).scores(words_of(text))
    scores = {agent.pk: float(_is_in(text, agent.name) or _is_in(text, agent.slug)) for agent in agents}
    for (key, _), score in zip(said, found, strict=True):
        scores[key] = max(scores[key], score)
    return scores


def _texts(agent: Agent) -> list[dict[str, Any]]:
    """What is searched of an agent: itself and its skills."""
    itself = {"name": agent.name, "description": agent.description}
    return [itself, *({"name": "", "description": "", **skill} for skill in agent.skills)]


def _is_in(text: str, name: str) -> bool:
    return text.strip().casefold() in name.casefold()


def _same(one: str, other: str) -> bool:
    return one.strip().casefold() == other.strip().casefold()
