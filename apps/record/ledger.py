"""The one door through which anything is written to the record.

    with ledger.writing(context_id) as log:
        log.add(EventType.AGENT_STATUS, {"state": "working"}, task=task_id)

One transaction: it locks the context first (every other lock comes after it), folds each event into the rows, and
gives out indexes that are gapless because nobody else writes to this context until the commit.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.db import connection, models, transaction
from django.db.models import Q
from django.utils import timezone

from apps.record import notifications, runs
from apps.record.content import blobs
from apps.record.events import EventType, Opening
from apps.record.hooks import hook, hooks
from apps.record.models import Accepted, Artifact, Context, Event, Message, Run, Task
from apps.record.projection import NO_PART_OF_REPLAY, fold, without_artifact
from apps.record.runs import Lease, LeaseLost
from apps.record.sql import ARTIFACTS_IN_STATE, CONTEXT, TASK_OF_CONTEXT
from db import sql
from db.sql import CLOCK_SQL, NOW, Batch, time_from, write_transaction


class StaleWrite(Exception):
    """A row changed under a transaction that holds its context: something writes around the ledger."""


@contextmanager
def writing(context: uuid.UUID | Context, *, lease: Lease | None = None) -> Iterator[Ledger]:
    """Open the log of a context for one transaction; one that `new_context` gave is created.

    A row that is passed in is locked, and the columns that say where its log ends are refreshed.
    With `lease`, everything is written on behalf of a run, whose lease is extended.
    Raises Context.DoesNotExist (ContextCleared for one that was cleared), LeaseLost, IllegalTransition; then
    nothing was written.
    """
    row = CONTEXT.one(context) if isinstance(context, uuid.UUID) else context
    if row is None:
        raise Context.DoesNotExist
    while True:
        with suppress(ContextIsCold), write_transaction():
            log = Ledger(row, timezone.now() if row._state.adding else lock_context(row))
            if lease is not None:
                log.renew_lease(lease)
            yield log
            log.write()
            return
        hook("RESTORE_CONTEXT")(row.pk)


def new_context() -> Context:
    """A context for `writing` to create; its first event says by `opens` what it is (see `Ledger.opening`)."""
    return Context(pk=uuid.uuid4())


class ContextCleared(LeaseLost, Context.DoesNotExist):
    """The context was cleared: its log has ended, and no run of it is anybody's."""


class ContextIsCold(Exception):
    """The context is in cold storage: it is to be restored."""


def lock_context(context: Context) -> datetime.datetime:
    """Lock the row, read under the lock what changes, and give the database's time.

    Raises Context.DoesNotExist (ContextCleared for one that was cleared), ContextIsCold.
    """
    suffix = connection.ops.for_update_sql() if connection.features.has_select_for_update else ""
    table = Context._meta.db_table
    columns = f"last_event, is_watched, deleted_at, archived_at, cold_file, {CLOCK_SQL[connection.vendor]}"
    found = sql.execute(f"SELECT {columns} FROM {table} WHERE id = %s {suffix}", [context.pk]).fetchone()  # noqa: S608
    if found is None:
        raise Context.DoesNotExist
    deleted_at, archived_at, cold_file, now = found[2:]
    if deleted_at is not None:
        raise ContextCleared
    if cold_file:
        raise ContextIsCold
    context.last_event, context.is_watched = found[0], bool(found[1])
    context.archived_at = time_from(archived_at) if archived_at else None
    context.cold_file, context.cold_at = "", None
    return time_from(now)


DESCRIPTION_FIELDS = ("title", "agent", "options", "archived_at")
"""What changes of a context, beside where its log ends."""


DERIVED_FIELDS = {field.attname for field in Context._meta.concrete_fields if not field.primary_key} - NO_PART_OF_REPLAY


