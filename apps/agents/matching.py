"""How well skills fit a text: by the words that they share, rare ones counting most (BM25)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log1p
from typing import Any

from apps.agents.words import vocabulary_of, words_of

JSON = dict[str, Any]

SATURATION = 1.2  # BM25's k1: how little it adds when a skill says the same word again
BACKGROUND = 50  # skills that say other things, which are thought to be there besides the real ones


@dataclass(frozen=True)
class Match:
    """How well one skill fits, from 0 to 1, and by which of the words asked for."""

    skill: JSON
    score: float
    words: tuple[str, ...] = ()
    likeness: float | None = None  # of meaning, where embeddings are compared: a cosine from 0 to 1

    @property
    def tags(self) -> list[str]:
        """The skill's tags that say one of the words."""
        return [tag for tag in self.skill.get("tags", []) if not vocabulary_of(tag).isdisjoint(self.words)]

    @property
    def reasons(self) -> list[str]:
        """Why it fits, in words for people."""
        found = [f"shares the words {', '.join(self.words)}"] if self.words else []
        return found + ([f"means something like it ({self.likeness:.2f})"] if self.likeness is not None else [])


@dataclass(frozen=True)
class Text:
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


class Index:
    """The words of all skills there are, ready to be compared with any text.

    A skill's score is s / (1 + s), where s counts the words that it shares with the text: a word that no other skill
    says counts one (somewhat more if it is said again), a word that all say nothing. So one rare word gives about one
    half and three about three quarters, however long the text is. How rare a word is depends on the other skills; the
    BACKGROUND keeps that dependence small where there are few of them. Lengths do not matter (b = 0).
    """

    def __init__(self, skills: Iterable[JSON]) -> None:
        self.texts = [Text(skill) for skill in skills]
        self._bm25 = _bm25([text.words for text in self.texts])

    def scores(self, asked: Sequence[str]) -> list[float]:
        """The score of each skill for these words."""
        known = [word for word in dict.fromkeys(asked) if self._bm25 and word in self._bm25.vocab_dict]
        if not known:
            return [0.0] * len(self.texts)
        sums = self._bm25.get_scores(known)[: len(self.texts)] / _rarest(len(self.texts))
        return [float(score) for score in sums / (1 + sums)]

    def matches(self, asked: Sequence[str]) -> list[Match]:
        """How each skill fits these words, in the order of the skills."""
        wanted = dict.fromkeys(asked)
        return [
            Match(text.skill, score, tuple(word for word in wanted if word in text.vocabulary) if score else ())
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
