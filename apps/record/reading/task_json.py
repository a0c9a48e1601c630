"""Tasks as A2A JSON text that the database writes, for GetTask, ListTasks and SendMessage, which pass it on unparsed.

The text is that of `wire.load_task`, which reads rows.
"""

from __future__ import annotations

import datetime
import json
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.conf import settings
from django.db import connection

from apps.accounts.principals import Principal
from apps.record import wire
from apps.record.content.strict_json import timestamp
from apps.record.errors import TaskNotFound
from apps.record.events import DELIVERED, JSON
from apps.record.models import Artifact, Context, Message, Task, TaskState
from apps.record.reading.visibility import is_seen
from parley.db.sql import execute, quote, time_from, uuid_from


@dataclass(frozen=True, slots=True)
class TaskText:
    """A task and, made of its columns, its A2A JSON. Large parts are read then, so check the owner before."""

    pk: uuid.UUID
    owner_id: int | None
    workspace_id: int
    agent_id: int
    context_owner: int | None
    is_shared: bool  # is its context?
    status_at: datetime.datetime
    columns: Sequence[Any]

    @classmethod
    def of(cls, row: Sequence[Any]) -> TaskText:
        """`row` begins with `columns_sql`."""
        key, owner, workspace, agent, context_owner, is_shared, status_at, *columns = row
        return cls(uuid_from(key), owner, workspace, agent, context_owner, is_shared, time_from(status_at), columns)

    @property
    def json(self) -> str:
        return _text(self.pk, self.status_at, *self.columns)

    def json_with(self, metadata: JSON) -> str:
        """The task as JSON text, with more metadata."""
        *first, own, history, artifacts = self.columns
        merged = (json.loads(own) if own else None) or {}
        columns = [*first, wire.json_text(merged | metadata), history, artifacts]
        return _text(self.pk, self.status_at, *columns)

    def is_seen_by(self, principal: Principal) -> bool:
        """As `Task.objects.visible_to`."""
        is_own = principal.owns(self.owner_id, self.workspace_id)
        return is_own or is_seen(principal, self.context_owner, self.workspace_id, self.is_shared)


def find(task: uuid.UUID, history_length: int | None = None) -> TaskText | None:
    """The task with its newest messages and its delivered artifacts. Does not check the owner."""
    found = select("task.id = %s", [task], history_length=history_length)
    return found[0] if found else None


def find_settled(task: uuid.UUID, history_length: int | None = None) -> str | None:
    """The task's JSON once it is settled; None before. Raises TaskNotFound for a deleted task."""
    settled = ", ".join(f"'{state}'" for state in TaskState if state.is_settled)
    found = select(f"task.id = %s AND task.state IN ({settled})", [task], history_length=history_length)
    if not found and not Task.objects.filter(pk=task).exists():
        raise TaskNotFound
    return _text(found[0].pk, found[0].status_at, *found[0].columns) if found else None


def load(task: uuid.UUID, history_length: int | None = None) -> str:
    """The task's JSON. Does not check the owner. Raises TaskNotFound."""
    found = find(task, history_length)
    if found is None:
        raise TaskNotFound  # deleted just now
    return found.json


def select(
    condition: str, params: Sequence[object], *, history_length: int | None = None, with_artifacts: bool = True
) -> list[TaskText]:
    """The tasks for which a condition with `%s` parameters holds, on `task` and `context`; it may end in an order.

    `history_length`: None is the platform's default, 0 omits the field.
    """
    lengths = shown_lengths(history_length)
    columns = columns_sql(bool(lengths), with_artifacts)
    sql = f"SELECT {columns} FROM {TASK_TABLE} JOIN {CONTEXT_TABLE} WHERE {condition}"  # noqa: S608
    return [TaskText.of(row) for row in execute(sql, [*lengths, *params]).fetchall()]


def shown_lengths(history_length: int | None) -> list[int]:
    """The parameters of `columns_sql`: how many messages a task shows; without any, it has no history."""
    length = settings.DEFAULT_HISTORY_LENGTH if history_length is None else history_length
    return [length] if length else []


def _text(
    key: uuid.UUID,
    status_at: datetime.datetime,
    state: str,
    context: Any,
    context_id: str,
    said: str | None,
    slot: str | None,
    metadata: str,
    history: str | None,
    artifacts: str | None,
) -> str:
    if said and f'"{DELIVERED}"' in said and DELIVERED in json.loads(said):
        said = None
    if said and said not in EMPTY and slot and slot not in EMPTY:
        said = wire.json_text(wire.with_slot(json.loads(said), json.loads(slot)))
    status = f'{{"state":"{TaskState(state).wire}","timestamp":"{timestamp(status_at)}"'
    status += f',"message":{said}}}' if said and said not in EMPTY else "}"
    text = f'{{"id":"{key}","contextId":{json.dumps(context_id, ensure_ascii=False)},"status":{status}'
    text += "" if artifacts is None else f',"artifacts":[{artifacts}]'
    text += "" if history is None else f',"history":[{history}]'
    text += "}" if metadata in EMPTY else f',"metadata":{metadata}}}'
    if '"stored"' in text or '"signature"' in text:  # as a key: in a text, its quotes are escaped
        text = json.dumps(_completed(json.loads(text), uuid_from(context)), separators=(",", ":"), ensure_ascii=False)
    return text


