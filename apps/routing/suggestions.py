"""Sentences to try, each with the agent that it begins a session with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from apps.agents.cards import spoken_examples
from apps.agents.models import Agent

SUGGESTIONS, NO_MODEL = "suggestions", "noModel"
"""In an answer's metadata: sentences to try, as [{"agent": slug, "text"}], and whether a language model is missing."""
MOST = 3
PREFERRED_SLUGS = ("report", "travel", "builder")  # of the showcase


@dataclass(frozen=True, slots=True)
class Suggestion:
    agent: Agent
    words: str


def suggested_messages(agents: Iterable[Agent]) -> list[Suggestion]:
    """A sentence to try for each of a few agents that are available."""
    rank = {slug: place for place, slug in enumerate(PREFERRED_SLUGS)}
    chosen = sorted(agents, key=lambda agent: rank.get(agent.slug, len(rank)))
    available = (agent for agent in chosen if agent.is_available)
    found = (Suggestion(agent, words) for agent in available for words in example_messages(agent)[:1])
    return list(islice(found, MOST))


def example_messages(agent: Agent) -> list[str]:
    """What a person might say to it."""
    return [example for skill in agent.skills for example in spoken_examples(skill)]
