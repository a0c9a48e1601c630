"""The words of a text, for comparing what is asked with what agents say of themselves."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache

# Scripts that are written without spaces: pairs of their letters do for words.
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
WORD = re.compile(rf"[{UNSPACED}]+|[^\W{UNSPACED}]+")
IS_UNSPACED = re.compile(f"[{UNSPACED}]")


def words_of(text: str) -> list[str]:
    """The words that tell something, in order and in one spelling of upper and lower case; nothing is stemmed."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return [
        word for found in WORD.findall(folded) for word in _split(found.strip("_")) if word not in _telling_nothing()
    ]


@lru_cache(maxsize=10_000)
def vocabulary_of(text: str) -> frozenset[str]:
    """The words of a short text that is looked at again and again, such as a tag."""
    return frozenset(words_of(text))


def _split(run: str) -> Iterator[str]:
    if len(run) < 3 or not IS_UNSPACED.match(run):
        yield from [run] if run else []
        return
    yield from (run[at : at + 2] for at in range(len(run) - 1))


@cache
def _telling_nothing() -> frozenset[str]:
    """English words that say nothing of what a text is about; in other languages rarity has to tell them apart."""
    from bm25s.stopwords import STOPWORDS_EN_PLUS  # it brings numpy along: not before something is ranked

    return frozenset(STOPWORDS_EN_PLUS) | {"please"}
