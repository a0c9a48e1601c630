"""From events to rows: the one place that says what an event does to contexts, tasks, messages and artifacts.

The ledger folds events as they are written; `rebuild` folds them again from the log alone, and `differences` compares
what that gives with the rows in the database. Both give the same rows.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from django.db import models
from django.db.models import QuerySet

from apps.agents.models import Agent
from apps.record import lineage
from apps.record.content.strict_json import digest_of
from apps.record.events import JSON, EventType, Opening, SessionDeleted
from apps.record.lineage import mark_left
from apps.record.models import Artifact, Context, Event, Message, Task, TaskState, check_transition

NO_PART_OF_REPLAY = {"is_watched", "memory", "cold_file", "cold_at", "cold_messages", "warmed_at"}
"""Columns of a context that no event brings."""


class Rows(Protocol):
    """The rows of one context that events are folded into."""

    context: Context

    def task(self, task_id: uuid.UUID | None) -> Task: ...

    def add_task(self, task: Task) -> None: ...

    def add_message(self, message: Message) -> None: ...

    def add_artifact(self, artifact: Artifact) -> None: ...

    def provisional_artifacts(self, task: Task) -> list[Artifact]:
        """The task's artifacts that are neither delivered nor discarded, in the order of their first chunk."""

    def chunks(self, artifact: Artifact) -> list[Event]:
        """The events of the artifact's chunks, in order."""

    def clear(self) -> None:
        """Drop all tasks, messages and artifacts."""

    def unfinished_tasks(self, tasks: Collection[str]) -> list[tuple[Task, list[Artifact]]]:
        """Those of a fork's past that had not ended, each with all that it had begun."""


def fold(event: Event, rows: Rows) -> None:
    """Apply one event, whose index is given, to the rows of its context. Raises IllegalTransition."""
    opening: Opening | None = event.payload.get("opens")
    if opening is not None:
        open_context(rows.context, opening, event)
    rows.context.last_event = event.index
    rows.context.updated_at = event.at
    if apply := FOLDS.get(EventType(event.type)):
        apply(event, rows)


def open_context(context: Context, opening: Opening, event: Event) -> None:
    """The context as it begins: of what it goes on from nothing counts but what the opening says."""
    _forget(context)
    context.context_id = opening["contextId"]
    context.owner_id = opening["owner"]
    context.workspace_id = opening["workspace"]
    context.agent_id = opening["agent"]
    context.title = opening["title"]
    context.options = opening.get("options", {})
    context.parent_task = uuid.UUID(opening["parentTask"]) if "parentTask" in opening else None
    context.created_at = event.at


def _forget(context: Context) -> None:
    for column in context._meta.concrete_fields:
        if not column.primary_key and column.name not in NO_PART_OF_REPLAY:
            setattr(context, column.attname, column.get_default())


def _user_message(event: Event, rows: Rows) -> None:
    if (opened := event.payload.get("task")) is not None:
        rows.add_task(
            Task(
                id=event.task_id,
                context=rows.context,
                owner_id=rows.context.owner_id,
                workspace_id=rows.context.workspace_id,
                agent_id=opened["agent"],
                state=TaskState.SUBMITTED,
                references=opened["references"],
                parent_id=uuid.UUID(opened["parent"]) if "parent" in opened else None,
                metadata=opened.get("metadata", {}),
                first_event=event.index,
                status_event=event.index,
                created_at=event.at,
                status_at=event.at,
            )
        )
    _message(event, rows, Message.Role.USER)
    rows.context.archived_at = None
    rows.context.title = event.payload.get("title", rows.context.title)


def _message(event: Event, rows: Rows, role: Message.Role, agent: int | None = None) -> None:
    message: JSON = event.payload["message"]
    rows.add_message(
        Message(
            context=rows.context,
            task_id=event.task_id,
            index=event.index,
            role=role,
            agent_id=agent,
            message_id=message["messageId"],
            parts=message["parts"],
            references=message.get("referenceTaskIds", []),
            extensions=message.get("extensions", []),
            metadata=message.get("metadata", {}),
            created_at=event.at,
        )
    )


