"""Hand-written SQL: queries that give model instances, and writes that go out together.

The hot path uses these, because most of what a small statement costs in Django is building its SQL anew. Everything
else uses the ORM. Each app keeps its queries in a module `sql.py`; tests compare them with the ORM's answers.
"""

from __future__ import annotations

import datetime
import itertools
import json
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, lru_cache
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, connections, models, transaction

MAX_PARAMETERS = 65535  # of one statement, by PostgreSQL's protocol

NOW = object()
"""The database's time, as what a condition of an update compares with."""

CLOCK_SQL = {"sqlite": "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now')", "postgresql": "clock_timestamp()"}
"""SQL for the database's clock, to be executed with parameters (or []); give what it yields to `time_from`."""


_embedded_writer = threading.RLock()  # SQLite has one writer: queueing here is faster than its busy timeout


@contextmanager
def write_transaction() -> Iterator[None]:
    """A transaction that will write: on SQLite it queues for the one writer before it begins."""
    with _embedded_writer if connection.vendor == "sqlite" else nullcontext(), transaction.atomic():
        yield


class Query[T]:
    """A SELECT whose rows become model instances.

        TASK = Query("SELECT {task}, {context} FROM {task.table} JOIN {context.table} ON context.id = task.context_id "
                     "WHERE task.id = %s", with_context, task=Task, context=Context)
        TASK.one(task_id)

    `{task}` stands for all columns of the table aliased `task`, `{task.table}` for the table with that alias. `{now}`
    is the database's time, `{any}` compares with a list of keys, `{lock task}` locks rows where the database can.
    `build` makes one value of a row: it is called with an instance for each `{alias}` and the time for `{now}`, in
    their order, and with what further columns yield; an outer join that found nothing gives None. Without it the query
    has one alias.
    """

    def __init__(self, sql: str, build: Callable[..., T] | None = None, **tables: type[models.Model]) -> None:
        self._template, self._build, self._tables = sql, build, tables
        self._prepared: dict[str, tuple[str, list[_Columns | None]]] = {}

    def all(self, *params: Any) -> list[T]:
        """The rows for these values."""
        vendor = connection.vendor
        sql, columns = self._prepared.get(vendor) or self._prepare(vendor)
        found = []
        for row in execute(sql, params).fetchall():
            values: list[Any] = []
            at = 0
            for table in columns:
                if table is None:
                    values.append(time_from(row[at]))
                    at += 1
                    continue
                own = list(row[at : at + table.width])
                at += table.width
                if own[table.key] is None:
                    values.append(None)
                    continue
                for place, convert, expression in table.converters:
                    own[place] = convert(own[place], expression, connection)
                values.append(table.model.from_db(connection.alias, table.names, own))
            found.append(self._build(*values, *row[at:]) if self._build else values[0])
        return found

    def one(self, *params: Any) -> T | None:
        """The first row for these values, or None."""
        found = self.all(*params)
        return found[0] if found else None

    def _prepare(self, vendor: str) -> tuple[str, list[_Columns | None]]:
        columns: list[_Columns | None] = []

        def put(found: re.Match[str]) -> str:
            match found[1].replace(".", " ").split():
                case ["now"]:
                    columns.append(None)
                    return CLOCK_SQL[vendor]
                case ["any"]:
                    return "= ANY(%s)" if vendor == "postgresql" else "IN (SELECT value FROM json_each(%s))"
                case ["lock", alias]:
                    return f"FOR UPDATE OF {alias}" if vendor == "postgresql" else ""
                case [alias, "table"]:
                    return f"{quote(self._tables[alias]._meta.db_table)} AS {alias}"
                case [alias]:
                    columns.append(table := _Columns(self._tables[alias]))
                    return ", ".join(f"{alias}.{quote(name)}" for name in table.columns)
            raise ValueError(f"{{{found[1]}}} is none of the placeholders")

        sql = re.sub(r"\{([\w. ]+)\}", put, self._template)
        self._prepared[vendor] = sql, columns
        return sql, columns


