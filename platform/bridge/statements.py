"""Statements of the hot path, their SQL built once.

Most of what a small statement costs in Django is building its SQL anew. These read and write the same rows by way of
the same model fields, and build the SQL once for each shape. Everything else uses the ORM as it is.
"""

from __future__ import annotations

import datetime
import itertools
import operator
import re
import uuid
from collections.abc import Callable, Collection, Sequence
from functools import cache, lru_cache, reduce
from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS, DataError, connection, connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.query import get_related_populators
from django.db.models.sql.where import WhereNode


class Batch:
    """Writes that belong together: on PostgreSQL one statement (if one can hold them), elsewhere one after the other.

    In one statement they all see the database as it was before, so no two of them may touch the same row, and
    references between new rows need constraints that are checked at the commit, as Django's are.
    """

    def __init__(self) -> None:
        self._writes: list[tuple[str, list[Any], Exception | None]] = []

    def insert(self, rows: Sequence[models.Model], *, replacing: tuple[str, ...] = ()) -> None:
        """Insert rows of one model; a key that the database makes is not read back. Signals are not sent.

        With `replacing`, a row that has the same values in these fields, which are unique together, is overwritten.
        """
        if not rows:
            return
        columns, sql, one = _insertion(type(rows[0]), connection.vendor)
        params = _values(columns, rows)
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
        """Send them. Raises IntegrityError, and `missing` of the first update that found no row.

        On PostgreSQL nothing is written then, with or without a transaction around it.
        """
        if not self._writes:
            return
        if connection.vendor != "postgresql":
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
    database = _database()
    if database.vendor != "postgresql" or database.queries_logged:
        cursor = database.cursor()
        cursor.execute(sql, params)
        return cursor
    database.close_if_health_check_failed()
    database.ensure_connection()
    raw = database._prepare_cursor(psycopg.RawCursor(database.connection))  # type: ignore[attr-defined]
    raw.execute(_numbered(sql), params)
    return raw


def _database() -> BaseDatabaseWrapper:
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


def _values(columns: Sequence[Column], rows: Sequence[models.Model]) -> list[Any]:
    database = _database()
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
    return int(execute(*_update(model, where, values)).rowcount)


def _update(model: type[models.Model], where: dict[str, Any], values: dict[str, Any]) -> tuple[str, list[Any]]:
    compared_with_now = tuple(name for name, value in where.items() if value is NOW)
    sql, fields = _updating(model, tuple(where), tuple(values), compared_with_now, connection.vendor)
    given = [*values.values(), *(value for value in where.values() if value is not NOW)]
    database = _database()
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
        return self._for_this_database().run(values)

    def _for_this_database(self) -> _Compiled:
        compiled = self._compiled.get(connection.vendor)
        if compiled is None:
            queryset = self._build(*self._stand_ins)
            compiled = self._compiled[connection.vendor] = _Compiled(queryset, self._stand_ins)
        return compiled

    def one(self, *values: Any) -> M | None:
        """The first row for these values, or None."""
        return next(iter(self.all(*values)), None)

    def one_now(self, *values: Any) -> tuple[M, datetime.datetime] | None:
        """The first row for these values, with the database's time when it was read; or None."""
        found = self.one_beside(TIME[connection.vendor], *values)
        return found and (found[0], time_from(found[1]))

    def one_beside(self, column: str, *values: Any) -> tuple[M, Any] | None:
        """The first row for these values, with what one more column yields for it, given as SQL; or None."""
        return next(iter(self._for_this_database().run_beside(column, values)), None)

    def count(self, *values: Any) -> int:
        """How many rows there are for these values, as far as the slice goes."""
        return self._for_this_database().count(values)


class Among[M: models.Model]:
    """The rows of a queryset that belong to any of several keys: for a few, compiled as a `Selection`.

        MESSAGES = Among(lambda: Message.objects.order_by("index"), "task")
        MESSAGES.all([task_id, other_id])

    The queryset that `build` gives has no conditions of its own.
    """

    FEW = 8

    def __init__(self, build: Callable[[], models.QuerySet[M]], name: str) -> None:
        self._build, self._name = build, name
        self._few = [self._selection(number) for number in range(1, self.FEW + 1)]

    def _selection(self, number: int) -> Selection[M]:
        def build(*keys: Any) -> models.QuerySet[M]:
            return self._build().filter(reduce(operator.or_, (models.Q(**{self._name: key}) for key in keys)))

        return Selection(build, *map(uuid.UUID, (f"{place:032x}" for place in range(number))))

    def all(self, keys: Collection[uuid.UUID]) -> list[M]:
        if not keys:
            return []
        if len(keys) > self.FEW:
            return list(self._build().filter(**{f"{self._name}__in": keys}))
        return self._few[len(keys) - 1].all(*keys)


