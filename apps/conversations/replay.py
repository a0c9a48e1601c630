"""Rebuilding a context's rows from its log alone, and comparing them with what the database has."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from django.db import models

from apps.conversations.ledger import without
from apps.conversations.models import Artifact, Context, Event, Message, Task
from apps.conversations.projection import fold

ROW_KEYS = {Context: "pk", Task: "pk", Message: "index", Artifact: "artifact_id"}
"""What identifies a row of each model within its context; database-made keys are left out of the comparison."""


@dataclass
class Rebuilt:
    """The rows of one context, in memory (`projection.Rows`)."""

    context: Context
    tasks: dict[uuid.UUID, Task] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    _chunks: dict[tuple[uuid.UUID | None, str], list[Event]] = field(default_factory=dict)

    def task(self, task_id: uuid.UUID | None) -> Task:
        if task_id not in self.tasks:
            raise Task.DoesNotExist
        return self.tasks[task_id]

    def add_task(self, task: Task) -> None:
        self.tasks[task.pk] = task

    def add_message(self, message: Message) -> None:
        self.messages.append(message)

    def add_artifact(self, artifact: Artifact) -> None:
        self.artifacts = [*without(self.artifacts, artifact), artifact]

    def provisional(self, task: Task) -> list[Artifact]:
        return [a for a in self.artifacts if a.task_id == task.pk and a.state == Artifact.State.PROVISIONAL]

    def chunks(self, artifact: Artifact) -> list[Event]:
        chunks = self._chunks.get((artifact.task_id, artifact.artifact_id), [])
        return [event for event in chunks if event.index >= artifact.first_event]

    def clear(self) -> None:
        self.tasks, self.messages, self.artifacts = {}, [], []

    def take(self, event: Event) -> None:
        if event.artifact_id:
            self._chunks.setdefault((event.task_id, event.artifact_id), []).append(event)
        fold(event, self)

    def rows(self) -> list[models.Model]:
        return [self.context, *self.tasks.values(), *self.messages, *self.artifacts]


def rebuild(context_id: uuid.UUID) -> Rebuilt:
    """The rows that the log gives. Raises Context.DoesNotExist where there is no log."""
    rebuilt = None
    for event in Event.objects.filter(context_id=context_id).order_by("index").iterator(chunk_size=500):
        rebuilt = rebuilt or Rebuilt(Context(pk=context_id))
        rebuilt.take(event)
    if rebuilt is None:
        raise Context.DoesNotExist(f"There is no context {context_id}.")
    if (parent := rebuilt.context.parent_id) and not Context.objects.filter(pk=parent).exists():
        rebuilt.context.parent_id = None  # a parent that was deleted: its forks live on without it
    for task in rebuilt.tasks.values():
        if task.parent_id and not Task.objects.filter(pk=task.parent_id).exists():
            task.parent_id = None  # and so do children
    return rebuilt


def differences(context_id: uuid.UUID) -> list[str]:
    """Each difference between the log and the rows, as a line; empty where they agree.

    Raises Context.DoesNotExist.
    """
    rebuilt = rebuild(context_id)
    found = _gaps(context_id)
    stored: list[models.Model] = [
        *Context.objects.filter(pk=context_id),
        *Task.objects.filter(context_id=context_id),
        *Message.objects.filter(context_id=context_id),
        *Artifact.objects.filter(task__context_id=context_id),
    ]
    expected, actual = _by_identity(rebuilt.rows()), _by_identity(stored)
    for identity in sorted(expected.keys() | actual.keys()):
        if identity not in actual:
            found.append(f"{_name(identity)} is missing")
        elif identity not in expected:
            found.append(f"{_name(identity)} has no events")
        else:
            found += _changes(identity, expected[identity], actual[identity])
    return found


def _gaps(context_id: uuid.UUID) -> list[str]:
    indexes = Event.objects.filter(context_id=context_id).order_by("index").values_list("index", flat=True)
    return [f"event {want} is at index {got}" for want, got in enumerate(indexes, start=1) if want != got][:1]


def _by_identity(rows: list[models.Model]) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {_identity(row): values_of(row) for row in rows}


def _identity(row: models.Model) -> tuple[str, str, str]:
    task = str(getattr(row, "task_id", "")) if isinstance(row, Artifact) else ""
    return type(row).__name__, str(getattr(row, ROW_KEYS[type(row)])), task


def values_of(row: models.Model) -> dict[str, Any]:
    """A row's fields but for the key that the database made, and for what is no part of the log."""
    skipped = {"id"} if isinstance(row, Message | Artifact) else {"is_watched", "memory"}
    return {f.attname: getattr(row, f.attname) for f in row._meta.concrete_fields if f.attname not in skipped}


def _name(identity: tuple[str, str, str]) -> str:
    return " ".join(identity).strip()


def _changes(identity: tuple[str, str, str], expected: dict[str, Any], actual: dict[str, Any]) -> list[str]:
    return [
        f"{_name(identity)}: {name} is {actual[name]!r}, the log says {expected[name]!r}"
        for name in expected
        if expected[name] != actual[name]
    ]
