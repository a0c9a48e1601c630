"""The only writer of events and of the rows derived from them.

    with ledger.writing(context_id) as log:
        log.add(EventType.AGENT_STATUS, {"state": "working"}, task=task_id)

This is one transaction. It locks the context before any other lock, folds each event into the rows, and numbers events
without gaps: nobody else writes to the context until the commit. Without the lock, the write fails instead if somebody
else has written since the context was read (`unless_stale`).
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, models, transaction

from apps.agents import versions
from apps.agents.models import Agent
from apps.record.chain import erasing
from apps.record.content import blobs
from apps.record.events import EventType, Opening
from apps.record.execution import Accepted, Run
from apps.record.models import SETTLED_STATES, Artifact, Context, Event, IllegalTransition, Message, Task
from apps.record.projection import NO_PART_OF_REPLAY, Rows, fold
from apps.record.reading import notifications
from apps.record.runs import Lease, LeaseLost
from apps.record.sql import ARTIFACTS_IN_STATE, CHUNKS, CONTEXT, TASK_OF_CONTEXT, tasks_that_refer_to
from parley.db import sql
from parley.db.sql import CLOCK_SQL, NOW, Keys, Now, Update, corrected_time, note_time, time_from, write_transaction
from parley.registry import added
from parley.telemetry import metrics


class StaleWrite(Exception):
    """A row changed while its context was locked: other code writes to the record."""


@contextmanager
def writing(
    context: uuid.UUID | Context,
    *,
    lease: Lease | None = None,
    lease_values: dict[str, Any] | None = None,
    lock: bool = True,
) -> Iterator[Ledger]:
    """Open a context's log for one transaction. An unsaved context is created; its first event has `opens`.

    `lease`: events are written on behalf of this run, and its lease is extended. `lease_values`: more for its row.
    Without `lock`, only the log's own writes are one transaction, and they fail if the context has grown since it was
    read; what the block reads is not protected. See `unless_stale`.
    Raises Context.DoesNotExist, ContextCleared, LeaseLost, IllegalTransition; then nothing is written.
    """
    row = CONTEXT.one(context) if isinstance(context, uuid.UUID) else context
    if row is None:
        raise Context.DoesNotExist
    if not lock:
        log = Ledger(row, None, lease, lease_values)
        yield log
        log.write(alone=True)
        return
    while True:
        with suppress(ContextIsCold), write_transaction():
            log = Ledger(row, None if row._state.adding else lock_context(row), lease, lease_values)
            try:
                yield log
            except IllegalTransition:
                log.write_lease()  # a run that lost its lease hears that first
                raise
            log.write()
            return
        added["restore_context"](row.pk)


def unless_stale[T](write: Callable[[bool], T]) -> T:
    """`write(False)` writes without a lock; if others have written since it read the context, `write(True)` locks it.

    On PostgreSQL the first is one statement. Until it fails, `write` must change nothing in memory but the context.
    """
    try:
        return write(False)
    except (OperationalError, InterfaceError):
        raise
    except Exception:  # it may have read what others were changing: only what happens under the lock counts
        return write(True)


@contextmanager
def clearing(contexts: Sequence[Context]) -> Iterator[list[Ledger]]:
    """Open the logs of contexts of one owner and workspace in one transaction. The block ends each by its deletion.

    Leaves out those that were deleted meanwhile. Many contexts do not wait for who locks one of them.
    Raises ContextIsCold, OperationalError; then nothing is written.
    """
    with write_transaction():
        found = Context.objects.filter(pk__in=Keys(one.pk for one in contexts), deleted_at=None).order_by("pk")
        rows = list(found.select_for_update(nowait=len(contexts) > 1))
        if any(row.cold_file for row in rows):
            raise ContextIsCold
        note_time(now := sql.database_time())
        logs = [Ledger(row, now, stored={name: getattr(row, name) for name in ERASED_FIELDS}) for row in rows]
        yield logs
        if rows:
            erase_contexts(rows)
            new, updates = zip(*(log._rows() for log in logs), strict=True)
            sql.write(chain.from_iterable(new), [*chain.from_iterable(updates)], UNIQUE)
        for log in logs:
            log._announce()


class ContextCleared(LeaseLost, Context.DoesNotExist):
    """The context was deleted, and with it its runs' leases."""


class ContextIsCold(Exception):
    """The context is in cold storage and must be restored first."""


