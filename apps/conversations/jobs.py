"""The Celery tasks that keep the house: words come into the index, what is old goes into cold storage, or away."""

from __future__ import annotations

from collections.abc import Callable

from celery import shared_task

from apps.conversations import retention, unused
from apps.conversations.archives import sweeping
from apps.conversations.search import indexing
from apps.conversations.uploads import opening

ROUNDS = 50  # of one job; the next goes on


@shared_task(name="conversations.cool")  # type: ignore[untyped-decorator]
def cool_sessions() -> None:
    sweeping.cool_due()


@shared_task(name="conversations.expire")  # type: ignore[untyped-decorator]
def expire_sessions() -> None:
    retention.expire()


@shared_task(name="conversations.sweep_files")  # type: ignore[untyped-decorator]
def sweep_files() -> None:
    unused.sweep()


@shared_task(name="conversations.sweep_uploads")  # type: ignore[untyped-decorator]
def sweep_uploads() -> None:
    opening.sweep()


@shared_task(name="conversations.index")  # type: ignore[untyped-decorator]
def index_newest() -> None:
    _repeat(indexing.catch_up_newest)


@shared_task(name="conversations.index_all")  # type: ignore[untyped-decorator]
def index_all() -> None:
    """What the quick look did not see, such as what was said before there was an index."""
    _repeat(indexing.catch_up_all)


def _repeat(work: Callable[[], int]) -> None:
    for _ in range(ROUNDS):
        if not work():
            return
