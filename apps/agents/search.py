"""Finds agents by words (BM25 over their skills) and by filters of their cards."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from math import log1p
from typing import Any

from django.conf import settings

from apps.accounts.principals import Principal
from apps.agents.models import Agent, AgentStats

HEALTH_WEIGHTS = {Agent.Health.OK: 1.0, Agent.Health.DEGRADED: 0.7, Agent.Health.UNAVAILABLE: 0.4}
"""The factor of an agent's score by its health."""


def find_agents(
    principal: Principal, text: str = "", *, last_used: Mapping[int, float] | None = None, **filters: str
) -> list[Agent]:
    """The listed agents that `principal` may use and that match, with their stats, sorted. One query.

    `last_used` says when `principal` last used an agent, by the agent's key, in seconds since the epoch. For `text`
    and `filters` see `matching`.
    """
    usable = Agent.objects.visible_to(principal).listed().select_related("stats", "current_version")
    ranked = sorted(usable, key=partial(rank_for_choosing, last_used=last_used or {}, maker=principal.user_id))
    return matching(ranked, text, **filters)


def default_agent(principal: Principal) -> Agent | None:
    """The agent that answers if `principal` names none; None if they may use neither. One query."""
    house = (settings.DEFAULT_AGENT, settings.ROUTER_AGENT)
    return default_among(Agent.objects.visible_to(principal).filter(slug__in=house))


def default_among(usable: Iterable[Agent]) -> Agent | None:
    """The agent of messages that name none: the Assistant, or without it the router; one that can work, if any can."""
    house = {settings.DEFAULT_AGENT: 0, settings.ROUTER_AGENT: 1}
    found = [agent for agent in usable if agent.slug in house]
    return min(found, key=lambda agent: (not agent.is_available, house[agent.slug]), default=None)


def rank_for_choosing(agent: Agent, last_used: Mapping[int, float], maker: int | None = None) -> tuple[Any, ...]:
    """The sort key of lists for people: those that they made, pinned ones, the last used, the most used, by name.

    Agents that cannot work come last. The agent's stats should be loaded.
    """
    stats: AgentStats | None = getattr(agent, "stats", None)  # none before its first work
    pinned = (0, agent.pinned) if agent.pinned is not None else (1, 0)
    used = stats.tasks + stats.messages if stats else 0
    is_others = maker is None or agent.owner_id != maker
    return not agent.is_available, is_others, pinned, -last_used.get(agent.pk, 0.0), -used, agent.name.casefold()


def matching(
    agents: Sequence[Agent],
    text: str = "",
    *,
    skill: str = "",
    tag: str = "",
    mode: str = "",
    health: str = "",
    kind: str = "",
    nature: str = "",
    category: str = "",
) -> list[Agent]:
    """The agents that match all filters: those that match `text` best first, or without it in their order.

    Args:
        text: words of the agent or a skill, or part of its name.
        skill: id or name.
        tag: of a skill.
        mode: a media type of the agent or a skill; `image/*` is any image.
        health, kind, nature: values of `Agent.Health`, `Agent.Kind` and `NATURES`.
        category: of the agent.
    """
    fitting = [
        agent
        for agent in agents
        if health in ("", agent.health)
        and kind in ("", agent.kind)
        and nature in ("", agent.nature)
        and (not category or _same(category, agent.category))
        and has_skill(agent, skill)
        and has_tag(agent, tag)
        and has_mode(agent, mode)
    ]
    if not text.strip():
        return fitting
    scores = _scores(fitting, text)
    found = [agent for agent in fitting if scores[agent.pk]]
    return sorted(found, key=lambda agent: (-scores[agent.pk] * HEALTH_WEIGHTS[Agent.Health(agent.health)], agent.name))


def has_skill(agent: Agent, skill: str) -> bool:
    """ "" matches every agent."""
    return not skill or any(_same(skill, one.get(name, "")) for one in agent.skills for name in ("id", "name"))


def has_tag(agent: Agent, tag: str) -> bool:
    """ "" matches every agent."""
    return not tag or any(_same(tag, one) for one in tags_of([agent]))


def has_mode(agent: Agent, mode: str) -> bool:
    """Input or output; "" matches every agent."""
    return not mode or agent.takes(mode) or agent.makes_any_of([mode])


def categories_of(agents: Iterable[Agent]) -> list[str]:
    return sorted({agent.category for agent in agents if agent.category}, key=str.casefold)


def skills_of(agents: Iterable[Agent]) -> list[str]:
    return sorted({skill["name"] for agent in agents for skill in agent.skills})


def tags_of(agents: Iterable[Agent]) -> list[str]:
    return sorted({tag for agent in agents for skill in agent.skills for tag in skill.get("tags", [])})


def modes_of(agents: Iterable[Agent]) -> list[str]:
    """Input and output."""
    lists = [modes for agent in agents for modes in (agent.input_modes, agent.output_modes)]
    of_skills = [
        skill.get(name, []) for agent in agents for skill in agent.skills for name in ("inputModes", "outputModes")
    ]
    return sorted({mode for modes in [*lists, *of_skills] for mode in modes})


