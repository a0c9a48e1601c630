"""A task with all that is shown of it: where a round trip costs something (PostgreSQL), by one statement."""

from __future__ import annotations

import json
import uuid
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db import connection, models

from apps.record.lifecycle import TaskState
from apps.record.models import Artifact, Message, Shown, Task
from db.selections import Selection
from db.statements import quote

TASK = Selection(lambda key: Task.objects.select_related("context").filter(pk=key), uuid.UUID(int=0))
OF_A_MESSAGE = ("task_id", "role", "message_id", "parts", "references", "extensions", "metadata")
OF_AN_ARTIFACT = ("artifact_id", "name", "description", "parts", "signature", "extensions", "metadata")
"""What is shown of each: text and JSON, which are the same after a way through JSON."""


def find(task: uuid.UUID, history_length: int | None = None) -> Task | None:
    """The task with its context and, where it has ended or asks for something, what `wire.load_task` shows of it.

    `history_length` of None is the platform's default.
    """
    if connection.vendor != "postgresql":
        return TASK.one(task)
    length = settings.DEFAULT_HISTORY_LENGTH if history_length is None else history_length
    found = TASK.one_beside(_shown(length), task)
    if found is None:
        return None
    row, beside = found
    if beside is not None:
        messages, artifacts = json.loads(beside)
        row.shown = Shown(length, _rows(Message, OF_A_MESSAGE, messages), _rows(Artifact, OF_AN_ARTIFACT, artifacts))
    return row


def _rows[M: models.Model](model: type[M], names: tuple[str, ...], rows: list[list[Any]] | None) -> list[M]:
    """Instances with these fields alone."""
    return [model.from_db(connection.alias, names, row) for row in rows or []]


@lru_cache
def _shown(length: int) -> str:
    """SQL for what is shown of a task beside its row, as JSON: messages and artifacts, oldest first; null at work."""
    task = quote(Task._meta.db_table)
    settled = ", ".join(f"'{state}'" for state in TaskState if state.is_settled)
    newest = f"{_of_the_task(Message)} ORDER BY index DESC LIMIT {length}"
    delivered = f"{_of_the_task(Artifact)} AND state = '{Artifact.State.DELIVERED}'"
    messages, artifacts = _array(OF_A_MESSAGE, newest, "index"), _array(OF_AN_ARTIFACT, delivered, "first_event")
    return f"CASE WHEN {task}.state IN ({settled}) THEN json_build_array({messages}, {artifacts})::text END"


def _of_the_task(model: type[models.Model]) -> str:
    return f"SELECT * FROM {quote(model._meta.db_table)} WHERE task_id = {quote(Task._meta.db_table)}.id"  # noqa: S608


def _array(names: tuple[str, ...], rows: str, order: str) -> str:
    columns = ", ".join(map(quote, names))
    return f"(SELECT json_agg(json_build_array({columns}) ORDER BY {order}) FROM ({rows}) AS shown)"  # noqa: S608
