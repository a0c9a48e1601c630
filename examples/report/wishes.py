"""What a message asks for: which format, how long."""

import re
from enum import StrEnum

from agentkit import Message
from examples.report.document import Length


class Format(StrEnum):
    """The words of the question; in lower case, with `md` for Markdown, also the ends of file names."""

    PDF = "PDF"
    HTML = "HTML"
    MARKDOWN = "Markdown"

    @property
    def file_name(self) -> str:
        return "report.md" if self is Format.MARKDOWN else f"report.{self.lower()}"


_FORMATS = {
    Format.PDF: re.compile(r"(?<!not )(?<!no )\bpdf\b", re.IGNORECASE),
    Format.HTML: re.compile(r"(?<!not )(?<!no )\b(?:html?|web ?page|website)\b", re.IGNORECASE),
    Format.MARKDOWN: re.compile(r"(?<!not )(?<!no )\b(?:markdown|md)\b", re.IGNORECASE),
}
_SHORT = re.compile(r"\b(?:short(?:er|en|ened)?|brief(?:er|ly)?|concise(?:ly)?|condensed?|one page)\b", re.IGNORECASE)
_FULL = re.compile(r"\b(?:long(?:er)?|full(?:er)?|detail(?:s|ed)?|complete|everything)\b", re.IGNORECASE)


def wished_format(message: Message) -> Format | None:
    """The one format that the message names; None when it names none or several."""
    words = _words(message)
    named = [each for each, pattern in _FORMATS.items() if pattern.search(words)]
    return named[0] if len(named) == 1 else None


def wished_length(message: Message) -> Length | None:
    words = _words(message)
    short, full = bool(_SHORT.search(words)), bool(_FULL.search(words))
    if short == full:
        return None
    return Length.SHORT if short else Length.FULL


def _words(message: Message) -> str:
    """What is said in text or in a form: `{"format": "PDF"}`, or just `"PDF"`."""
    filled_in = [field for value in message.data for field in (value.values() if isinstance(value, dict) else [value])]
    return "\n".join([message.text, *(field for field in filled_in if isinstance(field, str))])
