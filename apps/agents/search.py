"""Finding agents: by words (BM25 over their skills), and by what their cards say."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from math import log1p
from typing import Any

from apps.accounts.principals import Principal
from apps.agents.models import Agent

HEALTH_WEIGHTS = {Agent.Health.OK: 1.0, Agent.Health.DEGRADED: 0.7, Agent.Health.UNAVAILABLE: 0.4}
"""What counts of how well an agent fits, by its health: one that is not well comes later, and is there."""


def find_agents(
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
    return sorted(found, key=lambda agent: (-scores[agent.pk] * HEALTH_WEIGHTS[Agent.Health(agent.health)], agent.name))


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
    found = SkillIndex(one for _, one in said).scores(words_of(text))
    scores = {agent.pk: float(_contains(text, agent.name) or _contains(text, agent.slug)) for agent in agents}
    for (key, _), score in zip(said, found, strict=True):
        scores[key] = max(scores[key], score)
    return scores


def _texts(agent: Agent) -> list[dict[str, Any]]:
    """What is searched of an agent: itself and its skills."""
    itself = {"name": agent.name, "description": agent.description}
    return [itself, *({"name": "", "description": "", **skill} for skill in agent.skills)]


def _contains(text: str, name: str) -> bool:
    return text.strip().casefold() in name.casefold()


def _same(one: str, other: str) -> bool:
    return one.strip().casefold() == other.strip().casefold()


JSON = dict[str, Any]

SATURATION = 1.2  # BM25's k1: how little it adds when a skill says the same word again
BACKGROUND = 50  # skills that say other things, which are thought to be there besides the real ones


@dataclass(frozen=True)
class SkillMatch:
    """How well one skill fits, from 0 to 1, and by which of the words asked for."""

    skill: JSON
    score: float
    words: tuple[str, ...] = ()
    likeness: float | None = None  # of meaning, where embeddings are compared: a cosine from 0 to 1

    @property
    def tags(self) -> list[str]:
        """The skill's tags that say one of the words."""
        return [tag for tag in self.skill.get("tags", []) if not word_set(tag).isdisjoint(self.words)]

    @property
    def reasons(self) -> list[str]:
        """Why it fits, in words for people."""
        found = [f"shares the words {', '.join(self.words)}"] if self.words else []
        return found + ([f"means something like it ({self.likeness:.2f})"] if self.likeness is not None else [])


@dataclass(frozen=True)
class SkillText:
    """A skill as the text that is compared."""

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
    """The words of all skills there are, ready to be compared with any text.

    A skill's score is s / (1 + s), where s counts the words that it shares with the text: a word that no other skill
    says counts one (somewhat more if it is said again), a word that all say nothing. So one rare word gives about one
    half and three about three quarters, however long the text is. How rare a word is depends on the other skills; the
    BACKGROUND keeps that dependence small where there are few of them. Lengths do not matter (b = 0).
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
        """How each skill fits these words, in the order of the skills."""
        wanted = dict.fromkeys(asked)
        return [
            SkillMatch(text.skill, score, tuple(word for word in wanted if word in text.vocabulary) if score else ())
            for text, score in zip(self.texts, self.scores(asked), strict=True)
        ]


def _bm25(documents: list[list[str]]) -> Any:
    """The library's index of these documents; None where they say nothing."""
    if not any(documents):
        return None
    import bm25s  # it brings numpy along: not before something is ranked

    index = bm25s.BM25(k1=SATURATION, b=0.0, method="atire", idf_method="lucene")
    index.index(documents + [[] for _ in range(BACKGROUND)], show_progress=False)
    return index


def _rarest(skills: int) -> float:
    """What a word weighs that one skill of so many says."""
    return log1p((skills + BACKGROUND - 0.5) / 1.5)


# Scripts that are written without spaces: pairs of their letters do for words.
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
WORD = re.compile(rf"[{UNSPACED}]+|[^\W{UNSPACED}]+")
IS_UNSPACED = re.compile(f"[{UNSPACED}]")


def words_of(text: str) -> list[str]:
    """The words that tell something, in order and in one spelling of upper and lower case; nothing is stemmed."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return [word for found in WORD.findall(folded) for word in _bigrams(found.strip("_")) if word not in _stop_words()]


@lru_cache(maxsize=10_000)
def word_set(text: str) -> frozenset[str]:
    """The words of a short text that is looked at again and again, such as a tag."""
    return frozenset(words_of(text))


def _bigrams(run: str) -> Iterator[str]:
    if len(run) < 3 or not IS_UNSPACED.match(run):
        yield from [run] if run else []
        return
    yield from (run[at : at + 2] for at in range(len(run) - 1))


@cache
def _stop_words() -> frozenset[str]:
    """English words that say nothing of what a text is about; in other languages rarity has to tell them apart."""
    from bm25s.stopwords import STOPWORDS_EN_PLUS  # it brings numpy along: not before something is ranked

    return frozenset(STOPWORDS_EN_PLUS) | {"please"}
