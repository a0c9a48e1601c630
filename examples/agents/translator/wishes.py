"""What somebody who writes to the Translator wants: which text, in which language."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class Language(Enum):
    """What can be translated into."""

    GERMAN = "German"
    FRENCH = "French"
    SPANISH = "Spanish"


NAMES = {
    "german": Language.GERMAN, "deutsch": Language.GERMAN, "allemand": Language.GERMAN, "alemán": Language.GERMAN,
    "french": Language.FRENCH, "französisch": Language.FRENCH, "français": Language.FRENCH, "francés": Language.FRENCH,
    "spanish": Language.SPANISH, "spanisch": Language.SPANISH, "espagnol": Language.SPANISH,
    "español": Language.SPANISH,
}  # fmt: skip
NAMED = "|".join(NAMES)
LEAD = "please|now|and|translate|translated|say|write|this|that|it|the|same|following|text|into|in|to|auf|ins"

# “Translate to German: …”, “the same in French”, “German: …”; and “translate … into German”.
BEFORE = re.compile(rf"(?:(?:(?:{LEAD})\s+){{1,6}}({NAMED})\b|({NAMED})(?=\s*(?::|\n|$)))[\s:,.?!-]*", re.IGNORECASE)
AFTER = re.compile(rf"\b(?:in|into|to)\s+({NAMED})[.?!]*$", re.IGNORECASE)
COMMAND = re.compile(r"(?:please\s+)?translate\b[\s:]*", re.IGNORECASE)


@dataclass(frozen=True)
class Wish:
    """The text is empty, and the language None, where none was named."""

    text: str
    language: Language | None = None


def wish_in(said: str) -> Wish:
    """The wish in a message."""
    said = said.strip()
    if found := BEFORE.match(said):
        return Wish(said[found.end() :], NAMES[(found[1] or found[2]).casefold()])
    command = COMMAND.match(said)
    if command and (found := AFTER.search(said)):
        return Wish(_unquoted(said[command.end() : found.start()]), NAMES[found[1].casefold()])
    return Wish(_unquoted(said[command.end() :]) if command else said)


def _unquoted(text: str) -> str:
    return text.strip().strip("“”\"'").strip()
