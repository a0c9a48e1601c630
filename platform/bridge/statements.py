"""Inserts and updates of the hot path, their SQL built once.

Most of what a small write costs in Django is building its SQL anew. These write the same rows by way of the same model
fields, and build the SQL once for each shape. Everything else uses the ORM as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from django.db import connection, models


def insert(row: models.Model) -> None:
    """Insert one row; a key that the database makes is put into it. Signals are not sent."""
    insert_all([row])


def insert_all(rows: Sequence[models.Model]) -> None:
    """Insert rows of one model in one statement; keys that the database makes are put into them."""
    if not rows:
        return
    fields, sql, one, returning = _insertion(type(rows[0]), connection.vendor)
    params = [value for row in rows for value in _values(fields, row)]
    with connection.cursor() as cursor:
        cursor.execute(f"{sql} {', '.join([one] * len(rows))} {returning}", params)
        if returning:
            for row, (key,) in zip(rows, cursor.fetchall(), strict=True):
                row.pk = key
    for row in rows:
        row._state.adding, row._state.db = False, connection.alias


def _values(fields: Iterable[models.Field[Any, Any]], row: models.Model) -> list[Any]:
    return [field.get_db_prep_save(field.pre_save(row, add=True), connection) for field in fields]


@cache
def _insertion(model: type[models.Model], _vendor: str) -> tuple[list[models.Field[Any, Any]], str, str, str]:
    key = model._meta.pk
    made_by_database = isinstance(key, models.AutoField | models.BigAutoField)
    fields = [field for field in model._meta.local_concrete_fields if not (made_by_database and field is key)]
    quote = connection.ops.quote_name
    columns = ", ".join(quote(str(field.column)) for field in fields)
    sql = f"INSERT INTO {quote(model._meta.db_table)} ({columns}) VALUES"
    one = f"({', '.join(['%s'] * len(fields))})"
    return fields, sql, one, f"RETURNING {quote(str(key.column))}" if made_by_database and key else ""


def update(model: type[models.Model], where: dict[str, Any], values: dict[str, Any]) -> int:
    """Set plain values in the rows whose fields equal `where` (None is no value there); gives how many there were."""
    sql, fields = _updating(model, tuple(where), tuple(values), connection.vendor)
    given = [*values.values(), *where.values()]
    with connection.cursor() as cursor:
        cursor.execute(sql, [f.get_db_prep_save(v, connection) for f, v in zip(fields, given, strict=True)])
        return int(cursor.rowcount)


@cache
def _updating(
    model: type[models.Model], where: tuple[str, ...], values: tuple[str, ...], _vendor: str
) -> tuple[str, list[models.Field[Any, Any]]]:
    quote = connection.ops.quote_name
    fields: list[Any] = [model._meta.get_field(name) for name in (*values, *where)]
    settings = ", ".join(f"{quote(field.column)} = %s" for field in fields[: len(values)])
    conditions = " AND ".join(f"{quote(field.column)} = %s" for field in fields[len(values) :])
    return f"UPDATE {quote(model._meta.db_table)} SET {settings} WHERE {conditions}", fields  # noqa: S608
