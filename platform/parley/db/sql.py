"""Hand-written SQL: queries that give model instances, and writes sent together.

For the hot path only, because Django's SQL building costs more than small statements. Each app keeps its queries in a
module `sql.py`; tests compare them with the ORM's answers.
"""

from __future__ import annotations

import datetime
import itertools
import json
import re
import sqlite3
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from django.db import DEFAULT_DB_ALIAS, connection, connections, models, transaction
from django.db.models.expressions import RawSQL
from django.utils import timezone


@dataclass(frozen=True, slots=True)
class Now:
    """The database's time, or some seconds later, in an update."""

    plus: float = 0.0

    @property
    def sql(self) -> str:
        if not self.plus:
            return CLOCK_SQL[connection.vendor]
        if connection.vendor == "sqlite":
            return CLOCK_SQL["sqlite"].replace("'now'", f"'now', '{self.plus:+.3f} seconds'")
        return f"(clock_timestamp() + interval '{self.plus:.3f} seconds')"


NOW = Now()

CLOCK_SQL = {"sqlite": "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now')", "postgresql": "clock_timestamp()"}
"""SQL for the database's time; needs `execute` with parameters (or []), and `time_from`."""

# Make SQLite's driver store these as Django does.
sqlite3.register_adapter(uuid.UUID, attrgetter("hex"))
sqlite3.register_adapter(datetime.datetime, lambda at: str(at.astimezone(datetime.UTC).replace(tzinfo=None)))
sqlite3.register_adapter(list, lambda keys: json.dumps([key.hex for key in keys]))  # for {any}

_sqlite_writer = threading.RLock()  # faster than SQLite's busy timeout


@contextmanager
def write_transaction() -> Iterator[None]:
    """A transaction that will write; on SQLite one at a time."""
    with _sqlite_writer if connection.vendor == "sqlite" else nullcontext(), transaction.atomic():
        yield


@models.CharField.register_lookup
class AnyOf(models.Lookup):
    """`state__any_of=("queued", "running")`: `IN` with literals of a closed set.

    SQLite uses a partial index only if the query repeats its condition with literals, not with parameters.
    """

    lookup_name = "any_of"

    def get_prep_lookup(self) -> tuple[str, ...]:
        """Raises ValueError for what is not a plain word: it is written into the SQL."""
        words = tuple(str(word) for word in self.rhs)
        if not words or not all(re.fullmatch(r"[a-z_-]+", word) for word in words):
            raise ValueError(f"any_of takes plain words, not {words}.")
        return words

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[str | int, ...]]:
        column, parameters = self.process_lhs(compiler, connection)
        literals = ", ".join(f"'{word}'" for word in self.rhs)
        return f"{column} IN ({literals})", tuple(parameters)


@models.CharField.register_lookup
class Begins(models.Lookup):
    """`artifact_id__begins="3f2a"`: as `startswith`, by an index in both databases. PostgreSQL needs a
    `varchar_pattern_ops` index. Raises ValueError for other characters than letters, digits and hyphens.
    """

    lookup_name = "begins"

    def get_prep_lookup(self) -> str:
        if not re.fullmatch(r"[A-Za-z0-9-]*", self.rhs):
            raise ValueError(f"begins takes letters, digits and hyphens, not {self.rhs}.")
        return str(self.rhs)

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[str | int, ...]]:
        column, parameters = self.process_lhs(compiler, connection)
        form, any_rest = ("GLOB", "*") if connection.vendor == "sqlite" else ("LIKE", "%")
        return f"{column} {form} %s", (*parameters, f"{self.rhs}{any_rest}")


