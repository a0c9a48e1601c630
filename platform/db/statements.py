"""Writes of the hot path, their SQL built once; and how any such statement is run.

Most of what a small statement costs in Django is building its SQL anew. These write the same rows by way of the same
model fields, and build the SQL once for each shape, as `selections` do for what is read. Everything else uses the ORM.
"""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from django.db import DEFAULT_DB_ALIAS, DataError, connection, connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper


class Batch:
    """Writes that belong together: on PostgreSQL one statement (if one can hold them), elsewhere one after the other.

    In one statement they all see the database as it was before, so no two of them may touch the same row, and
    references between new rows need constraints that are checked at the commit, as Django's are.
    """

    def __init__(self) -> None:
        self._database = the_database()
        self._writes: list[tuple[str, list[Any], Exception | None]] = []

    def insert(self, rows: Sequence[models.Model], *, replacing: tuple[str, ...] = ()) -> None:
        """Insert rows of one model; a key that the database makes is not read back. Signals are not sent.

        With `replacing`, a row that has the same values in these fields, which are unique together, is overwritten.
        """
        if not rows:
            return
        vendor = self._database.vendor
        columns, sql, one = _insertion(type(rows[0]), vendor)
        params = _values(columns, rows, self._database)
        overwriting = _overwriting(type(rows[0]), replacing, vendor) if replacing else ""
        self._writes.append((f"{sql} {', '.join([one] * len(rows))}{overwriting}", params, None))
        for row in rows:
            row._state.adding, row._state.db = False, self._database.alias

    def update(
        self,
        model: type[models.Model],
        where: dict[str, Any],
        values: dict[str, Any],
        *,
        missing: Exception | None = None,
    ) -> None:
        """Set plain values as `update` does; where no row is found, `missing` is raised by `write`."""
        self._writes.append((*_update(model, where, values, self._database), missing))

    def write(self) -> None:
        """Send them. Raises IntegrityError, and `missing` of the first update that found no row.

        On PostgreSQL nothing is written then, with or without a transaction around it.
        """
        if not self._writes:
            return
        if self._database.vendor != "postgresql":
            self._in_turn()
        elif sum(len(params) for _, params, _ in self._writes) <= MOST_PARAMETERS:
            self._together()
        else:
            with transaction.atomic():
                self._in_turn()

    def _together(self) -> None:
        parts = ", ".join(f"w{n} AS ({sql} RETURNING 1)" for n, (sql, _, _) in enumerate(self._writes))
        required = [n for n, (_, _, missing) in enumerate(self._writes) if missing is not None]
        checks = ", ".join(_required(n) for n in required) or "1"
        params = [param for _, params, _ in self._writes for param in params]
        try:
            execute(f"WITH {parts} SELECT {checks}", params)
        except DataError as error:
            if found := MISSING.search(str(error)):
                raise self._writes[int(found[1])][2] or error from None
            raise

    def _in_turn(self) -> None:
        for sql, params, missing in self._writes:
            if not execute(sql, params).rowcount and missing is not None:
                raise missing


MOST_PARAMETERS = 65535  # of one statement, by PostgreSQL's protocol
MISSING = re.compile(r"no row for w(\d+)")


def _required(number: int) -> str:
    """SQL that undoes the statement, by an error that MISSING finds, if this write touched no row."""
    found = f"(SELECT count(*) FROM w{number})"  # noqa: S608
    return f"CASE {found} WHEN 0 THEN ('no row for w{number}: ' || {found})::integer END"


def execute(sql: str, params: Sequence[Any]) -> Any:
    """Execute one statement with `%s` for its parameters; gives the cursor, which need not be closed.

    On PostgreSQL it goes to the server as it is: psycopg would take apart a long statement again each time.
    """
    database = the_database()
    if database.vendor != "postgresql" or database.queries_logged:
        cursor = database.cursor()
        cursor.execute(sql, params)
        return cursor
    database.close_if_health_check_failed()
    database.ensure_connection()
    raw = database._prepare_cursor(database.Database.RawCursor(database.connection))  # type: ignore[attr-defined]
    raw.execute(_numbered(sql), params)
    return raw


def the_database() -> BaseDatabaseWrapper:
    """This thread's connection itself: `connection` looks for it again at each use, of which a row has dozens."""
    return connections[DEFAULT_DB_ALIAS]


@lru_cache(maxsize=512)
def _numbered(sql: str) -> bytes:
    """The statement with PostgreSQL's own $1, $2, … for its parameters."""
    numbers = itertools.count(1)
    return re.sub("%([s%])", lambda found: f"${next(numbers)}" if found[1] == "s" else "%", sql).encode()


def insert(row: models.Model) -> None:
    """Insert one row (see `Batch.insert`)."""
    batch = Batch()
    batch.insert([row])
    batch.write()


Column = tuple[str, "models.Field[Any, Any] | None"]
"""An attribute of a row, and the field that makes of it what the database takes; None where that is the same."""


