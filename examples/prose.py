"""What can be counted in a text without understanding it: sentences, words, terms, ease of reading."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

WORD = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*")
SENTENCE_END = re.compile(r"(?<=[.!?…؟])\s+|(?<=[.!?…؟][\"'”’)\]])\s+|(?<=[。！？])|\n\s*\n")
VOWELS = re.compile(r"[aeiouyàáâäãåæèéêëìíîïòóôöõøùúûüÿ]+")
LATIN = re.compile(r"[A-Za-zÀ-ÿ]")


def sentences(text: str) -> list[str]:
    """The sentences, each on one line; a heading or a list item counts as one."""
    lines = (" ".join(piece.split()) for piece in SENTENCE_END.split(text) if piece)
    return [line for line in lines if line]


def words(text: str) -> list[str]:
    """Runs of letters of any script; numbers, signs and emoji are none."""
    return WORD.findall(text)


COMMON = frozenset(
    words(
        "about above after again against also although always among another because been before being below between "
        "both cannot could does doing down during each either every from further have having here hers himself "
        "however into itself just made make many more most much must neither never often once only other ours over "
        "same shall should since some such than that their theirs them then there these they this those though "
        "through under until upon very want well were what when where whether which while whose will with within "
        "without would write your yours please text"
    )
)


def terms(text: str, most: int = 10) -> list[str]:
    """The words that the text comes back to, the most frequent first; of equals the earlier."""
    counted = Counter(word.casefold() for word in words(text) if len(word) > 3)
    return [term for term, _ in counted.most_common() if term not in COMMON][:most]


def telling(said: Sequence[str], about: Iterable[str], most: int) -> list[str]:
    """Those `most` sentences that have most of the terms, in their own order; short ones are preferred."""
    wanted = set(about)

    def weight(at: int) -> tuple[float, int]:
        found = [word.casefold() for word in words(said[at])]
        return (-sum(word in wanted for word in found) / (len(found) + 5), at)

    return [said[at] for at in sorted(sorted(range(len(said)), key=weight)[:most])]


def reading_ease(text: str) -> float | None:
    """Flesch's reading ease (1948), about 0 to 100, the higher the easier; None where it says nothing.

    It counts syllables by groups of vowels, so it is for English and languages written like it.
    """
    found, said = words(text), sentences(text)
    if not found or len(LATIN.findall(text)) < 2 * len(found):
        return None
    syllables = sum(max(1, len(VOWELS.findall(word.casefold().removesuffix("e")))) for word in found)
    return 206.835 - 1.015 * len(found) / len(said) - 84.6 * syllables / len(found)


def counted(number: int, thing: str, things: str = "") -> str:
    """`1 word`, `1,200 words`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def cut(text: str, most: int) -> str:
    """At most so many characters, with an ellipsis where something is left out."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"
