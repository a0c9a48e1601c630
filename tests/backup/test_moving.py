"""An installation moves to another database with everything."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import urllib.parse
import uuid
from typing import Any

import pytest
from django.conf import settings
from django.core.files.storage import FileSystemStorage
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler

from apps.optional.backup import operations as backup
from apps.optional.backup.database import NotEmpty
from apps.optional.backup.operations import Choices, stored_at
from apps.record.models import Context, Event
from apps.record.reading.lookup import restored
from tests import patterns, stack
from tests.backup.installations import fill, rows

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _other_databases_are_allowed(transactional_db, monkeypatch):
    def ensure_connection(self: BaseDatabaseWrapper) -> None:
        if self.connection is None:
            with self.wrap_database_errors:
                self.connect()

    monkeypatch.setattr(BaseDatabaseWrapper, "ensure_connection", ensure_connection)


def quiet(_: str) -> None:
    pass


@pytest.fixture
def sqlite(tmp_path):
    """Django's alias of an empty SQLite database; PostgreSQL's is migrated here."""
    shutil.copyfile(stack.migrated({}) / patterns.DATABASE, tmp_path / "parley.sqlite3")
    config = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(tmp_path / "parley.sqlite3"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF"},
    }
    connections.settings["embedded"] = ConnectionHandler({"default": {}, "embedded": config}).settings["embedded"]
    yield "embedded"
    connections["embedded"].close()
    del connections["embedded"]
    del connections.settings["embedded"]


@pytest.fixture
def postgresql():
    """The URL of an empty database, without tables."""
    name = f"test_moved_{uuid.uuid4().hex[:8]}"
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    url = urllib.parse.urlsplit(settings.DATABASE_URL)
    yield urllib.parse.urlunsplit(url._replace(path=f"/{name}"))
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


def words_of(using: str) -> list[Any]:
    """The index of PostgreSQL, which SQLite does not have."""
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT id, words::text FROM search_searchentry ORDER BY id")
        found: list[Any] = cursor.fetchall()
    assert found
    return found


@pytest.mark.services("it moves to PostgreSQL and back", only=True)
@pytest.mark.usefixtures("own_files")
def test_all_rows_move_between_databases(play, ada, echo, said, sqlite, postgresql, tmp_path):
    play({"write": {"agent": "loud", "message": "hello"}})
    fill(ada, echo, said)
    file = stored_at(str(tmp_path / "parley.tar"))
    backup.make_backup(file, Choices(), quiet)
    before = rows()  # with the audit's entry of the backup
    elsewhere = FileSystemStorage(tmp_path / "elsewhere")
    backup.restore_backup(file, None, quiet, using=sqlite, storage=elsewhere)
    assert rows(sqlite) == before
    with backup.target_database(postgresql) as target:
        backup.copy_database(target, quiet, source=sqlite)
        assert rows(target) == before
        assert words_of(target) == words_of("default")
        highest = Event.objects.order_by("-pk").values_list("pk", flat=True)[0]
        with connections[target].cursor() as cursor:
            cursor.execute("SELECT nextval(pg_get_serial_sequence('record_event', 'id'))")
            assert cursor.fetchone()[0] > highest
        with pytest.raises(NotEmpty):
            backup.copy_database(target, quiet, source=sqlite)
    os.environ["DATA_DIR"], data_dir = str(tmp_path / "data"), os.environ["DATA_DIR"]
    try:
        is_well, words = backup.verify_there(postgresql, None)
    finally:
        os.environ["DATA_DIR"] = data_dir
    for context in Context.objects.all():
        restored(context)  # `play` compares them too
    assert (is_well, words) == (True, f"{len(before['record.Context'])} sessions were replayed and match their logs.")


def test_who_serves_is_asked_to_stop_first(ada, settings):
    settings.PORT = 1  # where nobody listens
    url = "postgres://nobody@127.0.0.1:1/nowhere"
    with sqlite3.connect(connection.settings_dict["NAME"]) as other:
        other.execute("SELECT count(*) FROM accounts_user")
        with pytest.raises(CommandError, match="Another process"):
            call_command("move_to", url)
        with pytest.raises(CommandError, match="cannot be reached"):
            call_command("move_to", url, while_serving=True)
    other.close()
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings.HOST, settings.PORT = server.getsockname()
        with pytest.raises(CommandError, match="A server listens"):
            call_command("move_to", url)


@pytest.mark.parametrize("url", ["sqlite:///other.sqlite3", "http://nonsense", "postgres://[broken"])
def test_it_moves_only_to_postgresql(url):
    with pytest.raises(CommandError):
        call_command("move_to", url, while_serving=True)