def one_of_each[A: models.Model, B: models.Model](
    first: Selection[A], value: Any, second: Selection[B], other: Any
) -> tuple[A | None, B | None]:
    """The row that each of two selections, of one row at most, has for its value, or None: by one statement."""
    one, two = one_of_all((first, value), (second, other))
    return one, two


def one_of_all(*asked: tuple[Selection[Any], Any]) -> list[Any]:
    """The same of any number of selections, each with its value."""
    compiled = [selection._for_this_database() for selection, _ in asked]
    params = [param for one, (_, value) in zip(compiled, asked, strict=True) for param in one.params((value,))]
    found = execute(_side_by_side(*(one.sql for one in compiled)), params).fetchone()
    rows, begins = [], 0
    for one in compiled:
        rows.append(one.row(found[begins : begins + one.width]))
        begins += one.width
    return rows


@cache
def _side_by_side(*selections: str) -> str:
    """SQL for one row, of the columns of all; those of a selection that finds nothing are null."""
    names = [f"s{number}" for number in range(len(selections))]
    columns = ", ".join(f"{name}.*" for name in names)
    joined = " ".join(f"LEFT JOIN ({sql}) AS {name} ON true" for name, sql in zip(names, selections, strict=True))
    return f"SELECT {columns} FROM (SELECT 1) AS one {joined}"  # noqa: S608


class _Compiled:
    """One queryset's SQL for one kind of database, and how its rows become model instances."""

    def __init__(self, queryset: models.QuerySet[Any], stand_ins: Sequence[Any]) -> None:
        self._compiler = compiler = queryset.query.get_compiler(connection=connection)
        self.sql, params = compiler.as_sql()
        self.width = len(compiler.select)
        lookups = _lookups(queryset.query.where)
        self._bound = [(lookup.lhs.output_field, stand_ins.index(lookup.rhs)) for lookup in lookups]
        self._fixed = list(params[len(lookups) :])
        self._converters = compiler.get_converters([column[0] for column in compiler.select])
        info: Any = compiler.klass_info
        self._model = info["model"]
        self._own = slice(info["select_fields"][0], info["select_fields"][-1] + 1)
        self._names = [column[0].target.attname for column in compiler.select[self._own]]
        self._key = self._names.index(self._model._meta.pk.attname)
        self._related = get_related_populators(info, compiler.select, connection.alias, queryset._fetch_mode)  # type: ignore[attr-defined]

    def run(self, values: Sequence[Any]) -> list[Any]:
        return [self._instance(row) for row in self._rows(self.sql, values)]

    def run_beside(self, column: str, values: Sequence[Any]) -> list[tuple[Any, Any]]:
        sql = self.sql.replace(" FROM ", f", {column} FROM ", 1)
        return [(self._instance(row), row[-1]) for row in self._rows(sql, values)]

    def _rows(self, sql: str, values: Sequence[Any]) -> list[Any]:
        return self._converted(execute(sql, self.params(values)).fetchall())

    def _converted(self, rows: list[Any]) -> list[Any]:
        return list(self._compiler.apply_converters(rows, self._converters)) if self._converters else rows

    def row(self, columns: Any) -> Any:
        """The instance of these columns; None where they are of no row."""
        if columns[self._own][self._key] is None:
            return None
        return self._instance(self._converted([columns])[0])

    def count(self, values: Sequence[Any]) -> int:
        sql = f"SELECT COUNT(*) FROM ({self.sql}) AS counted"  # noqa: S608
        return int(execute(sql, self.params(values)).fetchone()[0])

    def params(self, values: Sequence[Any]) -> list[Any]:
        database = _database()
        return [field.get_db_prep_value(values[place], database) for field, place in self._bound] + self._fixed

    def _instance(self, row: Any) -> models.Model:
        instance: models.Model = self._model.from_db(connection.alias, self._names, row[self._own])
        for populator in self._related:
            populator.populate(row, instance)
        return instance


def _lookups(where: WhereNode) -> list[Any]:
    return [leaf for child in where.children for leaf in (_lookups(child) if isinstance(child, WhereNode) else [child])]


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
