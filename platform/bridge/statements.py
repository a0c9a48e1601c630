"""Statements of the hot path, their SQL built once.

Most of what a small statement costs in Django is building its SQL anew. These read and write the same rows by way of
the same model fields, and build the SQL once for each shape. Everything else uses the ORM as it is.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from django.db import connection, models
from django.db.models.query import get_related_populators
from django.db.models.sql.where import WhereNode


class Batch:
    """Writes that belong together: on PostgreSQL one statement, elsewhere one after the other.

    On PostgreSQL they all see the database as it was before, so no two of them may touch the same row, and references
    between new rows need constraints that are checked at the commit, as Django's are.
    """

    def __init__(self) -> None:
        self._writes: list[tuple[str, list[Any], Exception | None]] = []

    def insert(self, rows: Sequence[models.Model], *, replacing: tuple[str, ...] = ()) -> None:
        """Insert rows of one model; a key that the database makes is not read back. Signals are not sent.

        With `replacing`, a row that has the same values in these fields, which are unique together, is overwritten.
        """
        if not rows:
            return
        fields, sql, one = _insertion(type(rows[0]), connection.vendor)
        params = [value for row in rows for value in _values(fields, row)]
        overwriting = _overwriting(type(rows[0]), replacing, connection.vendor) if replacing else ""
        self._writes.append((f"{sql} {', '.join([one] * len(rows))}{overwriting}", params, None))
        for row in rows:
            row._state.adding, row._state.db = False, connection.alias

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
        """Send them. Raises IntegrityError, and `missing` of the first update that found no row."""
        if not self._writes:
            return
        with connection.cursor() as cursor:
            together = connection.vendor == "postgresql" and len(self._writes) > 1
            counts = self._together(cursor) if together else self._in_turn(cursor)
        for (_, _, missing), count in zip(self._writes, counts, strict=True):
            if missing is not None and not count:
                raise missing

    def _together(self, cursor: Any) -> Sequence[int]:
        parts = ", ".join(f"w{n} AS ({sql} RETURNING 1)" for n, (sql, _, _) in enumerate(self._writes))
        counts = ", ".join(f"(SELECT count(*) FROM w{n})" for n in range(len(self._writes)))  # noqa: S608
        cursor.execute(f"WITH {parts} SELECT {counts}", [param for _, params, _ in self._writes for param in params])
        found: Sequence[int] = cursor.fetchone()
        return found

    def _in_turn(self, cursor: Any) -> Sequence[int]:
        counts = []
        for sql, params, _ in self._writes:
            cursor.execute(sql, params)
            counts.append(cursor.rowcount)
        return counts


def insert(row: models.Model) -> None:
    """Insert one row (see `Batch.insert`)."""
    batch = Batch()
    batch.insert([row])
    batch.write()


def _values(fields: Iterable[models.Field[Any, Any]], row: models.Model) -> list[Any]:
    return [field.get_db_prep_save(field.pre_save(row, add=True), connection) for field in fields]


@cache
def _insertion(model: type[models.Model], _vendor: str) -> tuple[list[models.Field[Any, Any]], str, str]:
    fields = [
        field
        for field in model._meta.local_concrete_fields
        if not isinstance(field, models.AutoField | models.BigAutoField)
    ]
    quote = connection.ops.quote_name
    columns = ", ".join(quote(str(field.column)) for field in fields)
    sql = f"INSERT INTO {quote(model._meta.db_table)} ({columns}) VALUES"
    return fields, sql, f"({', '.join(['%s'] * len(fields))})"


@cache
def _overwriting(model: type[models.Model], unique: tuple[str, ...], vendor: str) -> str:
    fields, _, _ = _insertion(model, vendor)
    quote = connection.ops.quote_name
    columns = [quote(str(field.column)) for field in fields if field.name not in unique and not field.primary_key]
    names = [quote(str(field.column)) for field in fields if field.name in unique]
    values = ", ".join(f"{column} = EXCLUDED.{column}" for column in columns)
    return f" ON CONFLICT ({', '.join(names)}) DO UPDATE SET {values}"


COMPARISONS = {"gt": ">", "lt": "<"}


def update(model: type[models.Model], where: dict[str, Any], values: dict[str, Any]) -> int:
    """Set plain values in the rows for which all of `where` holds; gives how many there were.

    A name in `where` may end in `__gt` or `__lt`; otherwise it stands for equality. None is no value there.
    """
    with connection.cursor() as cursor:
        cursor.execute(*_update(model, where, values))
        return int(cursor.rowcount)


def _update(model: type[models.Model], where: dict[str, Any], values: dict[str, Any]) -> tuple[str, list[Any]]:
    sql, fields = _updating(model, tuple(where), tuple(values), connection.vendor)
    given = [*values.values(), *where.values()]
    return sql, [field.get_db_prep_save(value, connection) for field, value in zip(fields, given, strict=True)]


@cache
def _updating(
    model: type[models.Model], where: tuple[str, ...], values: tuple[str, ...], _vendor: str
) -> tuple[str, list[models.Field[Any, Any]]]:
    quote = connection.ops.quote_name
    compared = [name.partition("__") for name in where]
    fields: list[Any] = [model._meta.get_field(name) for name in (*values, *(name for name, _, _ in compared))]
    columns = [quote(field.column) for field in fields]
    settings = ", ".join(f"{column} = %s" for column in columns[: len(values)])
    signs = [COMPARISONS.get(sign, "=") for _, _, sign in compared]
    conditions = " AND ".join(f"{c} {sign} %s" for c, sign in zip(columns[len(values) :], signs, strict=True))
    return f"UPDATE {quote(model._meta.db_table)} SET {settings} WHERE {conditions}", fields  # noqa: S608


class Selection[M: models.Model]:
    """A queryset that is compiled at its first use and run with other values for its conditions.

        TASK = Selection(lambda key: Task.objects.select_related("context").filter(pk=key), uuid.UUID(int=0))
        TASK.one(task_id)

    `build` is called once for each kind of database, with the stand-ins; each of them must become the right-hand side
    of one plain condition (equality or comparison), and they must differ from each other. A slice stays as it is.
    """

    def __init__(self, build: Callable[..., models.QuerySet[M]], *stand_ins: Any) -> None:
        self._build = build
        self._stand_ins = stand_ins
        self._compiled: dict[str, _Compiled] = {}

    def all(self, *values: Any) -> list[M]:
        """The rows for these values."""
        return self._here().run(values)

    def one(self, *values: Any) -> M | None:
        """The first row for these values, or None."""
        return next(iter(self.all(*values)), None)

    def count(self, *values: Any) -> int:
        """How many rows there are for these values, as far as the slice goes."""
        return self._here().count(values)

    def _here(self) -> _Compiled:
        """It for the kind of database that this thread speaks to."""
        compiled = self._compiled.get(connection.vendor)
        if compiled is None:
            queryset = self._build(*self._stand_ins)
            compiled = self._compiled[connection.vendor] = _Compiled(queryset, self._stand_ins)
        return compiled


class _Compiled:
    """One queryset's SQL for one kind of database, and how its rows become model instances."""

    def __init__(self, queryset: models.QuerySet[Any], stand_ins: Sequence[Any]) -> None:
        self._compiler = compiler = queryset.query.get_compiler(connection=connection)
        self._sql, params = compiler.as_sql()
        lookups = _lookups(queryset.query.where)
        self._bound = [(lookup.lhs.output_field, stand_ins.index(lookup.rhs)) for lookup in lookups]
        self._fixed = list(params[len(lookups) :])
        self._converters = compiler.get_converters([column[0] for column in compiler.select])
        info: Any = compiler.klass_info
        self._model = info["model"]
        self._own = slice(info["select_fields"][0], info["select_fields"][-1] + 1)
        self._names = [column[0].target.attname for column in compiler.select[self._own]]
        self._related = get_related_populators(info, compiler.select, connection.alias, queryset._fetch_mode)  # type: ignore[attr-defined]

    def run(self, values: Sequence[Any]) -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute(self._sql, self._params(values))
            rows = cursor.fetchall()
        if self._converters:
            rows = self._compiler.apply_converters(rows, self._converters)
        return [self._instance(row) for row in rows]

    def count(self, values: Sequence[Any]) -> int:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT COUNT(*) FROM ({self._sql}) AS counted", self._params(values))  # noqa: S608
            return int(cursor.fetchone()[0])

    def _params(self, values: Sequence[Any]) -> list[Any]:
        return [field.get_db_prep_value(values[place], connection) for field, place in self._bound] + self._fixed

    def _instance(self, row: Any) -> models.Model:
        instance: models.Model = self._model.from_db(connection.alias, self._names, row[self._own])
        for populator in self._related:
            populator.populate(row, instance)
        return instance


def _lookups(where: WhereNode) -> list[Any]:
    return [leaf for child in where.children for leaf in (_lookups(child) if isinstance(child, WhereNode) else [child])]


def database_time() -> datetime.datetime:
    """The database's clock, which all processes share."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {TIME[connection.vendor]}", [])
        return time_from(cursor.fetchone()[0])


TIME = {"sqlite": "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now')", "postgresql": "clock_timestamp()"}
"""SQL for the database's clock, to be executed with parameters (or []); give what it yields to `time_from`."""


def time_from(value: Any) -> datetime.datetime:
    """The aware time of what the SQL of `TIME` yielded."""
    if isinstance(value, datetime.datetime):
        return value
    return datetime.datetime.fromisoformat(value).replace(tzinfo=datetime.UTC)
