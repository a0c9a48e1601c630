"""Database thieves cannot read secrets."""

import os
import secrets

import pytest
from django.core.exceptions import FieldError
from django.core.management import CommandError, call_command
from django.db import connection, models
from django.test.utils import isolate_apps
from model_bakery import baker, generators

from apps.accounts.models import User
from apps.accounts.secrets.encryption import (
    BATCH_ROWS,
    CannotDecrypt,
    EncryptedTextField,
    Keyring,
    NoMasterKey,
    encrypted_fields,
    keyring,
)
from apps.agents.models import Agent

with isolate_apps("apps.accounts"):  # hidden from commands that look at all models

    class Note(models.Model):
        """Two secrets, in a test-only table."""

        secret = EncryptedTextField()
        other = EncryptedTextField(null=True, db_column="another")

        class Meta:
            app_label = "accounts"
            db_table = "tests_note"

        def __str__(self):
            return "a note"


@pytest.fixture
def notes(transactional_db):
    with connection.schema_editor() as editor:
        editor.create_model(Note)
    yield Note.objects
    with connection.schema_editor() as editor:
        editor.delete_model(Note)


@pytest.fixture
def rotated(monkeypatch):
    """Includes the test table in commands for secrets."""
    fields = [field for field in Note._meta.fields if isinstance(field, EncryptedTextField)]
    monkeypatch.setattr("apps.accounts.management.commands.rotate_master_key.encrypted_fields", lambda: fields)


def new_key():
    return secrets.token_urlsafe(32)


def stored(column="secret"):
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {column} FROM tests_note ORDER BY id")
        return [row[0] for row in cursor.fetchall()]


def test_secrets_are_stored_encrypted(notes):
    note = notes.create(secret="hush ünd 字 \n", other="")
    note.refresh_from_db()
    assert (note.secret, note.other) == ("hush ünd 字 \n", "")
    [value] = stored()
    assert "hush" not in value
    assert value.startswith(keyring().current_prefix)
    notes.update(secret="changed", other=None)
    assert notes.values_list("secret", "other").get() == ("changed", None)
    assert "changed" not in stored()[0]
    notes.create(secret="changed")
    assert len(set(stored())) == 2, "the same secret twice is two values"


def test_nothing_can_be_looked_for_in_a_secret(notes):
    notes.create(secret="a")
    for lookup in ("secret", "secret__contains", "secret__length__gt", "secret__in"):
        with pytest.raises(FieldError, match="encrypted"):
            notes.filter(**{lookup: "a"}).exists()
    assert notes.filter(other__isnull=True).count() == 1


def test_a_secret_cannot_be_moved_to_another_column(notes):
    notes.create(secret="mine")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE tests_note SET another = secret")
    with pytest.raises(CannotDecrypt, match=r"tests_note\.another was changed, or moved"):
        notes.get()


def test_changed_or_planted_values_are_refused(notes):
    notes.create(secret="mine")
    [value] = stored()
    changed = r"tests_note\.secret was changed"
    other = "B" if value[20] == "A" else "A"
    spoiled = {value[:-3]: changed, value[:20] + other + value[21:]: changed, value + "=": changed, value[:18]: changed}
    for planted, sentence in (spoiled | {"planted": "is not encrypted"}).items():
        with connection.cursor() as cursor:
            cursor.execute("UPDATE tests_note SET secret = %s", [planted])
        with pytest.raises(CannotDecrypt, match=sentence):
            notes.get()


def test_another_master_key_reads_nothing(notes, settings):
    notes.create(secret="mine")
    missing = keyring().current
    settings.MASTER_KEY = new_key()
    with pytest.raises(CannotDecrypt, match=f"master key {missing}, which MASTER_KEY does not list"):
        notes.get()


def test_rotation_brings_everything_under_the_first_key_once(notes, rotated, settings, capsys):
    notes.bulk_create([Note(secret=f"s{n}", other=None if n % 2 else "") for n in range(BATCH_ROWS + 3)])
    notes.create(secret="x", other="y")
    settings.MASTER_KEY = f"{(new := new_key())},{settings.MASTER_KEY}"
    call_command("rotate_master_key")
    assert capsys.readouterr().out.splitlines() == [
        f"tests_note.secret: {BATCH_ROWS + 4} encrypted with the new key",
        "tests_note.another: 1 encrypted with the new key",
        "mfa_authenticator.data: 0 encrypted with the new key",
    ]
    settings.MASTER_KEY = new
    assert sorted(notes.values_list("secret", flat=True)) == sorted([*(f"s{n}" for n in range(BATCH_ROWS + 3)), "x"])
    before = stored()
    call_command("rotate_master_key")
    assert stored() == before


def test_rotation_reports_what_it_cannot_read(notes, rotated, settings, capsys):
    notes.create(secret="lost")
    lost = stored()[0]
    settings.MASTER_KEY = new_key()
    notes.create(secret="kept")
    settings.MASTER_KEY = f"{new_key()},{settings.MASTER_KEY}"
    with pytest.raises(CommandError, match="1 values were not changed") as refusal:
        call_command("rotate_master_key")
    assert refusal.value.returncode == 1
    told = capsys.readouterr()
    assert "tests_note.secret: 1 encrypted with the new key" in told.out
    assert "MASTER_KEY does not list" in told.err
    assert stored()[0] == lost
    assert notes.get(pk=2).secret == "kept"


KEY = new_key()


def test_invalid_master_keys_are_refused():
    for text in ("", "short", KEY[:-1], "ä" * 43, f"{KEY},x", KEY + KEY):
        with pytest.raises(NoMasterKey, match="32 bytes in URL-safe base64"):
            Keyring.read(text)


CANARY, PLAIN = "canary-7f3a91-of-a-secret", "canary-7f3a91-in-plain-sight"


def dump_of_the_database():
    """What a thief gets: SQLite's files, or a copy of PostgreSQL's tables."""
    if connection.vendor == "sqlite":
        path = str(connection.settings_dict["NAME"])
        return b"".join(open(file, "rb").read() for file in (path, f"{path}-wal") if os.path.exists(file))
    dumped = b""
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            with cursor.copy(f'COPY "{table}" TO STDOUT') as copy:
                dumped += b"".join(bytes(block) for block in copy)
    return dumped


def paths_to_agents(model):
    """Lookups from a model to agents, which need a handler."""
    for field in model._meta.concrete_fields:
        if field.is_relation and not field.null:
            inner = (
                [""] if field.related_model is Agent else [f"__{path}" for path in paths_to_agents(field.related_model)]
            )
            yield from (f"{field.name}{path}" for path in inner)


@pytest.mark.services("a thief copies PostgreSQL's tables, or SQLite's files")
def test_no_secret_stands_in_a_database_dump(notes):
    """Every encrypted column gets a canary; a plain one proves that the search works."""
    notes.create(secret=CANARY, other=CANARY)
    generators.add(models.PositiveBigIntegerField, lambda: 1)  # a constraint may compare two of them
    for field in encrypted_fields():
        handlers = {f"{path}__handler": "package.module:Name" for path in paths_to_agents(field.model)}
        baker.make(field.model, **{field.name: CANARY}, **handlers)
    User.objects.create_user("plain@example.org", name=PLAIN)
    assert notes.get().secret == CANARY
    dump = dump_of_the_database()
    assert PLAIN.encode() in dump
    assert CANARY.encode() not in dump
