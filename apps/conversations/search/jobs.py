"""The job that indexes what is new: it follows the event table by the events' keys, in the order that they were given.

It goes only as far as no open transaction can add an event (`sql.newest_event`), so it misses none, and is as late as
its interval and the longest open transaction. `Progress` says where it is, so after an outage it goes on from there.
Once a day it compares all sessions with the index, which finds what did not come as a new event: sessions from before
the job, those restored from cold storage after the index was reset, a log that a fork took over.
"""

from __future__ import annotations

import datetime
import logging
import time
import uuid
from collections.abc import Callable, Iterable
from functools import partial
from itertools import batched
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError

from apps.conversations.search import indexing, sql
from apps.conversations.search.models import Progress
from apps.conversations.search.sql import Behind
from apps.record.models import Event
from parley.db.sql import database_time

log = logging.getLogger("parley.search")

SECONDS = 14.0  # of one run, a bit less than between two; the next goes on
EVENTS = 5_000  # after which progress is noted
CHECK_EVERY = datetime.timedelta(days=1)


def index_new() -> None:
    """Adds what is new to the search index, and once a day what is missing in it."""
    newest, writers = sql.newest_event()
    start = {"event": newest, "next_event": newest, "writers": writers}  # the check finds what there is already
    progress, _ = Progress.objects.get_or_create(pk=1, defaults=start)
    if not sql.have_ended(progress.writers):
        return
    end = time.monotonic() + SECONDS
    if _index_events(progress, end):
        newest, writers = sql.newest_event()
        _note(progress, next_event=max(newest, progress.event), writers=writers)
        _check_sessions(progress, end)


def _index_events(progress: Progress, end: float) -> bool:
    """Index the sessions of all events up to `next_event`. False if that takes longer."""
    while (after := progress.event) < progress.next_event:
        new = Event.objects.filter(pk__gt=after, pk__lte=progress.next_event).order_by("pk")
        upto = new.values_list("pk", flat=True)[EVENTS - 1 : EVENTS].first() or progress.next_event
        if not (_index(partial(sql.behind_by_events, after, upto), end) and _note(progress, event=upto)):
            return False
    return True


def _check_sessions(progress: Progress, end: float) -> None:
    if progress.checked is None:
        if progress.checked_at is not None and database_time() < progress.checked_at + CHECK_EVERY:
            return
        if not _note(progress, checked=indexing.FIRST_KEY):
            return
    while keys := indexing.sessions_after(progress.checked or indexing.FIRST_KEY):
        if not (_index(partial(sql.BEHIND.all, keys), end) and _note(progress, checked=keys[-1])):
            return
    _note(progress, checked=None, checked_at=database_time())


def _index(find: Callable[[], list[Behind]], end: float) -> bool:
    """Index what `find` gives until it gives nothing. False if that takes longer."""
    failed: set[uuid.UUID] = set()
    while behind := [one for one in find() if one.context not in failed]:
        for some in batched(behind, indexing.CONTEXTS_AT_ONCE):
            if (began := time.monotonic()) > end:
                return False
            try:
                indexing.index_sessions(some)
            except (OperationalError, InterfaceError):
                raise
            except Exception:
                failed |= _index_each(some)
            if settings.EMBEDDED:  # requests of this process come first
                time.sleep(time.monotonic() - began)
    return time.monotonic() < end


def _index_each(sessions: Iterable[Behind]) -> set[uuid.UUID]:
    """Index these one by one. Gives those that failed; the daily check tries them again."""
    failed = set()
    for one in sessions:
        try:
            while behind := sql.BEHIND.all([one.context]):
                indexing.index_sessions(behind)
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            log.exception("session %s could not be indexed for search", one.context)
            failed.add(one.context)
    return failed


def _note(progress: Progress, **values: Any) -> bool:
    """Set values, unless another run has gone on meanwhile: two at once index the same, and one of them stops."""
    held = Progress.objects.filter(pk=progress.pk, event=progress.event, checked=progress.checked)
    for name, value in values.items():
        setattr(progress, name, value)
    return bool(held.update(**values))