def _values(columns: Sequence[Column], rows: Sequence[models.Model], database: BaseDatabaseWrapper) -> list[Any]:
    return [
        getattr(row, name) if field is None else field.get_db_prep_save(field.pre_save(row, add=True), database)
        for row in rows
        for name, field in columns
    ]


@cache
def _insertion(model: type[models.Model], vendor: str) -> tuple[list[Column], str, str]:
    fields = _inserted(model)
    taken = TAKEN_AS_THEY_ARE if vendor == "postgresql" else ()
    columns = [(field.attname, None if type(_target(field)) in taken else field) for field in fields]
    names = ", ".join(quote(str(field.column)) for field in fields)
    sql = f"INSERT INTO {quote(model._meta.db_table)} ({names}) VALUES"
    return columns, sql, f"({', '.join(['%s'] * len(fields))})"


def _inserted(model: type[models.Model]) -> list[models.Field[Any, Any]]:
    """The fields but for a key that the database makes."""
    fields = model._meta.local_concrete_fields
    return [field for field in fields if not isinstance(field, models.AutoField | models.BigAutoField)]


TAKEN_AS_THEY_ARE = (models.CharField, models.TextField, models.UUIDField, models.DateTimeField, models.BooleanField)
"""Fields whose values PostgreSQL's driver takes as models have them; none here sets a time by itself."""


def _target(field: models.Field[Any, Any]) -> models.Field[Any, Any]:
    """The field itself, or for a foreign key the one whose value it has."""
    return _target(field.target_field) if isinstance(field, models.ForeignKey) else field


@cache
def _overwriting(model: type[models.Model], unique: tuple[str, ...], vendor: str) -> str:
    fields = _inserted(model)
    columns = [quote(str(field.column)) for field in fields if field.name not in unique and not field.primary_key]
    names = [quote(str(field.column)) for field in fields if field.name in unique]
    values = ", ".join(f"{column} = EXCLUDED.{column}" for column in columns)
    return f" ON CONFLICT ({', '.join(names)}) DO UPDATE SET {values}"


COMPARISONS = {"gt": ">", "lt": "<"}


def update(model: type[models.Model], where: dict[str, Any], values: dict[str, Any]) -> int:
    """Set plain values in the rows for which all of `where` holds; gives how many there were.

    A name in `where` may end in `__gt` or `__lt`; otherwise it stands for equality. None is no value there, and NOW is
    the database's time.
    """
    return int(execute(*_update(model, where, values, the_database())).rowcount)


def _update(
    model: type[models.Model], where: dict[str, Any], values: dict[str, Any], database: BaseDatabaseWrapper
) -> tuple[str, list[Any]]:
    compared_with_now = tuple(name for name, value in where.items() if value is NOW)
    sql, fields = _updating(model, tuple(where), tuple(values), compared_with_now, database.vendor)
    given = [*values.values(), *(value for value in where.values() if value is not NOW)]
    return sql, [field.get_db_prep_save(value, database) for field, value in zip(fields, given, strict=True)]


@cache
def _updating(
    model: type[models.Model], where: tuple[str, ...], values: tuple[str, ...], with_now: tuple[str, ...], vendor: str
) -> tuple[str, list[models.Field[Any, Any]]]:
    compared = [(name.partition("__")[0], COMPARISONS.get(name.partition("__")[2], "="), name) for name in where]
    settings = ", ".join(f"{_column(model, name)} = %s" for name in values)
    conditions = " AND ".join(
        f"{_column(model, field)} {sign} {TIME[vendor] if name in with_now else '%s'}" for field, sign, name in compared
    )
    bound = [*values, *(field for field, _, name in compared if name not in with_now)]
    fields: list[Any] = [model._meta.get_field(name) for name in bound]
    return f"UPDATE {quote(model._meta.db_table)} SET {settings} WHERE {conditions}", fields  # noqa: S608


def _column(model: type[models.Model], name: str) -> str:
    return quote(str(model._meta.get_field(name).column))  # type: ignore[union-attr]


def quote(name: str) -> str:
    quoted: str = connection.ops.quote_name(name)
    return quoted


def database_time() -> datetime.datetime:
    """The database's clock, which all processes share."""
    return time_from(execute(f"SELECT {TIME[connection.vendor]}", []).fetchone()[0])


NOW = object()
"""The database's time, as what a condition of an update compares with."""

TIME = {"sqlite": "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now')", "postgresql": "clock_timestamp()"}
"""SQL for the database's clock, to be executed with parameters (or []); give what it yields to `time_from`."""


def time_from(value: Any) -> datetime.datetime:
    """The aware time of what the SQL of `TIME` yielded."""
    if isinstance(value, datetime.datetime):  # SQLite's driver makes naive ones of columns
        return value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
    return datetime.datetime.fromisoformat(value).replace(tzinfo=datetime.UTC)
