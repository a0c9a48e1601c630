"""What shows that a log is as it was recorded: the database refuses changes, and each event has a hash.

An event's hash covers the event and the hash of the newest one before it in the log; the newest hash is also in the
context's row. Events that an earlier version recorded have none: there the chain begins with the first that has one. A
fork's chain goes on from its parent's. Which context stores an event is no part of its hash, because the log of a
deleted parent moves to a fork.

Two functions may go around the database's triggers (`erasing`): `ledger.erase_contexts`, with the hand-over to a fork,
and the archive's move into cold storage.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from django.db import connection, transaction

from apps.record import lineage
from apps.record.models import Context, Event
from parley.db import sql, triggers


def newest_hash(context: Context, upto: int) -> str:
    """The hash of the newest event of the context's log, up to an index, that has one; "" if none has."""
    if not context.head_hash or upto >= context.last_event:
        return context.head_hash or ""
    hashed = lineage.events(context, upto=upto).exclude(hash=None).order_by("-index")
    return hashed.values_list("hash", flat=True).first() or ""


class Chain:
    """Follows the events of a log in order, and compares each with its hash.

    Attributes:
        problem: the first event that does not fit, as a line; "" so far.
    """

    def __init__(self, after: int = 0, previous: str = "") -> None:
        self.problem = ""
        self._index, self._newest = after, previous

    def follow(self, events: Iterable[Event]) -> Iterator[Event]:
        """The events, each after it was compared."""
        for event in events:
            if not self.problem:
                self._compare(event)
            yield event

    def _compare(self, event: Event) -> None:
        self._index += 1
        if event.index != self._index:
            self.problem = f"event {self._index} is missing"
        elif event.hash is not None:
            if event.hash != event.hash_after(self._newest):
                self.problem = f"event {event.index} is not as it was recorded: its hash does not fit"
            self._newest = event.hash

    def end(self, context: Context) -> str:
        """The problem with the whole log: also if its newest events are not those that the context's row knows."""
        if not self.problem and self._index < context.last_event:
            self.problem = f"event {self._index + 1} is missing"
        if not self.problem and self._newest != (context.head_hash or ""):
            self.problem = f"event {self._index} is not the newest that was recorded: its hash is not the session's"
        return self.problem


def problem_of_own_events(context: Context) -> str:
    """The first event that does not fit among those that the context itself stores; "" if all do."""
    own = Event.objects.filter(context=context).order_by("index")
    first = own.values_list("index", flat=True).first()
    if first is None:
        return ""
    chain = Chain(first - 1, newest_hash(context, first - 1))
    for _ in chain.follow(own.iterator(chunk_size=500)):
        pass
    return chain.end(context)


@contextmanager
def erasing(*contexts: uuid.UUID) -> Iterator[None]:
    """In this block, the database lets events of these contexts be deleted, or moved to a fork. Blocks are not nested.

    Only this transaction sees that the gate is open. An error rolls the block back, and so closes the gate.
    """
    is_postgresql = connection.vendor == "postgresql"
    open_gate, close_gate = GATES[connection.vendor]
    with transaction.atomic():
        sql.execute(open_gate, [",".join(map(str, contexts)) if is_postgresql else [*contexts]])
        yield
        sql.execute(close_gate, [])


GATES = {
    "postgresql": ("SELECT set_config('parley.erasing', %s, true)", "SELECT set_config('parley.erasing', '', true)"),
    "sqlite": (
        "INSERT INTO record_erasing (context_id) SELECT value FROM json_each(%s)",
        "DELETE FROM record_erasing",
    ),
}
"""The statements that open and close the gate of the triggers, by the database's vendor."""

TRIGGERS = {
    "postgresql": ("event_no_update", "event_no_delete", "event_no_truncate"),
    "sqlite": ("event_no_update", "event_no_delete", "event_no_replace"),
}


def missing_triggers() -> list[str]:
    """Those that should protect the log, and are missing or switched off."""
    return triggers.missing(TRIGGERS)
