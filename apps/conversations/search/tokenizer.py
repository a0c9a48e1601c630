"""Splits texts and queries into words, in the same way on every database.

A word is a run of letters and digits, without case, accents and characters that show nothing. A script without spaces
gives a word for each pair of neighbors and one for the last character, so that any part of such a text is a phrase.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import zip_longest
from typing import NamedTuple

from apps.record.content.parts import INVISIBLE

MAX_WORD_LENGTH = 60  # characters; of longer words only the beginning counts

UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3005\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # ideographs
)
UNSPACED_CHARACTER = re.compile(f"[{UNSPACED}]")
PICTURES = "\u2600-\u27bf\U0001f300-\U0001faff"  # emoji: each is a word
ASCII_WORD = re.compile("[a-z0-9]+")
ACCENTS = re.compile("[\u0300-\u036f]")


class Word(NamedTuple):
    """A word as it is compared, and its place in the text."""

    text: str
    start: int
    end: int


def tokenize(text: str) -> Iterator[Word]:
    for found in _pattern().finditer(text):
        run, start = found[0], found.start()
        if found.lastgroup == "unspaced":
            yield from _pairs(run, start)
        elif folded := fold(run):
            yield Word(folded, start, found.end())


def words_in(text: str) -> list[str]:
    """The words of `tokenize`, without their places: faster, as most of a text is letters of ASCII."""
    if text.isascii():
        return [word[:MAX_WORD_LENGTH] for word in ASCII_WORD.findall(text.lower())]
    found: list[str] = []
    for run in text.split():  # no word has a space in it
        if run.isascii():
            found += [word[:MAX_WORD_LENGTH] for word in ASCII_WORD.findall(run.lower())]
        else:
            found += [word.text for word in tokenize(run)]
    return found


def fold(word: str) -> str:
    """Without case and accents, and not too long."""
    if not word.isascii():
        word = INVISIBLE.sub("", word)
        bare = ACCENTS.sub("", unicodedata.normalize("NFKD", word.casefold()))
        word = "".join(filter(_belongs, unicodedata.normalize("NFKC", bare)))
    return word.lower()[:MAX_WORD_LENGTH]


def _belongs(character: str) -> bool:
    """Can it be in a word? Normalization may produce signs that cannot."""
    return character.isalnum() or unicodedata.category(character) in ("Mn", "Mc", "Me", "So")


def is_unspaced(word: str) -> bool:
    return UNSPACED_CHARACTER.match(word) is not None


def _pairs(run: str, start: int) -> Iterator[Word]:
    shown = [place for place, character in enumerate(run) if not INVISIBLE.match(character)]
    for place, following in zip_longest(shown, shown[1:]):
        last = place if following is None else following
        folded = (unicodedata.normalize("NFKC", run[one])[:1] for one in dict.fromkeys((place, last)))
        yield Word("".join(folded), start + place, start + last + 1)


@cache
def _pattern() -> re.Pattern[str]:
    """Letters and digits with their marks; `re` has no class of marks, so they are listed."""
    marks = "".join(chr(code) for code in range(0x300, 0x11000) if unicodedata.category(chr(code))[0] == "M")
    hidden = f"{INVISIBLE.pattern}*"
    letters = rf"(?:(?![{UNSPACED}_{PICTURES}])[\w{marks}]{hidden})"
    return re.compile(rf"(?P<unspaced>(?:[{UNSPACED}]{hidden})+)|(?P<picture>[{PICTURES}])|(?P<word>{letters}+)")
