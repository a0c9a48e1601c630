"""Finds passages: by words and by meaning, in the collections that the asker may search."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from apps.accounts.principals import Principal

MOST_FOUND = 20


@dataclass(frozen=True, slots=True)
class Asking:
    """Who searches, and where.

    Attributes:
        principal: whose rights count, now.
        agent: the key of the agent that searches for them: its collections. None: a person searches.
        project: of the session: its collections.
        collections: only these, if they are among the ones that may be searched.
    """

    principal: Principal
    agent: int | None = None
    project: uuid.UUID | None = None
    collections: tuple[uuid.UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """A passage that was found.

    Attributes:
        ref: its name in citations (`Passage.ref`).
        source: the source's name.
        score: from 0 to 1, comparable only within one answer.
    """

    ref: str
    text: str
    source: str
    collection: str
    heading: str = ""
    page: int | None = None
    score: float = 0.0

    @property
    def title(self) -> str:
        """As a citation names it, such as "handbook.pdf, page 3"."""
        return f"{self.source}, page {self.page}" if self.page else self.source

    @property
    def url(self) -> str:
        """Where it opens, in a browser."""
        return f"/knowledge/passages/{self.ref}"


async def search(asking: Asking, query: str, limit: int = 5) -> list[Found]:
    """The best passages, the best first. Without a model for embeddings: by words alone.

    Raises InvalidParams for an empty query.
    """
    raise NotImplementedError
