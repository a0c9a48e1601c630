from __future__ import annotations

from collections.abc import Callable

from apps.conversations.search import indexing

ROUNDS = 50  # of one job; the next goes on


def index_newest() -> None:
    """Adds the newest events to the search index."""
    _repeat(indexing.catch_up_newest)


def index_all() -> None:
    """Indexes what `search.index` misses, such as sessions from before there was an index."""
    _repeat(indexing.catch_up_all)


def _repeat(work: Callable[[], int]) -> None:
    for _ in range(ROUNDS):
        if not work():
            return
