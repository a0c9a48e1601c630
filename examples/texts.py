"""Texts that were sent or delivered, and simple text statistics."""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from agentkit import AgentFailure, File, ReceivedArtifact, TaskContext, UnreadableContent

LARGEST = 1_000_000  # characters


async def text_of_files(task: TaskContext) -> str:
    """The text of this turn's files. Raises AgentFailure for other files and for too much text."""
    texts = [await asyncio.to_thread(_text, file) for file in task.files]
    return _bounded("\n\n".join(texts))


async def text_of_turn(task: TaskContext) -> str:
    """The text of the message and its files. Raises AgentFailure as `text_of_files` does."""
    return _bounded("\n\n".join(filter(None, [task.message.text.strip(), await text_of_files(task)])))


def delivered_artifact(task: TaskContext, name: str = "") -> ReceivedArtifact | None:
    """The artifact of a referenced task with that name, or by default the first with text."""
    artifacts = [artifact for reference in task.references for artifact in reference.artifacts]
    return next((one for one in artifacts if (one.name == name if name else text_of_artifact(one))), None)


def text_of_artifact(artifact: ReceivedArtifact) -> str:
    spoken = [part["text"] for part in artifact.parts if "text" in part]
    stored = [file for file in artifact.files if file.media_type.startswith("text/") and "text" not in file.part]
    return _bounded("\n\n".join([*spoken, *map(_text, stored)]))


def _text(file: File) -> str:
    try:
        return file.read().decode()
    except UnicodeDecodeError:
        raise AgentFailure(f"“{file.name}” is no text. Send a text file in UTF-8, such as .txt or .md.") from None
    except UnreadableContent as unreadable:
        raise AgentFailure(f"“{file.name}” cannot be read. {unreadable}") from None


def _bounded(text: str) -> str:
    if len(text) > LARGEST:
        raise AgentFailure(f"This text has {counted(len(text), 'character')}. Send at most {LARGEST:,} at once.")
    return text


WORD = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*")
SENTENCE_END = re.compile(r"(?<=[.!?…؟])\s+|(?<=[.!?…؟][\"'”’)\]])\s+|(?<=[。！？])|\n\s*\n")


def sentences(text: str) -> list[str]:
    """The sentences, headings and list items, each on one line."""
    lines = (" ".join(piece.split()) for piece in SENTENCE_END.split(text) if piece)
    return [line for line in lines if line]


def words(text: str) -> list[str]:
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
    """The most frequent words, common ones left out."""
    counted = Counter(word.casefold() for word in words(text) if len(word) > 3)
    return [term for term, _ in counted.most_common() if term not in COMMON][:most]


def key_sentences(said: Sequence[str], about: Iterable[str], most: int) -> list[str]:
    """The `most` sentences with the highest density of the terms, in their order."""
    wanted = set(about)

    def weight(at: int) -> tuple[float, int]:
        found = [word.casefold() for word in words(said[at])]
        return (-sum(word in wanted for word in found) / (len(found) + 5), at)

    return [said[at] for at in sorted(sorted(range(len(said)), key=weight)[:most])]


def counted(number: int, thing: str, things: str = "") -> str:
    """`1 word`, `1,200 words`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def cut(text: str, most: int) -> str:
    """The text on one line, without invisible characters, at most `most` characters; "…" marks a cut."""
    line = "".join(letter for letter in " ".join(text.split()) if letter.isprintable())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def figure(value: float) -> str:
    """About four significant digits; very large and very small numbers with an exponent."""
    if not math.isfinite(value):
        return "–"
    size = abs(value)
    if size and (size >= 1e12 or size < 1e-4):
        return f"{value:.3e}"
    if value == int(value) or size >= 1e5:
        return f"{value:,.0f}"
    return f"{value:,.{max(3 - math.floor(math.log10(size)), 1)}f}".rstrip("0").rstrip(".")


def share(part: int, whole: int) -> str:
    """A percentage; 0 % and 100 % only for exact values."""
    percent = 100 * part / whole if whole else 0.0
    if 0 < percent < 0.1:
        return "less than 0.1 %"
    if percent < 10 and percent != round(percent):
        return f"{percent:.1f} %"
    return "more than 99 %" if 99 < percent < 100 else f"{percent:.0f} %"