class Query[T]:
    """A SELECT whose rows become model instances.

        TASK = Query("SELECT {task}, {context} FROM {task.table} JOIN {context.table} ON context.id = task.context_id "
                     "WHERE task.id = %s", with_context, task=Task, context=Context)
        TASK.one(task_id)

    Placeholders: `{task}` all columns of the table aliased `task`; `{task.table}` the table with that alias; `{now}`
    the database's time; `{any}` equality with one of a list of keys; `{lock task}` a row lock, if supported. `build`
    gets, for each row, an instance (None for an outer join without match) for each `{alias}` and a time for each
    `{now}`, in order, then the other columns. Without `build`, a row gives its only instance, or the tuple of all.

    `attached` names the attribute of another alias's instance to which an alias's instance is set, and what is attached
    is no part of the row: `attached={"context": "task.context"}` stands for a `build` that does only this.
    """

    def __init__(
        self,
        sql: str,
        build: Callable[..., T] | None = None,
        *,
        attached: Mapping[str, str] = MappingProxyType({}),
        **tables: type[models.Model],
    ) -> None:
        self._template, self._build, self._attached, self._tables = sql, build, attached, tables

    def all(self, *params: Any) -> list[T]:
        """All rows for these parameters."""
        sql, columns, attached, kept = self._prepared
        database = connections[DEFAULT_DB_ALIAS]
        found: list[Any] = []
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
                    own[place] = convert(own[place], expression, database)
                values.append(table.model.from_db(DEFAULT_DB_ALIAS, table.names, own))
            for place, holder, name in attached:
                if values[holder] is not None:
                    setattr(values[holder], name, values[place])
            given = [*(values[place] for place in kept), *row[at:]]
            found.append(self._build(*given) if self._build else given[0] if len(given) == 1 else (*given,))
        return found

    def one(self, *params: Any) -> T | None:
        """The first row for these parameters, or None."""
        found = self.all(*params)
        return found[0] if found else None

    def joined(self, columns: str, tables: str) -> Query[Any]:
        """This query, which has no conditions, with more columns in the end and more joined tables."""
        template = self._template.replace(" FROM ", f", {columns} FROM ", 1)
        return Query(f"{template} {tables}", self._build, attached=self._attached, **self._tables)

    @cached_property
    def _prepared(self) -> tuple[str, list[_Columns | None], list[tuple[int, int, str]], list[int]]:
        """The SQL for this database; each instance's columns, None for a time; what is attached where; what is not."""
        vendor = connection.vendor
        columns: list[_Columns | None] = []
        aliases: list[str] = []

        def expand(found: re.Match[str]) -> str:
            match found[1].replace(".", " ").split():
                case ["now"]:
                    columns.append(None)
                    aliases.append("")
                    return CLOCK_SQL[vendor]
                case ["any"]:
                    return "= ANY(%s)" if vendor == "postgresql" else "IN (SELECT value FROM json_each(%s))"
                case ["lock", alias]:
                    return f"FOR UPDATE OF {alias}" if vendor == "postgresql" else ""
                case [alias, "table"]:
                    return f"{quote(self._tables[alias]._meta.db_table)} AS {alias}"
                case [alias]:
                    columns.append(table := _Columns(self._tables[alias]))
                    aliases.append(alias)
                    return ", ".join(f"{alias}.{quote(name)}" for name in table.columns)
            raise ValueError(f"{{{found[1]}}} is not a placeholder")

        sql = re.sub(r"\{([\w. ]+)\}", expand, self._template)
        attached = [
            (aliases.index(alias), aliases.index(holder), name)
            for alias, to in self._attached.items()
            for holder, name in [to.split(".")]
        ]
        return sql, columns, attached, [place for place, alias in enumerate(aliases) if alias not in self._attached]


class _Columns:
    """A table's columns, with converters."""

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
    """Execute a statement with `%s` parameters; gives a cursor, or what fetches as one, which need not be closed.

    On PostgreSQL as `prepared` says: psycopg's usual cursors parse the statement each time.
    """
    database = connections[DEFAULT_DB_ALIAS]
    if database.vendor == "postgresql" and not database.queries_logged:
        from parley.db import prepared  # psycopg is not installed everywhere

        database.close_if_health_check_failed()
        database.ensure_connection()
        with database.wrap_database_errors:
            return prepared.execute(database.connection, _numbered(sql), params)
    cursor = database.cursor()
    cursor.execute(sql, params)
    return cursor


@lru_cache(maxsize=512)
def _numbered(sql: str) -> bytes:
    """The statement with PostgreSQL's $1, $2, … as parameters."""
    numbers = itertools.count(1)
    return re.sub("%([s%])", lambda found: f"${next(numbers)}" if found[1] == "s" else "%", sql).encode()