EMPTY = ("{}", "[]", "null")


def _completed(task: JSON, context: uuid.UUID) -> JSON:
    """The task with the content of stored parts, and signatures in the metadata of artifacts."""
    status: JSON = task["status"]
    rest: JSON = {}
    if "message" in status:
        rest["status"] = {**status, "message": wire.with_content(status["message"], context)}
    if "artifacts" in task:
        rest["artifacts"] = [wire.with_content(wire.with_signature(one), context) for one in task["artifacts"]]
    if "history" in task:
        rest["history"] = [wire.with_content(one, context) for one in task["history"]]
    return task | rest


TASK_TABLE = f"{Task._meta.db_table} AS task"
CONTEXT_TABLE = f"{Context._meta.db_table} AS context ON context.id = task.context_id"


@cache
def columns_sql(with_history: bool = True, with_artifacts: bool = True) -> str:
    """The columns of a `TaskText`, of the tables `task` and `context`."""
    history = _joined(MESSAGE, 'ORDER BY message."index" DESC LIMIT %s') if with_history else "NULL"
    artifacts = _joined(ARTIFACT, "AND artifact.state = 'delivered'") if with_artifacts else "NULL"
    columns = (
        "task.id, task.owner_id, task.workspace_id, task.agent_id, context.owner_id, "
        "context.is_shared, task.status_at, task.state, task.context_id, "
        "context.context_id, {json task.status_message}, {json task.slot}, {json task.metadata}, "
        f"{history}, {artifacts}"
    )
    fragments = FRAGMENTS[connection.vendor]
    return re.sub(r"\{(\w+) ([^}]*)\}", lambda found: fragments[found[1]].replace("?", found[2]), columns)


def _joined(shown: tuple[type[Message | Artifact], str, str, str], which: str) -> str:
    """A subquery for the texts of a task's rows, with commas between, or an empty text."""
    model, row, place, text = shown
    table = quote(model._meta.db_table)
    rows = f"SELECT {text} AS text, {row}.{place} AS place FROM {table} AS {row} WHERE {row}.task_id = task.id {which}"  # noqa: S608
    return f"COALESCE((SELECT {{join text}} FROM (SELECT * FROM ({rows}) AS picked ORDER BY place) AS shown), '')"  # noqa: S608


def _optional(name: str, column: str, empty: str) -> str:
    """A field that is omitted if it is empty."""
    return f"CASE {{json {column}}} WHEN '{empty}' THEN '' ELSE ',\"{name}\":' || {{json {column}}} END"


MESSAGE = (
    Message,
    "message",
    '"index"',
    "'{\"messageId\":' || {quote message.message_id} || ',\"contextId\":' || {quote context.context_id} || "
    '\',"role":"ROLE_\' || upper(message.role) || \'","parts":\' || {json message.parts} || '
    "',\"taskId\":\"' || {uuid task.id} || '\"' || "
    + " || ".join(
        [
            _optional("metadata", "message.metadata", "{}"),
            _optional("extensions", "message.extensions", "[]"),
            _optional("referenceTaskIds", 'message."references"', "[]"),
        ]
    )
    + " || '}'",
)
ARTIFACT = (
    Artifact,
    "artifact",
    "first_event",
    "'{\"artifactId\":' || {quote artifact.artifact_id} || ',\"parts\":' || {json artifact.parts} || "
    "CASE artifact.name WHEN '' THEN '' ELSE ',\"name\":' || {quote artifact.name} END || "
    "CASE artifact.description WHEN '' THEN '' ELSE ',\"description\":' || {quote artifact.description} END || "
    + " || ".join(
        [
            _optional("metadata", "artifact.metadata", "{}"),
            _optional("extensions", "artifact.extensions", "[]"),
            _optional("signature", "artifact.signature", "{}"),
        ]
    )
    + " || '}'",
)
"""Model, alias, order and JSON text of what a task shows."""

FRAGMENTS = {
    "postgresql": {
        "json": "?::text",
        "quote": "to_json(?)::text",
        "uuid": "?::text",
        "join": "string_agg(?, ',' ORDER BY place)",
    },
    "sqlite": {
        "json": "?",
        "quote": "json_quote(?)",
        "uuid": "lower(substr(?, 1, 8) || '-' || substr(?, 9, 4) || '-' || substr(?, 13, 4) || '-' || "
        "substr(?, 17, 4) || '-' || substr(?, 21))",
        "join": "group_concat(?, ',')",
    },
}
"""How each database writes text."""