def lock_context(context: Context) -> datetime.datetime:
    """Lock the row, refresh the columns that others may have changed, and give the database's time.

    Raises Context.DoesNotExist, ContextCleared, ContextIsCold.
    """
    suffix = connection.ops.for_update_sql() if connection.features.has_select_for_update else ""
    table = Context._meta.db_table
    columns = f"last_event, head_hash, is_watched, deleted_at, archived_at, cold_file, {CLOCK_SQL[connection.vendor]}"
    found = sql.execute(f"SELECT {columns} FROM {table} WHERE id = %s {suffix}", [context.pk]).fetchone()  # noqa: S608
    if found is None:
        raise Context.DoesNotExist
    deleted_at, archived_at, cold_file, now = found[3:]
    if deleted_at is not None:
        raise ContextCleared
    if cold_file:
        raise ContextIsCold
    context.last_event, context.head_hash, context.is_watched = found[0], found[1], bool(found[2])
    context.archived_at = time_from(archived_at) if archived_at else None
    context.cold_file, context.cold_at = "", None
    at = time_from(now)
    note_time(at)
    return at


DESCRIPTION_FIELDS = (
    "title", "agent_id", "options", "agent_version", "archived_at", "is_shared", "project", "is_temporary",
)  # fmt: skip
"""Columns that few events change, updated only if they differ."""

UNIQUE: dict[type[models.Model], tuple[str, ...]] = {Artifact: ("task", "artifact_id")}
DERIVED_FIELDS = {field.attname for field in Context._meta.concrete_fields if not field.primary_key} - NO_PART_OF_REPLAY
ERASED_FIELDS = {*DERIVED_FIELDS, "head_hash", "memory", "approved_tools"}


@dataclass(slots=True)
class AlsoWritten:
    """What somebody writes in the transaction of another's events: rows, updates of rows, and values of the run."""

    rows: list[models.Model] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    run: dict[str, Any] = field(default_factory=dict)