class _Columns:
    """All columns of a model's table, and what makes of their values those of an instance."""

    def __init__(self, model: type[models.Model]) -> None:
        fields = model._meta.concrete_fields
        self.model = model
        self.names = [field.attname for field in fields]
        self.columns = [str(field.column) for field in fields]
        self.width = len(fields)
        self.key = self.names.index(model._meta.pk.attname)
        self.converters = []
        for place, field in enumerate(fields):
            target = _target(field)
            expression: Any = models.Value(None, output_field=target)
            for convert in [*connection.ops.get_db_converters(expression), *target.get_db_converters(connection)]:
                self.converters.append((place, convert, expression))


def execute(sql: str, params: Sequence[Any]) -> Any:
    """Execute one statement with `%s` for its parameters; gives the cursor, which need not be closed.

    On PostgreSQL it goes to the server as it is: psycopg would take apart a long statement again each time.
    """
    database = connections[DEFAULT_DB_ALIAS]
    if database.vendor == "postgresql" and not database.queries_logged:
        from psycopg import RawCursor  # where there is a PostgreSQL

        database.close_if_health_check_failed()
        database.ensure_connection()
        with database.wrap_database_errors:
            return RawCursor(database.connection).execute(_numbered(sql), params)
    if database.vendor == "sqlite":
        params = [ADAPTERS[type(value)](value) if type(value) in ADAPTERS else value for value in params]
    cursor = database.cursor()
    cursor.execute(sql, params)
    return cursor


ADAPTERS: dict[type, Callable[[Any], Any]] = {
    uuid.UUID: lambda key: key.hex,
    datetime.datetime: lambda at: str(at.astimezone(datetime.UTC).replace(tzinfo=None)),
    list: lambda keys: json.dumps([key.hex for key in keys]),
}
"""What SQLite takes for values that PostgreSQL's driver takes as they are: as Django stores them."""


@lru_cache(maxsize=512)
def _numbered(sql: str) -> bytes:
    """The statement with PostgreSQL's own $1, $2, … for its parameters."""
    numbers = itertools.count(1)
    return re.sub("%([s%])", lambda found: f"${next(numbers)}" if found[1] == "s" else "%", sql).encode()


class Batch:
    """Writes of one transaction that belong together: on PostgreSQL one statement, elsewhere one after the other.

    In one statement they all see the database as it was before, so no two of them may touch the same row, and
    references between new rows need constraints that are checked at the commit, as Django's are.
    """

    def __init__(self) -> None:
        self._database = connections[DEFAULT_DB_ALIAS]
        self._writes: list[tuple[str, list[Any], Exception | None]] = []

    def insert(self, *rows: models.Model, replacing: tuple[str, ...] = ()) -> None:
        """Insert rows of one model; a key that the database makes is not read back. Signals are not sent.

        With `replacing`, a row that has the same values in these fields, which are unique together, is overwritten.
        """
        if not rows:
            return
        database = self._database
        columns, sql, one = _insertion(type(rows[0]), database.vendor)
        params = [
            getattr(row, name) if field is None else field.get_db_prep_save(field.pre_save(row, add=True), database)
            for row in rows
            for name, field in columns
        ]
        overwriting = _overwriting(type(rows[0]), replacing) if replacing else ""
        self._writes.append((f"{sql} {', '.join([one] * len(rows))}{overwriting}", params, None))
        for row in rows:
            row._state.adding, row._state.db = False, database.alias

    def update(
        self,
        model: type[models.Model],
        where: dict[str, Any],
        values: dict[str, Any],
        *,
        missing: Exception | None = None,
    ) -> None:
        """Set plain values as `update` does; where no row is found, `missing` is raised by `write`."""
        self._writes.append((*_update(model, where, values), missing))

    def write(self) -> None:
        """Send them, in the transaction that is open. Raises IntegrityError, or `missing` of an update without rows."""
        is_one = self._database.vendor == "postgresql" and len(self._writes) > 1
        if is_one and sum(len(params) for _, params, _ in self._writes) <= MAX_PARAMETERS:
            parts = ", ".join(f"w{n} AS ({sql} RETURNING 1)" for n, (sql, _, _) in enumerate(self._writes))
            counts = ", ".join(f"(SELECT count(*) FROM w{n})" for n in range(len(self._writes)))  # noqa: S608
            params = [param for _, params, _ in self._writes for param in params]
            found = execute(f"WITH {parts} SELECT {counts}", params).fetchone()
        else:
            found = [execute(sql, params).rowcount for sql, params, _ in self._writes]
        for count, (_, _, missing) in zip(found, self._writes, strict=True):
            if not count and missing is not None:
                raise missing