class Ledger:
    """An open transaction on one context: events that were added, and the rows as they leave them."""

    def __init__(self, context: Context, now: datetime.datetime) -> None:
        self.context = context
        self.now = now  # by the database's clock, as leases are, wherever that was asked
        self._base_index = context.last_event
        self.events: list[Event] = []
        self._described = _description(context)
        self._lease: Lease | None = None
        self._tasks: dict[uuid.UUID, Task] = {}
        self._loaded: dict[uuid.UUID, tuple[str, datetime.datetime]] = {}
        self._artifacts: dict[uuid.UUID, list[Artifact]] = {}
        self._messages: dict[int, Message] = {}
        self._new_tasks: list[Task] = []
        self._also: list[models.Model] = []
        self._new_artifacts: list[Artifact] = []
        self._is_cleared = False
        self._wait = notifications.LATER
        self._remembered: dict[str, Any] | None = None

    def renew_lease(self, lease: Lease, values: dict[str, Any] | None = None) -> None:
        """Write on behalf of a run, which gets these values; without any its lease is extended. Raises LeaseLost."""
        held = {"id": lease.run_id, "fence": lease.fence, "state": Run.State.RUNNING, "lease_until__gt": NOW}
        if not sql.update(Run, held, values or {"lease_until": runs.lease_end(self.now)}):
            raise LeaseLost
        self._lease, self._wait = lease, notifications.SOON

    def acquire_lease(self, lease: Lease, where: dict[str, Any], values: dict[str, Any]) -> None:
        """Write on behalf of a run that becomes this worker's. Raises LeaseLost unless `where` is so."""
        if not sql.update(Run, where, values):
            raise LeaseLost
        self._lease = lease

    def add(
        self,
        type_: EventType,
        payload: Any,
        *,
        task: uuid.UUID | None = None,
        artifact_id: str = "",
    ) -> Event:
        """Append one event with the payload that `events.PAYLOADS` names for its type."""
        event = Event(
            context=self.context,
            index=self.context.last_event + 1,
            type=type_,
            task_id=task,
            run=self._lease.run_id if self._lease else None,
            artifact_id=artifact_id,
            payload=payload,
            at=timezone.now(),
        )
        fold(event, self)
        self.events.append(event)
        return event

    def opening(self, opening: Opening) -> Opening:
        """Open a new context: what its first event carries as `opens`. Without a contextId it gets its own key."""
        complete: Opening = {**opening, "contextId": opening["contextId"] or str(self.context.pk)}
        self.context.context_id = complete["contextId"]
        return complete

    def index_of(self, type_: EventType) -> int:
        """The index of the first event of a type that was added."""
        return next(event.index for event in self.events if event.type == type_)

    def message_at(self, index: int) -> Message:
        """The message that the added event of this index brought."""
        return self._messages[index]

    def insert_with_events(self, row: models.Model) -> None:
        """Insert a row of execution state together with the events."""
        self._also.append(row)

    def remember(self, changed: dict[str, Any], forgotten: Collection[str]) -> None:
        """Change some keys of the context's memory, and leave the others as they are by now."""
        kept = Context.objects.filter(pk=self.context.pk).values_list("memory", flat=True).first() or {}
        self._remembered = {key: value for key, value in kept.items() if key not in forgotten} | changed

    def write(self) -> None:
        """Write what was added. `writing` calls it last."""
        if not self.events and not self._also:
            return
        batch = Batch()
        self._save_context(batch)
        if self._tasks:
            self._save_tasks(batch)
        batch.insert(*self._new_tasks)
        batch.insert(*self._messages.values())
        for row in self._also:
            batch.insert(row)
        if self._artifacts or self._new_artifacts:
            self._save_artifacts(batch)
        batch.insert(*self.events)
        batch.write()
        blobs.count_uses(self.context.workspace_id, (part for event in self.events for part in event.parts))
        if self._is_cleared:
            erase_context(self.context, self._base_index)
        if self.context.is_watched:
            for listener in hooks("LEDGER_LISTENERS"):
                listener(self.context, self.events)
        announcement = self.context.pk, self.context.last_event, self.context.owner_id
        statuses = (event for event in self.events if event.type == EventType.AGENT_STATUS)
        wait = 0.0 if any(event.settles for event in statuses) else self._wait
        transaction.on_commit(lambda: notifications.announce(*announcement, wait=wait))

    def use_loaded(self, task: Task, artifacts: list[Artifact] | None = None) -> None:
        """Take a task that was read before, and its artifacts if known; compare-and-swap guards its state."""
        self._tasks[task.pk], self._loaded[task.pk] = task, (task.state, task.status_at)
        if artifacts is not None:
            self._artifacts[task.pk] = artifacts

    # The rows that events are folded into (`projection.Rows`)

    def task(self, task_id: uuid.UUID | None) -> Task:
        """The task as this transaction has it. Raises Task.DoesNotExist for one of another context."""
        if task_id is None:
            raise Task.DoesNotExist
        if task_id not in self._tasks:
            task = TASK_OF_CONTEXT.one(task_id, self.context.pk)
            if task is None:
                raise Task.DoesNotExist
            self.use_loaded(task)
        return self._tasks[task_id]

    def add_task(self, task: Task) -> None:
        self._new_tasks.append(task)
        self.use_loaded(task, artifacts=[])

    def add_message(self, message: Message) -> None:
        self._messages[message.index] = message

    def add_artifact(self, artifact: Artifact) -> None:
        self._new_artifacts = [*without_artifact(self._new_artifacts, artifact), artifact]
        if (known := self._artifacts.get(artifact.task_id)) is not None:
            self._artifacts[artifact.task_id] = [*without_artifact(known, artifact), artifact]

    def provisional_artifacts(self, task: Task) -> list[Artifact]:
        if task.pk not in self._artifacts:
            stored = ARTIFACTS_IN_STATE.all(task.pk, Artifact.State.PROVISIONAL)
            self._artifacts[task.pk] = stored
            for artifact in self._new_artifacts:
                if artifact.task_id == task.pk:
                    self._artifacts[task.pk] = [*without_artifact(self._artifacts[task.pk], artifact), artifact]
        return [known for known in self._artifacts[task.pk] if known.state == Artifact.State.PROVISIONAL]

    def chunks(self, artifact: Artifact) -> list[Event]:
        new = [event for event in self.events if is_chunk_of(event, artifact)]
        if artifact in self._new_artifacts:
            return new
        stored = Event.objects.filter(
            task_id=artifact.task_id, artifact_id=artifact.artifact_id, index__gte=artifact.first_event
        )
        return [*stored.order_by("index"), *new]

    def clear(self) -> None:
        """Drop what was read or added; `write` deletes the rows, and the log but for what this transaction adds."""
        self._is_cleared = True
        for event in self.events:
            if event.type == EventType.AGENT_CANCELLED:
                event.payload = {"discarded": []}  # ids that an agent chose
        self._new_tasks, self._new_artifacts = [], []
        self._tasks, self._artifacts, self._messages = {}, {}, {}

    def unfinished_tasks(self, tasks: Collection[str]) -> list[tuple[Task, list[Artifact]]]:
        """Always empty: the tasks that a fork inherits belong to other contexts."""
        return []

    def _save_context(self, batch: Batch) -> None:
        values = {"last_event": self.context.last_event, "updated_at": self.context.updated_at}
        if self.context._state.adding:
            self.context.memory = self._remembered or {}
            batch.insert(self.context)
        else:
            if (described := _description(self.context)) != self._described:
                fields = zip(DESCRIPTION_FIELDS, self._described, described, strict=True)
                # What this transaction did not change, others may have changed since the row was read.
                values |= {name: now for name, before, now in fields if now != before}
            if self._remembered is not None:
                values["memory"] = self._remembered
            if self.context.deleted_at is not None:
                values = {name: getattr(self.context, name) for name in DERIVED_FIELDS} | {"memory": {}}
            where = {"id": self.context.pk, "last_event": self._base_index, "is_watched": self.context.is_watched}
            where["cold_file"] = ""
            batch.update(Context, where, values, missing=StaleWrite(f"context {self.context.pk} has grown"))

    def _save_tasks(self, batch: Batch) -> None:
        """Compare and swap: the state that the transaction began with is the state in the row."""
        for task in self._tasks.values():
            state, status_at = self._loaded[task.pk]
            if task in self._new_tasks or (task.state, task.status_at) == (state, status_at):
                continue
            values = {
                "state": task.state,
                "status_message": task.status_message,
                "slot": task.slot,
                "status_at": task.status_at,
                "status_event": task.status_event,
            }
            if task.metadata:
                values["metadata"] = task.metadata
            batch.update(
                Task, {"id": task.pk, "state": state}, values, missing=StaleWrite(f"task {task.pk} was {state}")
            )

    def _save_artifacts(self, batch: Batch) -> None:
        for artifact in (a for known in self._artifacts.values() for a in known if not a._state.adding):
            if artifact.state != Artifact.State.PROVISIONAL:
                values = {name: getattr(artifact, name) for name in ("state", "parts", "digest", "signature")}
                batch.update(Artifact, {"id": artifact.pk}, values)
        batch.insert(*self._new_artifacts, replacing=("task", "artifact_id"))