class Ledger(Rows):
    """What one transaction adds to a context: events, and the rows after them.

    Attributes:
        extra_rows: other rows, such as runs, to insert with the events.
        extra_updates: of rows that no event changes, written with them.
        may_be_lost: by a crash of the database, because it is done again then. Such a write alone does not wait for the
            disk.
    """

    may_be_lost = False

    def __init__(
        self,
        context: Context,
        now: datetime.datetime | None,
        lease: Lease | None = None,
        lease_values: dict[str, Any] | None = None,
        stored: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(context)
        self._stored = stored or {}  # values of a row that was read under the lock
        self._now = now
        self.events: list[Event] = []
        self.extra_rows: list[models.Model] = []
        self.extra_updates: list[Update] = []
        self._base_index, self._base_hash = context.last_event, context.head_hash
        self._description = {name: getattr(context, name) for name in DESCRIPTION_FIELDS}
        self._lease: Lease | None = None
        self._lease_update: Update | None = None  # written with the events
        self._loaded: dict[uuid.UUID, tuple[str, datetime.datetime, dict[str, Any]]] = {}  # when read
        self._with_artifacts: set[uuid.UUID] = set()  # tasks whose stored artifacts are loaded
        self._is_cleared = False
        self._wait = notifications.LATER
        self._memory: dict[str, Any] | None = None
        if lease is not None:
            self.renew_lease(lease, {"lease_until": Now(settings.RUN_LEASE_SECONDS)} | (lease_values or {}))

    @property
    def now(self) -> datetime.datetime:
        """The database's time at the start."""
        if self._now is None:
            self._now = corrected_time() if self.context._state.adding else sql.database_time()
        return self._now

    def renew_lease(self, lease: Lease, values: dict[str, Any] | None = None) -> None:
        """Write on behalf of a run: set these values on it, or extend its lease. The write raises LeaseLost."""
        held = {**lease.is_held, "state": Run.State.RUNNING, "lease_until__gt": NOW}
        self.acquire_lease(lease, held, values or {"lease_until": Now(settings.RUN_LEASE_SECONDS)})
        self._wait = notifications.SOON

    def acquire_lease(self, lease: Lease, where: dict[str, Any], values: dict[str, Any]) -> None:
        """Claim a run and write on its behalf. The write raises LeaseLost unless the run matches `where`."""
        if self._lease_update is not None:
            self.write_lease()
        self._lease, self._lease_update = lease, Update(Run, where, values, LeaseLost())

    def write_lease(self) -> None:
        """Write the run's row now instead of with the events. Raises LeaseLost."""
        if self._lease_update is not None:
            update, self._lease_update = self._lease_update, None
            sql.write(updates=[update])

    def add(
        self,
        type_: EventType,
        payload: Any,
        *,
        task: uuid.UUID | None = None,
        artifact_id: str = "",
    ) -> Event:
        """Append an event; `events.PAYLOADS` has its payload's type."""
        event = Event(
            context=self.context,
            index=self.context.last_event + 1,
            type=type_,
            task_id=task,
            run=self._lease.run_id if self._lease else None,
            artifact_id=artifact_id,
            payload=payload,
            at=corrected_time(),
        )
        fold(event, self)
        self.events.append(event)
        return event

    def opening(self, opening: Opening, agent: Agent | None = None) -> Opening:
        """The `opens` of a new context's first event. The default contextId is the context's key.

        `agent`: its own, whose version is chosen now.
        """
        complete: Opening = {**opening, "contextId": opening["contextId"] or str(self.context.pk)}
        if agent and (number := versions.number_for_session(agent, complete["contextId"])) is not None:
            complete["version"] = number
        self.context.context_id = complete["contextId"]
        return complete

    def watch(self) -> None:
        """Call listeners for the context's events from now on. The context is locked, or new."""
        if not self.context.is_watched and not self.context._state.adding:
            Context.objects.filter(pk=self.context.pk).update(is_watched=True)
        self.context.is_watched = True

    def remember(self, changed: dict[str, Any], forgotten: Collection[str]) -> None:
        """Set and delete keys of the context's memory."""
        kept = Context.objects.filter(pk=self.context.pk).values_list("memory", flat=True).first() or {}
        self._memory = {key: value for key, value in kept.items() if key not in forgotten} | changed

    def use_loaded(self, task: Task, *, has_artifacts: bool = True) -> None:
        """Use a task that was read before the lock; compare-and-swap guards its state."""
        self.tasks[task.pk], self._loaded[task.pk] = task, (task.state, task.status_at, task.metadata)
        if not has_artifacts:
            self._with_artifacts.add(task.pk)

    def task(self, task_id: uuid.UUID | None) -> Task:
        """The task in this transaction. Raises Task.DoesNotExist, also for another context's task."""
        if task_id is None:
            raise Task.DoesNotExist
        if task_id not in self.tasks:
            task = TASK_OF_CONTEXT.one(task_id, self.context.pk)
            if task is None:
                raise Task.DoesNotExist
            self.use_loaded(task)
        return self.tasks[task_id]

    def provisional_artifacts(self, task_id: uuid.UUID | None) -> list[Artifact]:
        key = task_id if task_id in self.tasks else self.task(task_id).pk
        made = self.artifacts_by_task.setdefault(key, {})
        if key not in self._with_artifacts:
            stored = ARTIFACTS_IN_STATE.all(key, Artifact.State.PROVISIONAL)
            made = {artifact.artifact_id: artifact for artifact in stored if artifact.artifact_id not in made} | made
            self.artifacts_by_task[key] = made
            self._with_artifacts.add(key)
        return [artifact for artifact in made.values() if artifact.state == Artifact.State.PROVISIONAL]

    def chunks(self, artifact: Artifact) -> list[Event]:
        key, first = (artifact.task_id, artifact.artifact_id), artifact.first_event
        new = [event for event in self.events if (event.task_id, event.artifact_id) == key and event.index >= first]
        if artifact._state.adding:
            return new
        return [*CHUNKS.all(artifact.task_id, artifact.artifact_id, artifact.first_event), *new]

    def clear(self) -> None:
        """Drop all rows; `write` then also deletes the stored ones and the earlier log."""
        super().clear()
        self._is_cleared, self._loaded = True, {}
        for event in self.events:
            if event.type == EventType.AGENT_CANCELLED:
                event.payload = {"discarded": []}  # agents choose these ids, so they are content

    def write(self, *, alone: bool = False) -> None:
        """Write all rows, and register what follows the commit; `writing` calls it last.

        `alone`: in a transaction of their own. Raises StaleWrite or LeaseLost if they do not fit.
        """
        if not self.events and not self.extra_rows:
            self.write_lease()
            return
        stored = blobs.stored_parts(self.events)
        if alone and (self.context.is_watched or stored):
            with write_transaction():
                self.write()
            return
        if self._lease_update is not None and any(isinstance(row, Run) for row in self.extra_rows):
            self.write_lease()  # first, because a task has one unfinished run
        context = self.context
        if self._is_cleared:
            erase_contexts([context])
        new, updates = self._rows()
        sql.write(new, updates, unique_fields=UNIQUE, alone=alone, may_be_lost=self.may_be_lost)
        if stored:
            blobs.count_uses(context.workspace_id, stored)
        self._announce()

    def _rows(self) -> tuple[list[models.Model], list[Update]]:
        """The new rows, and the updates of stored ones."""
        context = self.context
        # The chain of a deleted context begins anew: nothing stays that its content led to.
        newest = "" if self._is_cleared else context.head_hash or ""
        for event in self.events:
            context.head_hash = newest = event.hash = event.hash_after(newest)
        artifacts = [artifact for made in self.artifacts_by_task.values() for artifact in made.values()]
        updates = self._updates(artifacts)
        rows: list[models.Model] = [context, *self.tasks.values(), *artifacts]
        new = [row for row in rows if row._state.adding]
        return [*new, *self.messages.values(), *self.extra_rows, *self.events], updates

    def _announce(self) -> None:
        """Call listeners, and register what follows the commit."""
        context = self.context
        if context.is_watched:
            for listener in added["ledger_listeners"]:
                listener(context, self.events)
        changes = [event.payload["state"] for event in self.events if event.type == EventType.AGENT_STATUS]
        is_settled = not SETTLED_STATES.isdisjoint(changes)
        settles = is_settled or self._lease is None  # what a run says on its way settles nothing
        owner = "" if context.owner_id is None else str(context.owner_id)
        reached = str(context.pk), context.last_event, owner
        wait = 0.0 if is_settled else self._wait
        transaction.on_commit(partial(self._committed, *reached, settles=settles, wait=wait))
        if is_settled or any(event.answers for event in self.events if event.type == EventType.AGENT_MESSAGE):
            for listener in added["answer_listeners"]:
                transaction.on_commit(partial(listener, context, self.events), robust=True)

    def _committed(self, context: str, newest: int, owner: str, *, settles: bool, wait: float) -> None:
        for event in self.events:
            metrics.EVENTS[event.type].inc()
        notifications.notify(notifications.REACHED, context, newest, owner, settles=settles, wait=wait)

    def _updates(self, artifacts: list[Artifact]) -> list[Update]:
        """Updates of stored rows, by compare-and-swap on context and tasks."""
        context = self.context
        updates: list[Update] = []
        if context._state.adding:
            context.memory = self._memory or {}
        else:
            described = {name: getattr(context, name) for name in DESCRIPTION_FIELDS}
            moved = ("last_event", "head_hash", "updated_at")
            values: dict[str, Any] = {name: getattr(context, name) for name in moved}
            # A field that did not change here may have changed in the database since it was read.
            values |= {name: value for name, value in described.items() if value != self._description[name]}
            if self._memory is not None:
                values["memory"] = self._memory
            if context.deleted_at is not None:
                context.memory, context.approved_tools = {}, []
                values = {name: getattr(context, name) for name in ERASED_FIELDS}
                values = {name: one for name, one in values.items() if self._stored.get(name, ...) != one}
            where = {"id": context.pk, "last_event": self._base_index, "is_watched": context.is_watched}
            where["cold_file"] = ""
            if self._base_hash is not None:  # an earlier write that failed may have left both behind in this object
                where["head_hash"] = self._base_hash
            updates.append(Update(Context, where, values, StaleWrite(f"context {context.pk} has grown")))
        for key, (state, *rest) in self._loaded.items():
            task = self.tasks[key]
            if (task.state, task.status_at, task.metadata) != (state, *rest):
                names = ["state", "status_message", "slot", "status_at", "status_event"]
                names += ["metadata"] if task.metadata else []
                values = {name: getattr(task, name) for name in names}
                updates.append(Update(Task, {"id": key, "state": state}, values, StaleWrite(f"task {key} was {state}")))
        for artifact in artifacts:
            if not artifact._state.adding and artifact.state != Artifact.State.PROVISIONAL:
                values = {name: getattr(artifact, name) for name in ("state", "parts", "digest", "signature")}
                updates.append(Update(Artifact, {"id": artifact.pk}, values))
        if self._lease_update is not None:
            updates.append(self._lease_update)
        return [*updates, *self.extra_updates]


def erase_contexts(contexts: Sequence[Context]) -> None:
    """Delete the logs of locked contexts of one owner and workspace, and all rows that depend on them.

    Rows of forks and accepted message ids stay: no message runs again. Unused files are deleted after the commit. The
    number of statements does not depend on the number of contexts.
    """
    keys, workspace, owner = Keys(one.pk for one in contexts), contexts[0].workspace_id, contexts[0].owner_id
    stored = [part for prepare in added["before_erasure"] for part in prepare(keys) or ()]
    for led_here in ("task", "answer"):
        accepted = Accepted.objects.filter(**{f"{led_here}__context__in": keys})
        accepted.update(task=None, answer=None, claimed_until=None)
    _forget_inputs(keys)
    Task.objects.filter(context__in=keys).delete()
    Message.objects.filter(context__in=keys).delete()
    log = Event.objects.filter(context__in=keys)
    with_files = log.filter(payload__icontains='"stored"').order_by("context", "index").iterator(100)
    stored += blobs.stored_parts(with_files)
    blobs.release_uses(workspace, stored)  # one call: it sorts, against deadlocks
    released = blobs.stored_files(stored).keys()
    with erasing(*keys):
        log.delete()
    for forget in added["files_released"]:
        forget(owner, released)
    if released:
        transaction.on_commit(lambda: blobs.delete_unused(released), robust=True)


def _forget_inputs(contexts: Keys) -> None:
    """Delete the inputs of other contexts' runs that quote tasks of these; their hashes stay."""
    gone = list(Task.objects.filter(context__in=contexts).values_list("pk", flat=True))
    if elsewhere := tasks_that_refer_to(gone).difference(gone):
        Run.objects.filter(task__in=elsewhere).update(input={})
