"""Passages: pieces of files and pages that a search found (`task.search`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a file or page that `task.search` found.

    Attributes:
        title: its source, such as "handbook.pdf, page 3".
        url: where it opens in a browser, perhaps without the host; "" if nowhere.
        heading: the headings above it, joined by ›.
        page: of a PDF, from 1.
        score: from 0 to 1, comparable only within one search.
    """

    text: str
    title: str = ""
    url: str = ""
    heading: str = ""
    page: int | None = None
    score: float = 0.0

    def cite(self, number: int) -> str:
        """A link in Markdown for an answer, such as `[1](/knowledge/passages/0a1b2c3d4e "handbook.pdf, page 3")`.

        People see it as a numbered mark that opens the passage.
        """
        title = "".join(letter for letter in self.title if letter.isprintable()).replace("\\", "/").replace('"', "'")
        return f'[{number}]({self.url} "{title}")'

    @property
    def about(self) -> dict[str, Any]:
        """It as JSON, as the record keeps what a search found."""
        return {"title": self.title, "url": self.url, "heading": self.heading, "text": self.text}


Search = Callable[[str, int], Awaitable[list[Passage]]]
"""Given by the host: the best passages for a query, at most so many."""


async def search_nothing(query: str, limit: int) -> list[Passage]:
    """Without anything to search."""
    return []
