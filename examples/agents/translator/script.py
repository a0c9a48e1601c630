"""What the Translator does without a language model: word by word from a glossary, in three ways."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from pydantic import BaseModel, Field

from examples.prose import WORD, words

GUESS = "(?)"
"""Stands after a word that was taken for one spelt nearly like it."""

MOST_NAMED = 20  # words in a remark
ALIKE = 0.8  # by difflib's ratio
UNTRANSLATED = "Not translated: "
NAME_WITHIN = re.compile(r"(?<=[\w,;] )[A-Z][\w'’-]*")
ENDINGS = [("ies", "y"), ("es", ""), ("s", ""), ("ing", ""), ("ing", "e"), ("ed", ""), ("ed", "e"), ("'s", "")]

Glossary = dict[str, str]
Lookup = Callable[[str], str | None]


class Judgement(BaseModel):
    """How good a translation is, and what is wrong with it."""

    score: float = Field(ge=0, le=1)
    remarks: list[str] = Field(max_length=20)


def translated(text: str, language: str, previous: str, remarks: Sequence[str]) -> str:
    """First the words as they stand; then inflected forms, too; then, for those remarked on, words spelt nearly so."""
    known = glossary(language)
    listed = [one.removeprefix(UNTRANSLATED) for one in remarks if one.startswith(UNTRANSLATED)]
    missing = [word for one in listed for word in one.split(", ")]
    guesses = {word: near for word in missing if (near := _near(word, known))}
    ways: list[Lookup] = [
        known.get,
        lambda word: known.get(word) or _inflected(word, known),
        lambda word: known.get(word) or _inflected(word, known) or guesses.get(word),
    ]
    tries = [_with(text, way, known) for way in ways]
    if not previous:
        return tries[0]
    later = tries[tries.index(previous) + 1 :] if previous in tries else []
    return next((one for one in later if one != previous), previous)


def judged(text: str, translation: str, language: str) -> Judgement:
    """How many of the words are no longer there as they were; a guess counts half, a name as it is."""
    known, names = glossary(language), {name.casefold() for name in NAME_WITHIN.findall(text)}
    found = [word.casefold() for word in words(text)]
    left = Counter(word.casefold() for word in words(translation))
    times = Counter(found)
    missing = [word for word in times if left[word] >= times[word] and not _is_settled(word, known, names)]
    lost = sum(times[word] for word in missing)
    score = 1 - (lost + translation.count(GUESS) / 2) / len(found) if found else 1.0
    remarks = [UNTRANSLATED + ", ".join(missing[:MOST_NAMED])] if missing else []
    return Judgement(score=max(0.0, score), remarks=remarks)


@cache
def glossary(language: str) -> Glossary:
    """English words and phrases, and how they are said."""
    lines = Path(__file__).with_name("glossary.tsv").read_text(encoding="utf-8").splitlines()
    header, *rows = [line.split("\t") for line in lines if line]
    column = header.index(language)
    return {row[0]: row[column] for row in rows}


def _with(text: str, way: Lookup, known: Glossary) -> str:
    """The text with each phrase and each word said otherwise where the way knows how; all else stays."""

    others = cache(way)

    def said(found: re.Match[str]) -> str:
        word = found[0]
        other = others(word.casefold())
        if other is None:
            return word
        return other[:1].upper() + other[1:] if word[:1].isupper() and word != "I" else other

    return _pieces(known).sub(said, text)


def _pieces(known: Glossary) -> re.Pattern[str]:
    phrases = sorted((re.escape(one) for one in known if " " in one), key=len, reverse=True)
    return re.compile(rf"\b(?:{'|'.join(phrases)})\b|{WORD.pattern}", re.IGNORECASE)


def _inflected(word: str, known: Glossary) -> str | None:
    return next((known[base] for base in _bases(word) if base in known), None)


def _bases(word: str) -> Iterator[str]:
    for ending, instead in ENDINGS:
        if word.endswith(ending) and len(word) > len(ending) + 1:
            base = word.removesuffix(ending) + instead
            yield base
            if base[-1:] == base[-2:-1]:  # running, stopped
                yield base[:-1]


def _near(word: str, known: Glossary) -> str | None:
    found = difflib.get_close_matches(word, known, 1, ALIKE)
    return f"{known[found[0]]} {GUESS}" if found else None


def _is_settled(word: str, known: Glossary, names: set[str]) -> bool:
    """Is it right that it is there as it was?"""
    return word in names or known.get(word, "").casefold() == word