def insert(row: models.Model) -> None:
    """Insert one row (see `Batch.insert`)."""
    batch = Batch()
    batch.insert(row)
    batch.write()


def update(model: type[models.Model], where: dict[str, Any], values: dict[str, Any]) -> int:
    """Set plain values in the rows for which all of `where` holds; gives how many there were.

    A name in `where` may end in `__gt` or `__lt`; otherwise it stands for equality. None is no value there, and NOW is
    the database's time.
    """
    return int(execute(*_update(model, where, values)).rowcount)


Column = tuple[str, "models.Field[Any, Any] | None"]
"""An attribute of a row, and the field that makes of it what the database takes; None where that is the same."""

PASSED_THROUGH = (models.CharField, models.TextField, models.UUIDField, models.DateTimeField, models.BooleanField)
"""Fields whose values the drivers take as models have them; none here sets a time by itself."""

COMPARISONS = {"gt": ">", "lt": "<"}


@cache
def _insertion(model: type[models.Model], vendor: str) -> tuple[list[Column], str, str]:
    fields = _inserted(model)
    columns = [(field.attname, None if type(_target(field)) in PASSED_THROUGH else field) for field in fields]
    names = ", ".join(quote(str(field.column)) for field in fields)
    sql = f"INSERT INTO {quote(model._meta.db_table)} ({names}) VALUES"
    return columns, sql, f"({', '.join(['%s'] * len(fields))})"


def _inserted(model: type[models.Model]) -> list[models.Field[Any, Any]]:
    """The fields but for a key that the database makes."""
    fields = model._meta.local_concrete_fields
    return [field for field in fields if not isinstance(field, models.AutoField | models.BigAutoField)]


def _target(field: models.Field[Any, Any]) -> models.Field[Any, Any]:
    """The field itself, or for a foreign key the one whose value it has."""
    return _target(field.target_field) if isinstance(field, models.ForeignKey) else field


@cache
def _overwriting(model: type[models.Model], unique: tuple[str, ...]) -> str:
    fields = _inserted(model)
    columns = [quote(str(field.column)) for field in fields if field.name not in unique and not field.primary_key]
    names = [quote(str(field.column)) for field in fields if field.name in unique]
    values = ", ".join(f"{column} = EXCLUDED.{column}" for column in columns)
    return f" ON CONFLICT ({', '.join(names)}) DO UPDATE SET {values}"


def _update(model: type[models.Model], where: dict[str, Any], values: dict[str, Any]) -> tuple[str, list[Any]]:
    database = connections[DEFAULT_DB_ALIAS]
    with_now = tuple(name for name, value in where.items() if value is NOW)
    sql, fields = _updating(model, tuple(where), tuple(values), with_now, database.vendor)
    given = [*values.values(), *(value for value in where.values() if value is not NOW)]
    return sql, [field.get_db_prep_save(value, database) for field, value in zip(fields, given, strict=True)]


@cache
def _updating(
    model: type[models.Model], where: tuple[str, ...], values: tuple[str, ...], with_now: tuple[str, ...], vendor: str
) -> tuple[str, list[models.Field[Any, Any]]]:
    compared = [(name.partition("__")[0], COMPARISONS.get(name.partition("__")[2], "="), name) for name in where]
    settings = ", ".join(f"{_column(model, name)} = %s" for name in values)
    conditions = " AND ".join(
        f"{_column(model, field)} {sign} {CLOCK_SQL[vendor] if name in with_now else '%s'}"
        for field, sign, name in compared
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
    return time_from(execute(f"SELECT {CLOCK_SQL[connection.vendor]}", []).fetchone()[0])


def time_from(value: Any) -> datetime.datetime:
    """The aware time of what the SQL of `CLOCK_SQL` yielded."""
    if isinstance(value, datetime.datetime):  # SQLite's driver makes naive ones of columns
        return value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
    return datetime.datetime.fromisoformat(value).replace(tzinfo=datetime.UTC)
