"""The one door through which anything is written to the record.

    with ledger.writing(context_id) as log:
        log.add(EventType.AGENT_STATUS, {"state": "working"}, task=task_id)

One transaction: it locks the context first (every other lock comes after it), folds each event into the rows, and
gives out indexes that are gapless because nobody else writes to this context until the commit.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from django.db import connection, models, transaction
from django.utils import timezone

from apps.record import blobs, erasure, leases, notifications
from apps.record.events import EventType, Opening
from apps.record.hooks import hooks
from apps.record.leases import Hold, LeaseLost
from apps.record.locking import holding
from apps.record.models import Artifact, Context, Event, Message, Run, Task
from apps.record.projection import NO_PART_OF_REPLAY, fold, without
from db import statements
from db.selections import Selection
from db.statements import NOW, Batch

PROVISIONAL = Selection(
    lambda task, state: Artifact.objects.filter(task=task, state=state).order_by("first_event"),
    uuid.UUID(int=0),
    Artifact.State.PROVISIONAL,
)

CONTEXT = Selection(lambda key: Context.objects.filter(pk=key), uuid.UUID(int=0))
TASK = Selection(
    lambda key, context: Task.objects.select_related("agent").filter(pk=key, context=context),
    uuid.UUID(int=0),
    uuid.UUID(int=1),
)

DESCRIBED = ("title", "agent", "options", "archived_at")
"""What changes of a context, beside where its log ends."""


DERIVED = {field.attname for field in Context._meta.concrete_fields if not field.primary_key} - NO_PART_OF_REPLAY


class Listener(Protocol):
    """What `LEDGER_LISTENERS` names: called with the new events of a watched context, inside their transaction."""

    def __call__(self, context: Context, events: Sequence[Event]) -> None: ...


class StaleTransition(Exception):
    """The task changed under a transaction that holds its context: something writes around the ledger."""


class NotAtOnce(Exception):
    """What was proposed was not written: the context has grown or is watched, or files are to be counted.

    Use `writing`.
    """


@contextmanager
def writing(context: uuid.UUID | Context, *, hold: Hold | None = None) -> Iterator[Ledger]:
    """Open the log of a context for one transaction; one that `new_context` gave is created.

    A context given as a row that was read before is locked and brought up to date as far as its log goes.

    With `hold`, everything is written on behalf of a run, whose lease is extended.
    Raises Context.DoesNotExist (ContextCleared for one that was cleared), LeaseLost, lifecycle.IllegalTransition; then
    nothing was written.
    """
    row = CONTEXT.one(context) if isinstance(context, uuid.UUID) else context
    if row is None:
        raise Context.DoesNotExist
    with holding(row) as now:
        log = Ledger(row, now)
        if hold is not None:
            log.hold(hold)
        yield log
        log.write()


@contextmanager
def proposing(context: Context, now: datetime.datetime | None = None) -> Iterator[Ledger]:
    """Open the log of a context that was read before, at `now`, without locking it.

    All that was added is written at the end, by one statement. In this block nothing may be written but through the
    log. It saves the round trips of a transaction; within one, on a database without a server, and where the context is
    known to be watched, it is `writing`.
    Raises NotAtOnce, and what `writing` raises; then nothing was written.
    """
    if connection.vendor != "postgresql" or connection.in_atomic_block or context.is_watched:
        with writing(context) as log:
            yield log
        return
    if context.cold_file:
        raise NotAtOnce("it is to be brought back first")
    yield (log := Ledger(context, now or timezone.now()))
    if context.is_watched or blobs.are_stored(log.parts()):
        raise NotAtOnce("listeners are called, and files counted, in a transaction")
    log.write()


class Ledger:
    """An open transaction on one context: events that were added, and the rows as they leave them."""

    def __init__(self, context: Context, now: datetime.datetime) -> None:
        self.context = context
        self.now = now  # by the database's clock, as leases are, wherever that was asked
        self._began_at = context.last_event
        self.events: list[Event] = []
        self._described = _description(context)
        self._held: Hold | None = None
        self._tasks: dict[uuid.UUID, Task] = {}
        self._loaded: dict[uuid.UUID, tuple[str, datetime.datetime]] = {}
        self._artifacts: dict[uuid.UUID, list[Artifact]] = {}
        self._messages: dict[int, Message] = {}
        self._new_tasks: list[Task] = []
        self._also: list[models.Model] = []
        self._also_updated: list[tuple[type[models.Model], dict[str, Any], dict[str, Any], Exception]] = []
        self._new_artifacts: list[Artifact] = []
        self._is_cleared = False
        self._wait = notifications.LATER
        self._remembered: dict[str, Any] | None = None

    def hold(self, hold: Hold) -> None:
        """Write on behalf of a run, whose lease is extended. Raises LeaseLost."""
        if not statements.update(Run, self._held_row(hold), {"lease_until": leases.end(self.now)}):
            raise LeaseLost
        self._held, self._wait = hold, notifications.SOON

    def end_hold(self, hold: Hold, values: dict[str, Any]) -> None:
        """Write on behalf of a run, which gets these values; where the hold is void, `write` raises LeaseLost."""
        self._also_updated.append((Run, self._held_row(hold), values, LeaseLost()))
        self._held, self._wait = hold, notifications.SOON

    def begin_hold(self, hold: Hold, where: dict[str, Any], values: dict[str, Any]) -> None:
        """Write on behalf of a run that gets these values; unless `where` is so, `write` raises LeaseLost."""
        self._also_updated.append((Run, where, values, LeaseLost()))
        self._held = hold

    def _held_row(self, hold: Hold) -> dict[str, Any]:
        return {"id": hold.run_id, "fence": hold.fence, "state": Run.State.RUNNING, "lease_until__gt": NOW}

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
            run=self._held.run_id if self._held else None,
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

    def also_insert(self, row: models.Model) -> None:
        """A row of execution state that goes in together with the events."""
        self._also.append(row)

    def remember(self, changed: dict[str, Any], forgotten: Collection[str]) -> None:
        """Change some keys of the context's memory, and leave the others as they are by now. For `writing` alone."""
        kept = Context.objects.filter(pk=self.context.pk).values_list("memory", flat=True).first() or {}
        self._remembered = {key: value for key, value in kept.items() if key not in forgotten} | changed

    def write(self) -> None:
        """Write what was added. `writing` calls it last."""
        if not self.events and not self._also and not self._also_updated:
            return
        batch = statements.Batch()
        self._save_context(batch)
        for model, where, values, missing in self._also_updated:
            batch.update(model, where, values, missing=missing)
        self._save_tasks(batch)
        batch.insert(self._new_tasks)
        batch.insert(list(self._messages.values()))
        for row in self._also:
            batch.insert([row])
        self._save_artifacts(batch)
        batch.insert(self.events)
        batch.write()
        blobs.count_uses(self.context.workspace_id, self.parts())
        if self._is_cleared:
            erasure.erase(self.context, self._began_at)
        for listener in hooks("LEDGER_LISTENERS") if self.context.is_watched else ():
            listener(self.context, self.events)
        announcement = self.context.pk, self.context.last_event, self.context.owner_id
        wait = 0.0 if any(event.settles for event in self.events) else self._wait
        transaction.on_commit(lambda: notifications.announce(*announcement, wait=wait))

    def parts(self) -> Iterator[Any]:
        """The A2A parts that the added events bring."""
        return (part for event in self.events for part in event.parts)

    def knows(self, task: Task, artifacts: list[Artifact] | None = None) -> None:
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
            task = TASK.one(task_id, self.context.pk)
            if task is None:
                raise Task.DoesNotExist
            self.knows(task)
        return self._tasks[task_id]

    def add_task(self, task: Task) -> None:
        self._new_tasks.append(task)
        self.knows(task, artifacts=[])

    def add_message(self, message: Message) -> None:
        self._messages[message.index] = message

    def add_artifact(self, artifact: Artifact) -> None:
        self._new_artifacts = [*without(self._new_artifacts, artifact), artifact]
        if (known := self._artifacts.get(artifact.task_id)) is not None:
            self._artifacts[artifact.task_id] = [*without(known, artifact), artifact]

    def provisional(self, task: Task) -> list[Artifact]:
        if task.pk not in self._artifacts:
            stored = PROVISIONAL.all(task.pk, Artifact.State.PROVISIONAL)
            self._artifacts[task.pk] = stored
            for artifact in self._new_artifacts:
                if artifact.task_id == task.pk:
                    self._artifacts[task.pk] = [*without(self._artifacts[task.pk], artifact), artifact]
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

    def unended(self, tasks: Collection[str]) -> list[tuple[Task, list[Artifact]]]:
        """None: the past of a fork are rows of other contexts, which this one does not write."""
        return []

    def _save_context(self, batch: Batch) -> None:
        values = {"last_event": self.context.last_event, "updated_at": self.context.updated_at}
        if self.context._state.adding:
            self.context.memory = self._remembered or {}
            batch.insert([self.context])
        else:
            if _description(self.context) != self._described:
                values |= dict(zip(DESCRIBED, _description(self.context), strict=True))
            if self._remembered is not None:
                values["memory"] = self._remembered
            if self.context.deleted_at is not None:
                values = {name: getattr(self.context, name) for name in DERIVED} | {"memory": {}}
            where = {"id": self.context.pk, "last_event": self._began_at, "is_watched": self.context.is_watched}
            where["cold_file"] = ""
            batch.update(Context, where, values, missing=NotAtOnce(f"context {self.context.pk} has grown"))

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
                Task, {"id": task.pk, "state": state}, values, missing=StaleTransition(f"task {task.pk} was {state}")
            )

    def _save_artifacts(self, batch: Batch) -> None:
        for artifact in (a for known in self._artifacts.values() for a in known if not a._state.adding):
            if artifact.state != Artifact.State.PROVISIONAL:
                values = {name: getattr(artifact, name) for name in ("state", "parts", "digest", "signature")}
                batch.update(Artifact, {"id": artifact.pk}, values)
        batch.insert(self._new_artifacts, replacing=("task", "artifact_id"))


Door = Callable[[Context], AbstractContextManager[Ledger]]
"""`writing` or `proposing`."""


def is_chunk_of(event: Event, artifact: Artifact) -> bool:
    """Does the event bring a chunk of the artifact, as it was begun last?"""
    is_later = event.index >= artifact.first_event
    return is_later and event.task_id == artifact.task_id and event.artifact_id == artifact.artifact_id


def _description(context: Context) -> tuple[Any, ...]:
    return context.title, context.agent_id, context.options, context.archived_at


def new_context() -> Context:
    """A context for `writing` to create; its first event says by `opens` what it is (see `Ledger.opening`)."""
    return Context(pk=uuid.uuid4())
