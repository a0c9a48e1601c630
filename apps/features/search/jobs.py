from __future__ import annotations

from collections.abc import Callable

from celery import shared_task

from apps.features.search import indexing

ROUNDS = 50  # of one job; the next goes on


@shared_task(name="search.index")  # type: ignore[untyped-decorator]
def index_newest() -> None:
    """Adds the newest events to the search index."""
    _repeat(indexing.catch_up_newest)


@shared_task(name="search.index_all")  # type: ignore[untyped-decorator]
def index_all() -> None:
    """Indexes what `search.index` misses, such as sessions from before there was an index."""
    _repeat(indexing.catch_up_all)


def _repeat(work: Callable[[], int]) -> None:
    for _ in range(ROUNDS):
        if not work():
            return