class Update(NamedTuple):
    """Set values in the rows that match all of `where`; `write` raises `missing` if none does.

    Names in `where` may end in `__gt` or `__lt`, and its values are not None. Values may be a `Now`.
    """

    model: type[models.Model]
    where: dict[str, Any]
    values: dict[str, Any]
    missing: Exception | None = None


def update(model: type[models.Model], where: dict[str, Any], values: dict[str, Any]) -> int:
    """One `Update`; gives the number of rows."""
    return write(updates=[Update(model, where, values)])[0]


def write(
    inserts: Iterable[models.Model] = (),
    updates: Sequence[Update] = (),
    unique_fields: Mapping[type[models.Model], tuple[str, ...]] | None = None,
    *,
    alone: bool = False,
    may_be_lost: bool = False,
) -> list[int]:
    """Write rows within the open transaction; gives the number of rows of each update.

    PostgreSQL gets one statement, if it can hold all parameters. Its parts see the database as it was before, so no two
    may touch the same row, and references between new rows need deferred constraints, as Django's are. No signals are
    sent; generated keys are not read back. Inserted rows overwrite rows with the same `unique_fields`.

    `alone`: a transaction of its own. On PostgreSQL that is one statement, if it can be; if it `may_be_lost` when the
    database crashes, it does not wait for the disk.
    Raises IntegrityError, or `missing` of the last update without rows.
    """
    rows_by_model: dict[type[models.Model], list[models.Model]] = defaultdict(list)
    for row in inserts:
        rows_by_model[type(row)].append(row)
    build = partial(_statements, rows_by_model, updates, unique_fields or {})
    required = [change for change in updates if change.missing is not None]
    is_postgresql = connection.vendor == "postgresql"
    may_be_alone = alone and is_postgresql and not connection.in_atomic_block
    statements = build(is_guarded=bool(required)) if may_be_alone else []
    is_transaction = may_be_alone and _fits_one(statements)
    with write_transaction() if alone and not is_transaction else nullcontext():
        if is_transaction:
            counts = _execute_as_one(statements, len(updates), required, may_be_lost=may_be_lost)
        else:
            statements = build()
            if is_postgresql and _fits_one(statements):
                counts = _execute_as_one(statements, len(updates))
            else:
                run = execute if is_postgresql else connection.cursor().execute
                counts = [run(sql, own).rowcount for sql, own in statements][: len(updates)]
        for count, change in reversed(list(zip(counts, updates, strict=True))):
            if not count and change.missing is not None:
                raise change.missing
    for rows in rows_by_model.values():
        for row in rows:
            row._state.adding, row._state.db = False, connection.alias
    return counts


