"""Rebuilding a context's rows from its log alone, and comparing them with what the database has."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from django.db import models
from django.db.models import QuerySet

from apps.record import lineage
from apps.record.events import EventType
from apps.record.models import Artifact, Context, Event, Message, Task
from apps.record.projection import NO_PART_OF_REPLAY, fold

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

    def provisional(self, task: Task) -> list[Artifact]:
        made = self._made.get(task.pk, {})
        return [artifact for artifact in made.values() if artifact.state == Artifact.State.PROVISIONAL]

    def chunks(self, artifact: Artifact) -> list[Event]:
        chunks = self._chunks.get((artifact.task_id, artifact.artifact_id), [])
        return [event for event in chunks if event.index >= artifact.first_event]

    def unended(self, tasks: Collection[str]) -> list[tuple[Task, list[Artifact]]]:
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
    for stretch in lineage.stretches(rebuilt.context, rebuilt.context.last_event):
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
    return {_identity(row): values_of(row) for row in rows}


def _identity(row: models.Model) -> tuple[str, str, str]:
    task = str(getattr(row, "task_id", "")) if isinstance(row, Artifact) else ""
    return type(row).__name__, str(getattr(row, ROW_KEYS[type(row)])), task


def values_of(row: models.Model) -> dict[str, Any]:
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