def _agent_message(event: Event, rows: Rows) -> None:
    _message(event, rows, Message.Role.AGENT, _author(event, rows))


def _author(event: Event, rows: Rows) -> int:
    """Which agent wrote the message. Older logs do not say it: then it is whose the task is, or the conversation."""
    if (agent := event.payload.get("agent")) is not None:
        return int(agent)
    return rows.task(event.task_id).agent_id if event.task_id else rows.context.agent_id


def _agent_start(event: Event, rows: Rows) -> None:
    """What an earlier attempt of the same turn had begun is begun again."""
    if event.payload["attempt"] > 1 or event.payload.get("again"):
        for artifact in rows.provisional_artifacts(rows.task(event.task_id)):
            if artifact.run == event.run:
                artifact.state = Artifact.State.DISCARDED


def _agent_status(event: Event, rows: Rows) -> None:
    task, payload = rows.task(event.task_id), event.payload
    check_transition(task.state, payload["state"])
    if "kept" in payload:
        return
    task.state = TaskState(payload["state"])
    task.status_message = payload.get("message")
    task.slot = payload.get("slot")
    if "skill" in payload:
        task.metadata = {**task.metadata, "skill": payload["skill"]}
    task.status_at, task.status_event = event.at, event.index
    if "message" in payload and "progress" not in payload:
        _agent_message(event, rows)


def _token_start(event: Event, rows: Rows) -> None:
    rows.add_artifact(_provisional_artifact(event, rows, {"name": event.payload["name"]}))


def _artifact_update(event: Event, rows: Rows) -> None:
    if not event.payload["append"]:
        rows.add_artifact(_provisional_artifact(event, rows, event.payload["artifact"]))


def _provisional_artifact(event: Event, rows: Rows, described: JSON) -> Artifact:
    return Artifact(
        task=rows.task(event.task_id),
        artifact_id=event.artifact_id,
        run=event.run,
        state=Artifact.State.PROVISIONAL,
        name=described.get("name", "")[:250],
        description=described.get("description", ""),
        extensions=described.get("extensions", []),
        metadata=described.get("metadata", {}),
        first_event=event.index,
        created_at=event.at,
    )


def _agent_complete(event: Event, rows: Rows) -> None:
    signatures: JSON = event.payload.get("signatures", {})
    for artifact in rows.provisional_artifacts(rows.task(event.task_id)):
        artifact.state = Artifact.State.DELIVERED
        artifact.parts = assemble_parts(rows.chunks(artifact))
        artifact.digest = digest_of(artifact.parts)
        artifact.signature = signatures.get(artifact.artifact_id, {})


def _discard(event: Event, rows: Rows) -> None:
    for artifact in rows.provisional_artifacts(rows.task(event.task_id)):
        if artifact.artifact_id in event.payload["discarded"]:
            artifact.state = Artifact.State.DISCARDED


def assemble_parts(chunks: list[Event]) -> list[Any]:
    """The parts of a whole artifact: of its chunks in order, or one text of its tokens."""
    if chunks and chunks[0].type == EventType.ARTIFACT_UPDATE:
        return [part for chunk in chunks for part in chunk.payload["artifact"]["parts"]]
    text = "".join(chunk.payload.get("text", "") for chunk in chunks)
    return [{"text": text, "mediaType": "text/plain"}]


def without_artifact(artifacts: list[Artifact], begun: Artifact) -> list[Artifact]:
    """The artifacts but for one that is begun anew under the same id."""
    key = begun.task_id, begun.artifact_id
    return [artifact for artifact in artifacts if (artifact.task_id, artifact.artifact_id) != key]


def _renamed(event: Event, rows: Rows) -> None:
    rows.context.title = event.payload["title"]


def _archived(event: Event, rows: Rows) -> None:
    rows.context.archived_at = event.at