def _scores(agents: list[Agent], text: str) -> dict[int, float]:
    """The score of the agent's best skill, or 1 if its name contains the text."""
    said = [(agent.pk, one) for agent in agents for one in _texts(agent)]
    found = SkillIndex(one for _, one in said).scores(words_of(text))
    scores = {agent.pk: float(_contains(text, agent.name) or _contains(text, agent.slug)) for agent in agents}
    for (key, _), score in zip(said, found, strict=True):
        scores[key] = max(scores[key], score)
    return scores


def _texts(agent: Agent) -> list[dict[str, Any]]:
    """An agent's documents: itself and its skills."""
    itself = {"name": agent.name, "description": agent.description}
    return [itself, *({"name": "", "description": "", **skill} for skill in agent.skills)]


def _contains(text: str, name: str) -> bool:
    return text.strip().casefold() in name.casefold()


def _same(one: str, other: str) -> bool:
    return one.strip().casefold() == other.strip().casefold()


JSON = dict[str, Any]

SATURATION = 1.2  # BM25's k1, for repeated words
BACKGROUND = 50  # imaginary skills without these words; they steady the weights if skills are few


@dataclass(frozen=True)
class SkillMatch:
    """A skill's score (0 to 1), and the words that matched."""

    skill: JSON
    score: float
    words: tuple[str, ...] = ()
    likeness: float | None = None  # cosine of the embeddings, 0 to 1

    @property
    def tags(self) -> list[str]:
        """Tags that contain a matched word."""
        return [tag for tag in self.skill.get("tags", []) if not word_set(tag).isdisjoint(self.words)]

    @property
    def reasons(self) -> list[str]:
        """Why it matches, for people."""
        found = [f"shares the words {', '.join(self.words)}"] if self.words else []
        return found + ([f"means something like it ({self.likeness:.2f})"] if self.likeness is not None else [])


@dataclass(frozen=True)
class SkillText:
    skill: JSON

    @property
    def plain(self) -> str:
        tags, examples = self.skill.get("tags", []), self.skill.get("examples", [])
        return " \n".join([self.skill["name"], self.skill["description"], *tags, *examples])

    @cached_property
    def words(self) -> list[str]:
        return words_of(self.plain)

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        return frozenset(self.words)


class SkillIndex:
    """A BM25 index of all skills.

    A skill's score is s / (1 + s), where s is the sum of the weights of the shared words. A word of no other skill
    weighs about 1, a word of all skills 0: one rare word gives about 0.5, three about 0.75. Lengths do not
    matter (b = 0).
    """

    def __init__(self, skills: Iterable[JSON]) -> None:
        self.texts = [SkillText(skill) for skill in skills]
        self._bm25 = _bm25([text.words for text in self.texts])

    def scores(self, asked: Sequence[str]) -> list[float]:
        """The score of each skill for these words."""
        known = [word for word in dict.fromkeys(asked) if self._bm25 and word in self._bm25.vocab_dict]
        if not known:
            return [0.0] * len(self.texts)
        sums = self._bm25.get_scores(known)[: len(self.texts)] / _rarest(len(self.texts))
        return [float(score) for score in sums / (1 + sums)]

    def matches(self, asked: Sequence[str]) -> list[SkillMatch]:
        """The match of each skill, in order."""
        wanted = dict.fromkeys(asked)
        return [
            SkillMatch(text.skill, score, tuple(word for word in wanted if word in text.vocabulary) if score else ())
            for text, score in zip(self.texts, self.scores(asked), strict=True)
        ]


def _bm25(documents: list[list[str]]) -> Any:
    """None for documents without words."""
    if not any(documents):
        return None
    import bm25s  # loads numpy

    index = bm25s.BM25(k1=SATURATION, b=0.0, method="atire", idf_method="lucene")
    index.index(documents + [[] for _ in range(BACKGROUND)], show_progress=False)
    return index


def _rarest(skills: int) -> float:
    """The weight of a word that one of so many skills has."""
    return log1p((skills + BACKGROUND - 0.5) / 1.5)


# Scripts without spaces: pairs of letters are words.
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
WORD = re.compile(rf"[{UNSPACED}]+|[^\W{UNSPACED}]+")
IS_UNSPACED = re.compile(f"[{UNSPACED}]")


def words_of(text: str) -> list[str]:
    """Lower case, in order, without stop words, bare numbers and stemming."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    found = (word for run in WORD.findall(folded) for word in _bigrams(run.strip("_")))
    return [word for word in found if not word.isdigit() and word not in _stop_words()]


@lru_cache(maxsize=10_000)
def word_set(text: str) -> frozenset[str]:
    """Cached; for short texts."""
    return frozenset(words_of(text))


def _bigrams(run: str) -> Iterator[str]:
    if len(run) < 3 or not IS_UNSPACED.match(run):
        yield from [run] if run else []
        return
    yield from (run[at : at + 2] for at in range(len(run) - 1))


@cache
def _stop_words() -> frozenset[str]:
    from bm25s.stopwords import STOPWORDS_EN_PLUS  # loads numpy

    return frozenset(STOPWORDS_EN_PLUS) | {"please"}
