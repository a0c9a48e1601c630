"""Empties the database quickly after each test that commits.

Django truncates all tables, which takes PostgreSQL over a second, and writes content types and permissions again.
This deletes rows, and keeps those from migrations.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection, transaction
from django.db.models import QuerySet

from apps.record.models import Context, Event
from tests import background

AUDIT = ("accounts_auditentry", "accounts_audithead")
LOG = "record_event"
KEPT = {model._meta.db_table for model in (ContentType, Permission)}


def empty(_case: Any = None) -> None:
    """Replaces `TransactionTestCase._fixture_teardown`. Foreign keys are checked at the end."""
    background.wait_for_all()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_which_have_rows())
        found = {table for (table,) in cursor.fetchall()}
        for table in found.difference(AUDIT, {LOG}):
            cursor.execute(f'DELETE FROM "{table}"')
        if LOG in found:
            empty_log()
        if found.intersection(AUDIT):
            with unguarded_audit():
                for table in AUDIT:
                    cursor.execute(f"DELETE FROM {table}")


@cache
def _which_have_rows() -> str:
    """SQL for the names of tables with rows: made once, because the tables stay the same."""
    tables = set(connection.introspection.django_table_names(only_existing=True, include_views=False)) - KEPT
    return " UNION ALL ".join(f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM \"{table}\")" for table in sorted(tables))


def rolled_back(roll_back: Callable[[Any], None]) -> Callable[[Any], None]:
    """For `TestCase._fixture_teardown`. Background work that writes waits for the test's transaction on SQLite."""

    def tear_down(case: Any) -> None:
        was_under_way = background.is_under_way()
        roll_back(case)
        if was_under_way or background.is_under_way():  # it writes after the test
            empty()

    return tear_down


def empty_log() -> None:
    """Delete all events. In a transaction."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with unguarded_log():
                cursor.execute(f"DELETE FROM {LOG}")
            return
        # Without triggers, every connection would read the schema again.
        cursor.execute(f"INSERT INTO record_erasing SELECT DISTINCT context_id FROM {LOG}")
        cursor.execute(f"DELETE FROM {LOG}")
        cursor.execute("DELETE FROM record_erasing")


@contextmanager
def _without_triggers(names: str) -> Iterator[None]:
    """The database lets tables be changed meanwhile: as somebody might who owns it. In a transaction."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL session_replication_role = replica")
            yield
            cursor.execute("SET LOCAL session_replication_role = origin")
            return
        cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name LIKE %s", [names])
        guards = cursor.fetchall()
        for name, _ in guards:
            cursor.execute(f"DROP TRIGGER {name}")
        yield
        for _, statement in guards:
            cursor.execute(statement)


unguarded_audit = partial(_without_triggers, "audit_%")
unguarded_log = partial(_without_triggers, "event_no_%")


def rewrite(events: QuerySet[Event], **values: Any) -> None:
    """Change recorded events, which the database refuses: as somebody might who owns it, or to set a test's stage."""
    with transaction.atomic(), unguarded_log():
        events.update(**values)


def without_hashes() -> None:
    """All logs are as a version recorded them that had no hashes."""
    rewrite(Event.objects.all(), hash=None)
    Context.objects.update(head_hash=None)


def remove(events: QuerySet[Event]) -> None:
    """The same, to delete them."""
    with transaction.atomic(), unguarded_log():
        events.delete()


def end_other_connections() -> None:
    """Threads may outlive the tests, and PostgreSQL cannot drop a database with connections."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