def _unarchived(event: Event, rows: Rows) -> None:
    rows.context.archived_at = None


def _agent_switched(event: Event, rows: Rows) -> None:
    rows.context.agent_id = event.payload["agent"]
    rows.context.options = event.payload.get("options", {})


def _fork(event: Event, rows: Rows) -> None:
    rows.context.parent_id = uuid.UUID(event.payload["parent"])
    rows.context.forked_at = event.payload["at"]
    rows.context.fork_reason = event.payload["reason"]
    for task, artifacts in rows.unfinished_tasks(event.payload["left"]):
        mark_left(task, event)
        for artifact in artifacts:
            artifact.state, artifact.parts = Artifact.State.DISCARDED, []
            artifact.digest, artifact.signature = "", {}


def _deleted(event: Event, rows: Rows) -> None:
    """What is left is a tombstone, which its event alone describes (see `tombstone_of`): the log before it goes."""
    context, payload = rows.context, event.payload
    context.created_at = datetime.datetime.fromisoformat(payload["createdAt"])
    context.deleted_at = event.at
    if "at" in payload:
        context.parent_id = uuid.UUID(payload["parent"]) if "parent" in payload else None
        context.forked_at, context.fork_reason = payload["at"], payload["reason"]
    rows.clear()


def tombstone_of(context: Context) -> SessionDeleted:
    """What is kept of a context that is deleted: ids and times, and nothing that anybody wrote."""
    opens: Opening = {
        "contextId": str(context.pk),
        "owner": context.owner_id,
        "workspace": context.workspace_id,
        "agent": context.agent_id,
        "title": "",
    }
    if context.parent_task is not None:
        opens["parentTask"] = str(context.parent_task)
    kept: SessionDeleted = {"opens": opens, "createdAt": context.created_at.isoformat()}
    if context.forked_at is not None:
        kept |= {"at": context.forked_at, "reason": context.fork_reason}
        if context.parent_id is not None:
            kept["parent"] = str(context.parent_id)
    return kept


FOLDS: dict[EventType, Callable[[Event, Rows], None]] = {
    EventType.USER_MESSAGE: _user_message,
    EventType.AGENT_START: _agent_start,
    EventType.AGENT_STATUS: _agent_status,
    EventType.AGENT_MESSAGE: _agent_message,
    EventType.AGENT_TOKEN_START: _token_start,
    EventType.ARTIFACT_UPDATE: _artifact_update,
    EventType.AGENT_COMPLETE: _agent_complete,
    EventType.AGENT_FAILED: _discard,
    EventType.AGENT_CANCELLED: _discard,
    EventType.AGENT_SWITCHED: _agent_switched,
    EventType.FORK: _fork,
    EventType.SESSION_RENAMED: _renamed,
    EventType.SESSION_ARCHIVED: _archived,
    EventType.SESSION_UNARCHIVED: _unarchived,
    EventType.SESSION_DELETED: _deleted,
}
"""What the other types do to rows: nothing but being the newest event."""


AUTHOR_KEY = "agent"

AUTHOR_EVENTS = (EventType.AGENT_START, EventType.AGENT_STATUS, EventType.AGENT_MESSAGE)
"""The types of the events that say who takes a turn, or bring what an agent says."""


@dataclass(frozen=True, slots=True)
class Author:
    """Of an agent's message: the agent's key, the run, the number of its version; None is what the log does not say."""

    agent: int | None = None
    run: uuid.UUID | None = None
    version: int | None = None


def with_author(metadata: JSON, agent: Agent) -> JSON:
    """A message's metadata with its author, in the place of whatever an agent itself writes there."""
    return {**metadata, AUTHOR_KEY: agent.slug}