def is_chunk_of(event: Event, artifact: Artifact) -> bool:
    """Does the event bring a chunk of the artifact, as it was begun last?"""
    is_later = event.index >= artifact.first_event
    return is_later and event.task_id == artifact.task_id and event.artifact_id == artifact.artifact_id


def _description(context: Context) -> tuple[Any, ...]:
    return context.title, context.agent_id, context.options, context.archived_at


def erase_context(context: Context, upto: int) -> None:
    """Delete the rows of the context's tasks and messages, with all that hangs on them, and its log up to an event.

    What forks share of it is theirs, and stays. What a sender's messages led to is forgotten, but not that they were
    sent: none of them runs again. Files that nobody else uses go after the commit.
    """
    stored = [part for prepare in hooks("BEFORE_ERASURE") for part in prepare(context) or ()]
    led_here = Q(task__context=context) | Q(answer__context=context)
    Accepted.objects.filter(led_here).update(task=None, answer=None, claimed_until=None)
    _forget_inputs_of_referring_tasks(context)
    Task.objects.filter(context=context).delete()
    Message.objects.filter(context=context).delete()
    _erase_log(context, upto, stored)


def _erase_log(context: Context, upto: int, besides: list[Any]) -> None:
    """Delete the events, and let go of the files that they name, and of those `besides`."""
    log = Event.objects.filter(context=context, index__lte=upto)
    stored = besides + [
        part
        for event in log.filter(payload__icontains='"stored"').order_by("index").iterator(100)
        for part in event.parts
        if "stored" in part
    ]
    blobs.release_uses(context.workspace_id, stored)  # all at once, that is in their order
    released = blobs.stored_files(stored).keys()
    log.delete()
    for forget in hooks("FILES_RELEASED"):
        forget(context.owner_id, released)
    if released:
        transaction.on_commit(lambda: blobs.delete_unused(released), robust=True)


def _forget_inputs_of_referring_tasks(context: Context) -> None:
    """Tasks elsewhere may refer to tasks of this one, and what their turns were given has words of it."""
    gone = {str(task) for task in Task.objects.filter(context=context).values_list("pk", flat=True)}
    elsewhere = Task.objects.filter(owner=context.owner_id).exclude(context=context).exclude(references=[])
    referring = [key for key, references in elsewhere.values_list("pk", "references") if gone.intersection(references)]
    _forget_inputs(referring)


def _forget_inputs(tasks: Collection[uuid.UUID]) -> None:
    """The hashes stay, which tell whether two turns were given the same."""
    Run.objects.filter(task__in=tasks).update(input={})