def _statements(
    rows_by_model: Mapping[type[models.Model], list[models.Model]],
    updates: Sequence[Update],
    unique_fields: Mapping[type[models.Model], tuple[str, ...]],
    *,
    is_guarded: bool = False,
) -> list[tuple[str, list[Any]]]:
    """The updates, then the inserts; guarded ones write only if `_guard` finds all rows."""
    statements, database = [], connections[DEFAULT_DB_ALIAS]
    for change in updates:
        # The guard has asked the time: asked again, it could differ.
        where = {name: one for name, one in change.where.items() if not (is_guarded and isinstance(one, Now))}
        given = (*change.values.values(), *where.values())
        times = tuple(value if isinstance(value, Now) else None for value in given)
        sql, bound = _update_sql(change.model, tuple(change.values), tuple(where), times, is_guarded)
        params = [
            value if value is None or type(value) is plain else field.get_db_prep_save(value, database)
            for (field, plain), value in zip(bound, (one for one in given if not isinstance(one, Now)), strict=True)
        ]
        statements.append((sql, params))
    max_params = database.features.max_query_params or MAX_PARAMETERS
    for model, rows in rows_by_model.items():
        fields, before, one, typed, after = _insert_sql(model, unique_fields.get(model, ()))
        for some in itertools.batched(rows, max_params // len(fields)):
            params = [
                value if value is None or type(value) is plain else field.get_db_prep_save(value, database)
                for row in some
                for field, plain in fields
                for value in [field.pre_save(row, add=True)]
            ]
            values = f"VALUES {', '.join([typed if is_guarded else one, *[one] * (len(some) - 1)])}"
            values = f"SELECT * FROM ({values}) AS new WHERE {GUARD}" if is_guarded else values  # noqa: S608
            statements.append((f"{before} {values}{after}", params))
    return statements


GUARD = "(SELECT fits FROM guard)"


def _guard(required: Sequence[Update]) -> tuple[str, list[Any]]:
    """The part of a statement that locks a row for each of these updates, in order, as far as there are any."""
    found, params = [], []
    database = connections[DEFAULT_DB_ALIAS]
    for change in required:
        times = tuple(value if isinstance(value, Now) else None for value in change.where.values())
        conditions, bound = _terms_sql(change.model, tuple(change.where), times, " AND ")
        table = quote(change.model._meta.db_table)
        found.append(f"EXISTS (SELECT FROM {table} WHERE {conditions} FOR NO KEY UPDATE)")
        values = (value for value in change.where.values() if not isinstance(value, Now))
        params += [field.get_db_prep_save(value, database) for (field, _), value in zip(bound, values, strict=True)]
    return f"guard AS MATERIALIZED (SELECT {' AND '.join(found)} AS fits)", params


def _execute_as_one(
    statements: list[tuple[str, list[Any]]],
    counted: int,
    required: Sequence[Update] = (),
    *,
    may_be_lost: bool = False,
) -> list[int]:
    """Execute them as parts of one statement; gives the number of rows of the first ones."""
    guard, params = _guard(required) if required else ("", [])
    parts = [guard] if guard else []
    for n, (sql, own) in enumerate(statements):
        parts.append(f"w{n} AS ({sql}{' RETURNING 1' if n < counted else ''})")
        params += own
    shown = [f"(SELECT count(*) FROM w{n})" for n in range(counted)]  # noqa: S608
    if may_be_lost:
        shown.append("set_config('synchronous_commit', 'off', true)")
    found = execute(f"WITH {', '.join(parts)} SELECT {', '.join(shown) or 'NULL'}", params).fetchone()
    return list(found[:counted])


def _fits_one(statements: list[tuple[str, list[Any]]]) -> bool:
    size = sum(len(params) for _, params in statements)
    return bool(statements) and connection.vendor == "postgresql" and size <= MAX_PARAMETERS


MAX_PARAMETERS = 65_000  # of a statement; with those of its guard at most 65,535, by PostgreSQL's protocol

COMPARISONS = {"gt": ">", "lt": "<"}


PLAIN: dict[type[models.Field[Any, Any]], type] = {
    models.CharField: str,
    models.TextField: str,
    models.BooleanField: bool,
    models.UUIDField: uuid.UUID,
    models.DateTimeField: datetime.datetime,
}
"""Values that Django would hand to the drivers unchanged, or as the adapters above do: asking it costs more."""
type Bound = tuple[models.Field[Any, Any], type | None]
"""The field of a parameter, and which of its values are `PLAIN`."""


def _bound(field: models.Field[Any, Any]) -> Bound:
    return field, PLAIN.get(type(_target(field)))


@cache
def _insert_sql(model: type[models.Model], unique: tuple[str, ...]) -> tuple[list[Bound], str, str, str, str]:
    """The fields of an insert, and its SQL before, for one row, for one with types, and after the rows."""
    made_by_database = (models.AutoField, models.BigAutoField)
    fields = [field for field in model._meta.local_concrete_fields if not isinstance(field, made_by_database)]
    names = {field.name: quote(str(field.column)) for field in fields}
    overwrite = ""
    if unique:
        rest = [names[field.name] for field in fields if field.name not in unique and not field.primary_key]
        values = ", ".join(f"{column} = EXCLUDED.{column}" for column in rest)
        overwrite = f" ON CONFLICT ({', '.join(names[name] for name in unique)}) DO UPDATE SET {values}"
    before = f"INSERT INTO {quote(model._meta.db_table)} ({', '.join(names.values())})"
    # Without a length, to which PostgreSQL would shorten the value.
    types = [f"%s::{str(field.db_type(connection)).partition('(')[0]}" for field in fields]
    bound = [_bound(field) for field in fields]
    return bound, before, f"({', '.join(['%s'] * len(fields))})", f"({', '.join(types)})", overwrite


def _target(field: models.Field[Any, Any]) -> models.Field[Any, Any]:
    """The field itself, or the field that a foreign key finally refers to."""
    return _target(field.target_field) if isinstance(field, models.ForeignKey) else field


@cache
def _update_sql(
    model: type[models.Model],
    names: tuple[str, ...],
    where: tuple[str, ...],
    times: tuple[Now | None, ...],
    is_guarded: bool,
) -> tuple[str, list[Bound]]:
    """The SQL of an update that sets `names` in the rows with `where`, and its parameters. `times`: of both."""
    settings, set_bound = _terms_sql(model, names, times[: len(names)], ", ")
    conditions, where_bound = _terms_sql(model, where, times[len(names) :], " AND ")
    sql = f"UPDATE {quote(model._meta.db_table)} SET {settings} WHERE {conditions}"  # noqa: S608
    return (f"{sql} AND {GUARD}" if is_guarded else sql), [*set_bound, *where_bound]


@cache
def _terms_sql(
    model: type[models.Model], names: tuple[str, ...], times: tuple[Now | None, ...], separator: str
) -> tuple[str, list[Bound]]:
    """Columns as settings or conditions, and their parameters."""
    parts, bound = [], []
    for name, time in zip(names, times, strict=True):
        field: Any = model._meta.get_field(name.partition("__")[0])
        sign = COMPARISONS.get(name.partition("__")[2], "=")
        parts.append(f"{quote(field.column)} {sign} {time.sql if time else '%s'}")
        if not time:
            bound.append(_bound(field))
    return separator.join(parts), bound


def quote(name: str) -> str:
    """A name as an SQL identifier."""
    quoted: str = connection.ops.quote_name(name)
    return quoted


def database_time() -> datetime.datetime:
    """The database's time."""
    at = time_from(execute(f"SELECT {CLOCK_SQL[connection.vendor]}", []).fetchone()[0])
    note_time(at)
    return at


class Keys(RawSQL):
    """For `__in`: many keys as one parameter. Django and psycopg take longer for a list than the database does."""

    def __init__(self, keys: Iterable[uuid.UUID]) -> None:
        self.keys = [*keys]
        listed = ",".join(key.hex for key in self.keys)
        if connection.vendor == "postgresql":
            super().__init__("SELECT unnest(string_to_array(%s, ',')::uuid[])", [listed])
        else:
            super().__init__("SELECT value FROM json_each(%s)", [json.dumps(listed.split(","))])

    def __iter__(self) -> Iterator[uuid.UUID]:
        return iter(self.keys)


def delete_in_batches(rows: models.QuerySet[Any], size: int = 1_000) -> int:
    """Delete the rows and what hangs on them, so that no transaction is long. Returns the number of rows."""
    deleted = 0
    while keys := list(rows.values_list("pk", flat=True)[:size]):
        rows.model._default_manager.filter(pk__in=keys).delete()
        deleted += len(keys)
    return deleted


MAX_SKEW = datetime.timedelta(seconds=5)
_RIGHT = datetime.timedelta()
_skew = _RIGHT
_measured: datetime.timedelta | None = None


def note_time(at: datetime.datetime) -> None:
    """Compare this machine's clock with the database's, which was read just now.

    One reading that differs may be of a process that stood still after it; from the second one on, `corrected_time`
    follows the database. SQLite has the machine's own clock.
    """
    global _skew, _measured
    if connection.vendor == "sqlite":
        return
    difference = at - timezone.now()
    if abs(difference) <= MAX_SKEW:
        _skew = _RIGHT
    elif _measured is None or abs(difference - _measured) <= MAX_SKEW:
        _skew = difference
    _measured = difference


def corrected_time() -> datetime.datetime:
    """This machine's time, without a query; the database's, if the machine's clock is known to be wrong.

    What several machines write is put in order by it, within seconds.
    """
    return timezone.now() + _skew


def time_from(value: Any) -> datetime.datetime:
    """The aware time of a `CLOCK_SQL` result."""
    if isinstance(value, datetime.datetime):  # naive from SQLite
        return value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
    return datetime.datetime.fromisoformat(value).replace(tzinfo=datetime.UTC)


def uuid_from(value: Any) -> uuid.UUID:
    """The key in a result of `execute`."""
    return value if isinstance(value, uuid.UUID) else uuid.UUID(value)
