"""Documents that an assistant writes beside its answers: ChatGPT's canvas, Claude's artifacts.

Each version becomes a file. Branches of a conversation have documents of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from apps.optional.transfers.formats.shape import Context, Said, Skip, written
from apps.optional.transfers.package import Attachment

MAX_DOCUMENT = 2 * 1024**2  # characters
ENDINGS = {
    "bash": ".sh",
    "c": ".c",
    "cpp": ".cpp",
    "csharp": ".cs",
    "css": ".css",
    "go": ".go",
    "html": ".html",
    "java": ".java",
    "javascript": ".js",
    "json": ".json",
    "jsx": ".jsx",
    "markdown": ".md",
    "mermaid": ".mmd",
    "php": ".php",
    "python": ".py",
    "react": ".jsx",
    "ruby": ".rb",
    "rust": ".rs",
    "shell": ".sh",
    "sql": ".sql",
    "svg": ".svg",
    "tsx": ".tsx",
    "typescript": ".ts",
    "xml": ".xml",
    "yaml": ".yaml",
}
WHOLE = re.compile(r"(\(\?s\))?\^?\.[*+]\$?")
ESCAPED = re.compile(r"\\(.)|([.^$*+?{}\[\]|()])", re.DOTALL)
NAMED_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True)
class Document:
    name: str
    kind: str
    text: str

    def as_file(self) -> Attachment:
        ending = ENDINGS.get(self.kind, ".txt")
        name = self.name if self.name.lower().endswith(ending) else f"{self.name}{ending}"
        return written(name, "text/markdown" if ending == ".md" else "text/plain", self.text)


class Documents:
    """The documents of a conversation. `open`: those at the message that was begun last, the newest last."""

    def __init__(self, about: Context) -> None:
        self._about = about
        self._after: dict[Any, dict[str, Document]] = {}
        self.open: dict[str, Document] = {}

    def begin(self, message: Any, before: Any) -> None:
        """Go to a message. Call it for the message before first."""
        self.open = self._after[message] = dict(self._after.get(before, {}))

    def save(self, key: str, document: Document, said: Said) -> None:
        """A new version, which is a file of the message."""
        if not self._about.package.takes_document(len(document.text)):
            self._about.skipped[Skip.EDITS] += 1
            return
        self.open.pop(key, None)
        self.open[key] = document
        said.attach(document.as_file())


def replaced(document: Document, old: str, new: str, *, everywhere: bool = False) -> Document | None:
    """None if the document does not have the old text, or becomes too long."""
    count = document.text.count(old) if old and everywhere else int(bool(old) and old in document.text)
    if not count or len(document.text) + count * len(new) > MAX_DOCUMENT:
        return None
    return replace(document, text=document.text.replace(old, new, -1 if everywhere else 1))


def literal_of(pattern: str) -> str | None:
    """The text that a regular expression without operators means; None for others: they could run for hours."""
    is_plain = True

    def plain(found: re.Match[str]) -> str:
        nonlocal is_plain
        escaped = found[1]
        if escaped is None or (escaped.isalnum() and escaped not in NAMED_ESCAPES):
            is_plain = False
            return ""
        return NAMED_ESCAPES.get(escaped, escaped)

    text = ESCAPED.sub(plain, pattern)
    return text if is_plain else None
