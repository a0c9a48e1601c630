"""The newest messages of many tasks at once, by one statement that reads no more of them than are shown."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django.db import connection

from apps.record.models import Message
from db.statements import execute, quote

LOADED = ("task", "role", "message_id", "parts", "references", "extensions", "metadata")
FIELDS: list[Any] = [Message._meta.get_field(name) for name in LOADED]
TASK = FIELDS[0]
EMPTY = {"[]": list, "{}": dict}  # what most messages have in most of their fields


def newest(tasks: Sequence[uuid.UUID], length: int) -> dict[uuid.UUID, list[Message]]:
    """The newest `length` messages of each task, oldest first, with the LOADED fields alone."""
    found: dict[uuid.UUID, list[Message]] = defaultdict(list)
    if not tasks:
        return found
    keys = [TASK.get_db_prep_value(task, connection) for task in tasks]
    rows = execute(_statement(len(keys)), [*keys, length]).fetchall()
    names = [field.attname for field in FIELDS]
    for task, role, message_id, *values in rows:
        key = task if isinstance(task, uuid.UUID) else uuid.UUID(task)
        row = Message.from_db(connection.alias, names, [key, role, message_id, *map(_value, values)])
        found[key].append(row)
    return found


def _statement(tasks: int) -> str:
    table, index = quote(Message._meta.db_table), quote("index")
    columns = ", ".join(quote(field.column) for field in FIELDS)
    of_tasks = f"{quote(TASK.column)} IN ({', '.join(['%s'] * tasks)})"
    rank = f"ROW_NUMBER() OVER (PARTITION BY {quote(TASK.column)} ORDER BY {index} DESC)"
    ranked = f"SELECT {columns}, {index}, {rank} AS place FROM {table} WHERE {of_tasks}"  # noqa: S608
    return f"SELECT {columns} FROM ({ranked}) AS ranked WHERE place <= %s ORDER BY {index}"  # noqa: S608


def _value(text: str) -> object:
    """The value of a JSON column, which both databases' drivers leave as text."""
    empty = EMPTY.get(text)
    return empty() if empty else json.loads(text)
