"""A migration beside processes that work, and beside a transaction that is long open, such as a backup's."""

import io
import threading

import psycopg
import pytest
from allauth.mfa.models import Authenticator
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection, models
from django.db.migrations.state import ProjectState

from parley.db import versions
from parley.db.indexes import AddIndexBesideWriters
from parley.management.commands import migrate
from tests.faults.calling import until

pytestmark = [
    pytest.mark.services("PostgreSQL makes everybody wait behind a change of a table", only=True),
    pytest.mark.django_db(transaction=True),
]
TABLE = Authenticator._meta.db_table


def another_connection() -> psycopg.Connection:
    settings = connection.get_connection_params()
    return psycopg.connect(**{name: settings[name] for name in ("dbname", "host", "port", "user")})


@pytest.fixture
def reader():
    """A transaction that has read the table, which is one migration behind."""
    call_command("migrate", "mfa", "0002", verbosity=0)
    with another_connection() as opened:
        opened.execute(f"SELECT FROM {TABLE}")
        yield opened
    call_command("migrate", "mfa", verbosity=0)


class Said(io.StringIO):
    """What a command says to people. `anything` is set when it does."""

    def __init__(self) -> None:
        super().__init__()
        self.anything = threading.Event()

    def write(self, text: str) -> int:
        self.anything.set()
        return super().write(text)


def test_it_lets_others_read_while_it_waits(reader, monkeypatch):
    monkeypatch.setattr(migrate, "LOCK_SECONDS", 0.1)
    monkeypatch.setattr(migrate, "BETWEEN_SECONDS", 0.1)
    said = Said()

    def run() -> None:
        call_command("migrate", "mfa", verbosity=0, stderr=said)
        connection.close()

    migrating = threading.Thread(target=run)
    migrating.start()
    try:
        assert said.anything.wait(60)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM {TABLE}")
    finally:
        reader.rollback()
        migrating.join()
    assert versions.missing(connection) == []


def test_migrating_gives_up_and_says_why(reader, monkeypatch):
    monkeypatch.setattr(migrate, "LOCK_SECONDS", 0.1)
    monkeypatch.setattr(migrate, "PATIENCE_SECONDS", 0.0)
    with pytest.raises(CommandError, match="pg_stat_activity"):
        call_command("migrate", "mfa", verbosity=0)


def test_others_write_while_an_index_waits():
    index = models.Index(fields=["type"], name="by_type")
    adding = threading.Thread(target=add, args=[AddIndexBesideWriters("authenticator", index)])
    with another_connection() as writer:
        writer.execute(f"LOCK TABLE {TABLE} IN ROW EXCLUSIVE MODE")
        adding.start()
        try:
            until(is_adding_an_index, 60)
            with another_connection() as other:
                other.execute(f"LOCK TABLE {TABLE} IN ROW EXCLUSIVE MODE NOWAIT")
        finally:
            writer.rollback()
            adding.join()
    with connection.cursor() as cursor:
        cursor.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = 'by_type'::regclass")
        assert cursor.fetchone() == (True,)
        cursor.execute("DROP INDEX by_type")


def add(operation: AddIndexBesideWriters) -> None:
    before, after = ProjectState.from_apps(apps), ProjectState.from_apps(apps)
    operation.state_forwards("mfa", after)
    with connection.schema_editor(atomic=False) as editor:
        operation.database_forwards("mfa", editor, before, after)
    connection.close()


def is_adding_an_index() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            " AND query LIKE 'CREATE INDEX%'"
        )
        return cursor.rowcount > 0
