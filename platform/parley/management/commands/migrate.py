"""`./manage.py migrate`: Django's, which on PostgreSQL lets others work while it waits for a table."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError, connections
from psycopg.errors import DeadlockDetected, LockNotAvailable

from parley.db import versions

LOCK_SECONDS = 2.0  # everybody else who wants the table waits so long
BETWEEN_SECONDS = 5.0
PATIENCE_SECONDS = 900.0


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        """A statement that waits for a table, such as for a backup's end, makes all others wait behind it."""
        if lost := versions.out_of_reach(connections[options["database"]]):
            raise CommandError(
                f"The database is too old for this version: it lacks {lost[0]}, which only older versions have. First "
                "run ./manage.py migrate of the last one that has it: "
                "docs/running/upgrading.md#a-database-from-before-the-migrations-were-merged"
            )
        until = time.monotonic() + PATIENCE_SECONDS
        with _short_waits(options["database"]):
            while True:
                try:
                    super().handle(*args, **options)
                except OperationalError as error:
                    if not isinstance(error.__cause__, (LockNotAvailable, DeadlockDetected)):
                        raise
                    if time.monotonic() > until:
                        raise CommandError(
                            "Another transaction still uses a table that has to change. "
                            "pg_stat_activity names it; end it, and migrate again."
                        ) from error
                else:
                    return
                self.stderr.write("Another transaction uses a table that has to change. Trying again.")
                time.sleep(BETWEEN_SECONDS)


@contextmanager
def _short_waits(database: str) -> Iterator[None]:
    connection = connections[database]
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute(f"SET lock_timeout = '{LOCK_SECONDS * 1000:.0f}ms'")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET lock_timeout")