def read_authors(events: Iterable[Event]) -> dict[int, Author]:
    """By their index, the authors of the messages that the events bring; events are those of one log, in order.

    Only those of the AUTHOR_EVENTS types count.
    """
    found: dict[int, Author] = {}
    versions: dict[uuid.UUID | None, int | None] = {}
    for event in events:
        payload = event.payload
        if event.type == EventType.AGENT_START or (event.type == EventType.AGENT_STATUS and "version" in payload):
            versions[event.run] = payload.get("version")
        if event.type in AUTHOR_EVENTS and "message" in payload and "progress" not in payload:
            version = payload.get("version", versions.get(event.run) if event.run else None)
            found[event.index] = Author(payload.get("agent"), event.run, version)
    return found


ROW_KEYS = {Context: "pk", Task: "pk", Message: "index", Artifact: "artifact_id"}
"""What identifies a row of each model within its context; database-made keys are left out of the comparison."""


@dataclass
class Rebuilt:
    """The rows of one context, in memory (`projection.Rows`)."""

    context: Context
    tasks: dict[uuid.UUID, Task] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    _made: dict[uuid.UUID, dict[str, Artifact]] = field(default_factory=dict)  # of each task
    _chunks: dict[tuple[uuid.UUID | None, str], list[Event]] = field(default_factory=dict)

    def task(self, task_id: uuid.UUID | None) -> Task:
        if task_id not in self.tasks:
            raise Task.DoesNotExist
        return self.tasks[task_id]

    def add_task(self, task: Task) -> None:
        self.tasks[task.pk] = task

    def add_message(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def artifacts(self) -> list[Artifact]:
        """In the order of their first chunk."""
        return sorted((one for made in self._made.values() for one in made.values()), key=lambda one: one.first_event)

    def add_artifact(self, artifact: Artifact) -> None:
        made = self._made.setdefault(artifact.task_id, {})
        made.pop(artifact.artifact_id, None)  # begun anew, it is the last
        made[artifact.artifact_id] = artifact

    def provisional_artifacts(self, task: Task) -> list[Artifact]:
        made = self._made.get(task.pk, {})
        return [artifact for artifact in made.values() if artifact.state == Artifact.State.PROVISIONAL]

    def chunks(self, artifact: Artifact) -> list[Event]:
        chunks = self._chunks.get((artifact.task_id, artifact.artifact_id), [])
        return [event for event in chunks if event.index >= artifact.first_event]

    def unfinished_tasks(self, tasks: Collection[str]) -> list[tuple[Task, list[Artifact]]]:
        found = [self.task(uuid.UUID(key)) for key in tasks]
        return [(task, list(self._made.get(task.pk, {}).values())) for task in found]

    def clear(self) -> None:
        self.tasks, self.messages, self._made = {}, [], {}

    def take(self, event: Event) -> None:
        if event.artifact_id:
            self._chunks.setdefault((event.task_id, event.artifact_id), []).append(event)
        fold(event, self)

    def rows(self) -> list[models.Model]:
        return [self.context, *self.tasks.values(), *self.messages, *self.artifacts]


def rebuild(context_id: uuid.UUID, upto: int | None = None) -> Rebuilt:
    """The rows that the log gives, as they were after event `upto` if it is given.

    A fork's are those of its whole past too. Raises Context.DoesNotExist where there is no log.
    """
    rebuilt = Rebuilt(Context(pk=context_id))
    tombstone = _tombstone(context_id)
    for event in [tombstone] if tombstone else log_of(context_id, upto).iterator(chunk_size=500):
        rebuilt.take(event)
    if not rebuilt.context.last_event:
        raise Context.DoesNotExist(f"There is no context {context_id}.")
    if (parent := rebuilt.context.parent_id) and not Context.objects.filter(pk=parent).exists():
        rebuilt.context.parent_id = None  # a parent that was deleted: its forks live on without it
    called = {task.parent_id for task in rebuilt.tasks.values() if task.parent_id}
    gone = called - set(Task.objects.filter(pk__in=called).values_list("pk", flat=True)) if called else set()
    for task in rebuilt.tasks.values():
        if task.parent_id in gone:
            task.parent_id = None  # and so do children
    return rebuilt


def _tombstone(context_id: uuid.UUID) -> Event | None:
    """The event that says all of a context that was deleted: what came before it is gone."""
    newest = Event.objects.filter(context_id=context_id).order_by("-index").first()
    return newest if newest is not None and newest.type == EventType.SESSION_DELETED else None


def log_of(context_id: uuid.UUID, upto: int | None = None) -> QuerySet[Event]:
    """The whole log of a context, whose own row may be lost."""
    context = Context.objects.only("forked_at").filter(pk=context_id).first() or Context(pk=context_id)
    return lineage.events(context, upto=upto)


def differences(context_id: uuid.UUID) -> list[str]:
    """Each difference between the log and the rows, as a line; empty where they agree.

    Of what a fork shares, that which it shows is compared. Raises Context.DoesNotExist.
    """
    rebuilt = rebuild(context_id)
    found = _gaps(context_id)
    expected, actual = _by_identity(_shown(rebuilt)), _by_identity(_stored(context_id))
    for identity in sorted(expected.keys() | actual.keys()):
        if identity not in actual:
            found.append(f"{_name(identity)} is missing")
        elif identity not in expected:
            found.append(f"{_name(identity)} has no events")
        else:
            found += _changes(identity, expected[identity], actual[identity])
    return found


def _shown(rebuilt: Rebuilt) -> list[models.Model]:
    """The rows, each of the context whose it is by its event.

    Left out are artifacts of a fork's past that came to nothing there: elsewhere they may have been delivered.
    """
    began = rebuilt.context.forked_at or 0
    for stretch in lineage.log_ranges(rebuilt.context, rebuilt.context.last_event):
        for task in rebuilt.tasks.values():
            if stretch.first <= task.first_event <= stretch.last:
                task.context_id = stretch.source
        for message in rebuilt.messages:
            if stretch.first <= message.index <= stretch.last:
                message.context_id = stretch.source
    return [
        row
        for row in rebuilt.rows()
        if not (isinstance(row, Artifact) and row.first_event <= began and row.state != Artifact.State.DELIVERED)
    ]


def _stored(context_id: uuid.UUID) -> list[models.Model]:
    context = Context.objects.filter(pk=context_id).first()
    if context is None:
        return []
    artifacts = Artifact.objects.filter(task__context=context, first_event__gt=context.forked_at or 0)
    past = lineage.artifacts(context).filter(first_event__lte=context.forked_at or 0)
    return [context, *lineage.shown_tasks(context), *lineage.messages(context), *artifacts, *past]


def _gaps(context_id: uuid.UUID) -> list[str]:
    if _tombstone(context_id):
        return []
    indexes = log_of(context_id).values_list("index", flat=True)
    return [f"event {want} is at index {got}" for want, got in enumerate(indexes, start=1) if want != got][:1]


def _by_identity(rows: list[models.Model]) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {_identity(row): row_values(row) for row in rows}


def _identity(row: models.Model) -> tuple[str, str, str]:
    task = str(getattr(row, "task_id", "")) if isinstance(row, Artifact) else ""
    return type(row).__name__, str(getattr(row, ROW_KEYS[type(row)])), task


def row_values(row: models.Model) -> dict[str, Any]:
    """A row's fields but for the key that the database made, and for what is no part of the log."""
    skipped = {"id"} if isinstance(row, Message | Artifact) else NO_PART_OF_REPLAY
    return {f.attname: getattr(row, f.attname) for f in row._meta.concrete_fields if f.attname not in skipped}


def _name(identity: tuple[str, str, str]) -> str:
    return " ".join(identity).strip()


def _changes(identity: tuple[str, str, str], expected: dict[str, Any], actual: dict[str, Any]) -> list[str]:
    return [
        f"{_name(identity)}: {name} is {actual[name]!r}, the log says {expected[name]!r}"
        for name in expected
        if expected[name] != actual[name]
    ]
