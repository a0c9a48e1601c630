"""Moving to another database: the rows of one moment, without a file in between."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import environ
from django.conf import settings
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, DatabaseError, IntegrityError, connections, transaction
from django.db.utils import ConnectionHandler
from django.utils import timezone

from apps.optional.backup.container import BadBackup, TableSummary
from apps.optional.backup.database import Filler, Progress, Snapshot, is_migrated, prepare_empty
from apps.optional.backup.tables import all_tables
from apps.record.execution import Run

TARGET = "move_target"  # Django's alias of the new database
CONNECT_SECONDS = 2.0


class StillServing(Exception):
    """This installation is in use; the message says how that was seen."""


def check_unused() -> None:
    """Raises StillServing if another process serves or works with this installation's database."""
    advice = "Stop it first, so that nothing is lost that is written meanwhile."
    if Run._base_manager.filter(state=Run.State.RUNNING, lease_until__gt=timezone.now()).exists():
        raise StillServing(f"A worker is running tasks of this installation. {advice}")
    try:
        socket.create_connection((settings.HOST.strip("[]"), settings.PORT), CONNECT_SECONDS).close()
    except OSError:
        pass
    else:
        raise StillServing(f"A server listens at {settings.HOST}:{settings.PORT}. {advice}")
    if _others_are_connected():
        raise StillServing(f"Another process is connected to the database of this installation. {advice}")


def _others_are_connected() -> bool:
    database = connections[DEFAULT_DB_ALIAS]
    if database.vendor == "postgresql":
        with database.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
            return bool(cursor.fetchone()[0])
    database.close()
    probe = sqlite3.connect(database.settings_dict["NAME"], timeout=0, isolation_level=None)
    try:  # every open connection holds a shared lock on a database in WAL mode
        probe.execute("PRAGMA locking_mode = EXCLUSIVE")
        probe.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError:
        return True
    finally:
        probe.close()
    return False


@contextmanager
def target_database(url: str) -> Iterator[str]:
    """Django's alias of the PostgreSQL database at a URL, while it is used. Raises BadBackup for another URL."""
    try:
        config = dict(environ.Env.db_url_config(url))
        config.setdefault("OPTIONS", {})["connect_timeout"] = 10
        if not str(config["ENGINE"]).endswith("postgresql"):
            raise BadBackup("Move to a PostgreSQL database: postgres://user:password@host/name")
        connections.settings[TARGET] = ConnectionHandler({DEFAULT_DB_ALIAS: {}, TARGET: config}).settings[TARGET]
        connections[TARGET].ensure_connection()
    except (DatabaseError, ImproperlyConfigured, ValueError, KeyError) as error:
        connections.settings.pop(TARGET, None)
        raise BadBackup(f"The new database cannot be reached: {error}") from error
    try:
        yield TARGET
    finally:
        connections[TARGET].close()
        del connections[TARGET]
        connections.settings.pop(TARGET, None)


def copy_database(target: str, progress: Progress, *, source: str = DEFAULT_DB_ALIAS) -> dict[str, TableSummary]:
    """Migrate the empty `target` and fill it with the rows that `source` has now: everything or nothing.

    Raises BadBackup, NotEmpty; then the target has at most been migrated.
    """
    if not is_migrated(source):
        raise BadBackup("The database lacks migrations of this version. Run ./manage.py migrate first.")
    prepare_empty(target, progress)
    tables, summaries = all_tables(), {}
    try:
        with Snapshot(source) as snapshot, transaction.atomic(using=target):
            filler = Filler(target, progress)
            filler.begin()
            for table in tables:
                count = filler.insert(table, snapshot.rows(table))
                summaries[table.name] = TableSummary(
                    columns=table.columns, rows=count, lastKey=snapshot.last_key(table)
                )
            filler.finish(tables, summaries)
    except IntegrityError as error:
        raise BadBackup(f"The rows of this installation do not belong together: {error}") from error
    finally:
        ContentType.objects.clear_cache()
    return summaries


def verify_there(url: str, sample: int | None) -> tuple[bool, str]:
    """Run `verify_record` with the new database, in a process of its own; returns whether all is well, and its words.

    Prepared SQL in this process is that of the old database.
    """
    command = [sys.executable, "-m", "django", "verify_record", *([] if sample is None else ["--sample", str(sample)])]
    keys = {"SECRET_KEY": settings.SECRET_KEY, "MASTER_KEY": settings.MASTER_KEY}
    environment = {**os.environ, **keys, "DATABASE_URL": url}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    return done.returncode == 0, (done.stdout + done.stderr).strip()
