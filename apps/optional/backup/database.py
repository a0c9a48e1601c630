"""Reading all rows as they were at one moment, and filling an empty database with them."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Callable, Iterator
from itertools import batched
from typing import Any, Self

from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

from apps.optional.backup.container import BadBackup, TableSummary
from apps.optional.backup.tables import Row, Table, all_tables, seeded_tables
from apps.record.execution import Run
from parley.db import versions

READ_AT_ONCE = 1_000  # rows
INSERTED_AT_ONCE = 500  # rows of a statement on SQLite

Progress = Callable[[str], None]


class NotEmpty(Exception):
    """The place to fill has content; the message says which."""


class Snapshot:
    """The database at one moment, on a connection of its own; others go on writing.

    PostgreSQL: a REPEATABLE READ transaction; SQLite in WAL mode: a read transaction.
    """

    def __init__(self, using: str = DEFAULT_DB_ALIAS) -> None:
        base = connections[using]
        settings = copy.deepcopy(base.settings_dict)
        settings["OPTIONS"].pop("pool", None)
        self.database: BaseDatabaseWrapper = type(base)(settings, using)

    def __enter__(self) -> Self:
        is_postgresql = self.database.vendor == "postgresql"
        with self.database.cursor() as cursor:
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" if is_postgresql else "BEGIN DEFERRED")
            cursor.execute("SELECT 1 FROM django_migrations LIMIT 1")  # the first read fixes the moment
        return self

    def __exit__(self, *_: object) -> None:
        self.database.close()

    def select(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a statement, streamed."""
        with self.database.chunked_cursor() as cursor:
            cursor.execute(statement)
            while rows := cursor.fetchmany(READ_AT_ONCE):
                yield from rows

    def rows(self, table: Table) -> Iterator[Row]:
        encoders = [(place, encode) for place, encode in enumerate(table.encoders(self.database)) if encode]
        for found in self.select(table.sql(self.database)):
            row = list(found)
            for place, encode in encoders:
                row[place] = encode(row[place])
            yield row

    def last_key(self, table: Table) -> int:
        """The highest key that the table's sequence gave out, though its row may be deleted. 0: none."""
        if not table.sequence:
            return 0
        with self.database.cursor() as cursor:
            if self.database.vendor == "postgresql":
                cursor.execute("SELECT pg_get_serial_sequence(%s, %s)", [f'"{table.db_table}"', table.sequence])
                cursor.execute(f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {cursor.fetchone()[0]}")  # noqa: S608
            else:
                cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = %s", [table.db_table])
            found = cursor.fetchone()
        return int(found[0]) if found else 0


def is_migrated(using: str = DEFAULT_DB_ALIAS) -> bool:
    return not versions.missing(connections[using])


def check_empty(using: str) -> None:
    """Raises NotEmpty if a table has rows that `migrate` did not make."""
    database = connections[using]
    with database.cursor() as cursor:
        existing = set(database.introspection.table_names(cursor))
        seeded = {table.name for table in seeded_tables()}
        filled = []
        for table in all_tables():
            if table.name in seeded or table.db_table not in existing:
                continue
            cursor.execute(table.sql(database, "1") + " LIMIT 1")
            if cursor.fetchone():
                filled.append(table.name)
    if filled:
        some = ", ".join(filled[:3]) + (" …" if len(filled) > 3 else "")
        raise NotEmpty(f"The database has rows ({some}). Take an empty one: Parley must not have been started with it.")


def prepare_empty(using: str, progress: Progress) -> None:
    """Check that the database is empty, and migrate it. Raises NotEmpty."""
    check_empty(using)
    if not is_migrated(using):
        progress("migrating the empty database")
        call_command("migrate", database=using, interactive=False, verbosity=0)


class Filler:
    """Fills an empty, migrated database inside the caller's transaction."""

    def __init__(self, using: str, progress: Progress) -> None:
        self.using, self.database, self._progress = using, connections[using], progress

    def begin(self) -> None:
        """Check once more that the database is empty, and delete what `migrate` put there. Raises NotEmpty."""
        check_empty(self.using)
        with self.database.cursor() as cursor:
            for table in reversed(seeded_tables()):
                cursor.execute(f"DELETE FROM {self._quote(table.db_table)}")  # noqa: S608

    def insert(self, table: Table, rows: Iterator[Row]) -> int:
        """Insert rows; returns their number. Raises BadBackup for values that the database refuses."""
        make = table.row_maker(self.database)
        columns = [*table.columns, *(str(field.column) for field in table.derived)]
        insert = self._copy if self.database.vendor == "postgresql" else self._insert_many
        try:
            return insert(table, columns, (make(row) for row in rows))
        except DatabaseError as error:
            raise BadBackup(f"The database refuses a row of {table.name}: {error}") from error

    def _copy(self, table: Table, columns: list[str], rows: Iterator[Any]) -> int:
        names, count = ", ".join(map(self._quote, columns)), 0
        self.database.ensure_connection()
        driver: Any = self.database.connection
        statement = f"COPY {self._quote(table.db_table)} ({names}) FROM STDIN"
        with self.database.wrap_database_errors, driver.cursor() as cursor, cursor.copy(statement) as copying:
            for row in rows:
                copying.write_row(row)
                count = self._count(table, count + 1)
        return count

    def _insert_many(self, table: Table, columns: list[str], rows: Iterator[Any]) -> int:
        names, count = ", ".join(map(self._quote, columns)), 0
        values = ", ".join(["%s"] * len(columns))
        statement = f"INSERT INTO {self._quote(table.db_table)} ({names}) VALUES ({values})"  # noqa: S608
        with self.database.cursor() as cursor:
            for some in batched(rows, INSERTED_AT_ONCE, strict=False):
                cursor.executemany(statement, some)
                for _ in some:
                    count = self._count(table, count + 1)
        return count

    def _count(self, table: Table, count: int) -> int:
        if count % 5_000 == 0:
            self._progress(f"{table.name}: {count:,} rows")
        return count

    def finish(self, tables: list[Table], summaries: dict[str, TableSummary]) -> None:
        """Count rows, check foreign keys, set sequences, and end leases. Raises BadBackup, IntegrityError."""
        self._progress("checking counts and references")
        for table in tables:
            summary = summaries[table.name]
            with self.database.cursor() as cursor:
                cursor.execute(f"SELECT count(*) FROM {self._quote(table.db_table)}")  # noqa: S608
                if (count := cursor.fetchone()[0]) != summary["rows"]:
                    raise BadBackup(f"{table.name} should have {summary['rows']:,} rows and has {count:,}.")
            if table.sequence:
                self._set_sequence(table, summary["lastKey"])
        self.database.check_constraints()
        end_leases(self.using)

    def _set_sequence(self, table: Table, last_key: int) -> None:
        """Keys that were ever given out must not be given out again: clients may remember them."""
        column = self._quote(table.sequence)
        with self.database.cursor() as cursor:
            cursor.execute(f"SELECT coalesce(max({column}), 0) FROM {self._quote(table.db_table)}")  # noqa: S608
            if not (highest := max(cursor.fetchone()[0], last_key)):
                return
            if self.database.vendor == "postgresql":
                name = [f'"{table.db_table}"', table.sequence]
                cursor.execute("SELECT setval(pg_get_serial_sequence(%s, %s), %s)", [*name, highest])
                return
            cursor.execute("DELETE FROM sqlite_sequence WHERE name = %s", [table.db_table])
            cursor.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (%s, %s)", [table.db_table, highest])

    def _quote(self, name: str) -> str:
        return str(self.database.ops.quote_name(name))


def end_leases(using: str) -> None:
    """Let the sweep find runs whose worker is not here, as after a crash."""
    ended = timezone.now() - datetime.timedelta(hours=1)  # clocks may differ
    runs = Run._base_manager.using(using)
    runs.filter(state=Run.State.RUNNING).update(lease_until=ended)
    runs.filter(state=Run.State.QUEUED).update(published_at=None)
