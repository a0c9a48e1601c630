"""A backup that is not what was written restores nothing, and says why."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import User
from apps.credentials.models import AuthType, Credential
from apps.optional.backup.container import ContainerWriter, members
from apps.optional.backup.operations import Secret, compare_sessions
from apps.optional.backup.sealing import CHUNK_BYTES, CannotOpen, SealedReader, SealedWriter
from apps.optional.backup.writing import KEYS
from apps.record import projection
from apps.record.models import Context, Event, Message
from parley.program import DISTRIBUTION
from tests.archive.archiving import cold_files, had_a_long_talk, put_away, replace
from tests.backup.installations import lose_everything, send, stored_files

pytestmark = pytest.mark.usefixtures("at_low_cost")

PASSPHRASE = Secret(b"correct horse battery", is_passphrase=True)
KEY = Secret(bytes(range(32)), is_passphrase=False)
Members = dict[str, bytes]


def sealed(content: bytes, secret: Secret) -> bytes:
    out = io.BytesIO()
    writer = SealedWriter(out, secret)
    for start in range(0, len(content), 300_000):
        writer.write(content[start : start + 300_000])
    writer.finish()
    return out.getvalue()


def opened(content: bytes, secret: Secret) -> bytes:
    return io.BufferedReader(SealedReader(io.BytesIO(content), secret)).read()


@pytest.mark.parametrize("size", [0, CHUNK_BYTES, 2 * CHUNK_BYTES + 5])
@pytest.mark.parametrize("secret", [PASSPHRASE, KEY])
def test_what_was_sealed_opens_with_its_secret(secret, size):
    content = bytes(range(256)) * (size // 256 + 1)
    assert opened(sealed(content[:size], secret), secret) == content[:size]


def test_a_changed_moved_or_missing_chunk_is_noticed():
    whole = sealed(bytes(3 * CHUNK_BYTES + 100), KEY)
    head = whole.index(b"}\n") + 2
    chunk = CHUNK_BYTES + 16
    parts = [whole[:head], *(whole[at : at + chunk] for at in range(head, len(whole), chunk))]
    changed = bytearray(whole)
    changed[-50] ^= 1
    for damaged in (
        bytes(changed),
        whole.replace(b"hkdf", b"hkdF"),
        whole[:-1],
        b"".join(parts[:-1]),
        b"".join(parts[:2]),
        b"".join([parts[0], parts[2], parts[1], *parts[3:]]),
        whole + b"more",
        whole[: head - 10],
    ):
        with pytest.raises(CannotOpen):
            opened(damaged, KEY)
    for secret in (Secret(bytes(32), is_passphrase=False), PASSPHRASE):
        with pytest.raises(CannotOpen):
            opened(whole, secret)


@pytest.fixture
def file(tmp_path, own_files, transactional_db, ada, echo, said):
    """A plain backup of another place; here is nothing."""
    send(ada, echo, said, "hello", "talk")
    Credential.objects.create(agent=echo, user=ada, service="mail", auth_type=AuthType.API_KEY, secret="secret")
    call_command("backup", path := tmp_path / "parley.tar")
    lose_everything()
    return path


def rewrite(path: Path, change: Callable[[Members], object]) -> None:
    """Change members as an attacker or a broken disk might."""
    with open(path, "rb") as stream:
        found = {name: content.read() for name, _, content in members(stream)}
    change(found)
    with open(path, "wb") as out:
        container = ContainerWriter(out)
        for name, content in found.items():
            container.copy(name, io.BytesIO(content), len(content))
        out.write(bytes(1024))


def in_manifest(change: Callable[[Any], object]) -> Callable[[Members], None]:
    def apply(found: Members) -> None:
        manifest = json.loads(found["manifest.json"])
        change(manifest)
        found["manifest.json"] = json.dumps(manifest).encode()

    return apply


def nothing_is_here() -> bool:
    return not User.objects.exists() and not Context.objects.exists() and stored_files() == {}


def stored(found: Members) -> str:
    return next(name for name in found if name.startswith("files/"))


def pop_manifest(found: Members) -> Members:
    """To put it last again."""
    return {"manifest.json": found.pop("manifest.json")}


def tasks(found: Members) -> str:
    return next(name for name in found if name.startswith("tables/record.task"))


CHANGES: list[tuple[Callable[[Members], object], str]] = [
    (lambda found: found.update({tasks(found): b"[]"}), "record.task.*was changed"),
    (lambda found: found.update({stored(found): b"other"}), "was changed"),
    (lambda found: found.pop(stored(found)), "missing"),
    (lambda found: found.pop(tasks(found)), "missing"),
    (lambda found: found.update({"files/../../evil": found.pop(stored(found))} | pop_manifest(found)), "evil"),
    (lambda found: found.pop("manifest.json"), "no manifest"),
    (in_manifest(lambda manifest: manifest["tables"]["record.task"].update(rows=7)), "should have 7 rows"),
    (in_manifest(lambda manifest: manifest.update(version=2)), "does not know"),
    (in_manifest(lambda manifest: manifest["migrations"].append("record.0999_later")), "newer"),
    (in_manifest(lambda manifest: manifest["migrations"].remove("record.0001_squashed")), "older"),
    (in_manifest(lambda manifest: manifest["migrations"].remove("prompts.0001_initial")), "Set PARLEY_APPS"),
]


@pytest.mark.django_db(transaction=True)
def test_a_changed_member_and_another_version_are_refused(file):
    call_command("restore", file, verify_only=True)
    whole = file.read_bytes()
    for change, words in CHANGES:
        file.write_bytes(whole)
        rewrite(file, change)
        with pytest.raises(CommandError, match=words):
            call_command("restore", file)
        assert nothing_is_here(), words


@pytest.mark.django_db(transaction=True)
def test_refusal_names_both_versions(file):
    rewrite(file, in_manifest(lambda manifest: manifest.update(parley="7.8.9")))
    rewrite(file, in_manifest(lambda manifest: manifest["tables"]["record.task"]["columns"].append("later")))
    with pytest.raises(CommandError, match="Install that version") as refused:
        call_command("restore", file)
    assert {"7.8.9", version(DISTRIBUTION)} <= set(re.findall(r"\d+\.\d+\.\d+", str(refused.value)))
    assert nothing_is_here()


def before_they_were_merged(manifest: Any) -> None:
    """Name its migrations as the version did that had many per app."""
    for key, migration in MigrationLoader(None).replacements.items():
        manifest["migrations"].remove(".".join(key))
        manifest["migrations"] += map(".".join, migration.replaces)


def test_a_backup_of_unmerged_migrations_is_restored(file):
    rewrite(file, in_manifest(before_they_were_merged))
    call_command("restore", file)
    assert Context.objects.get().context_id == "talk"


@pytest.mark.django_db(transaction=True)
def test_a_truncated_file_is_refused_wherever_it_ends(file):
    whole = file.read_bytes()
    for size in (0, 100, 700, len(whole) // 2, len(whole) - 1500):
        file.write_bytes(whole[:size])
        with pytest.raises(CommandError):
            call_command("restore", file)
    file.write_bytes(b"no backup at all" * 1000)
    with pytest.raises(CommandError, match="no backup"):
        call_command("restore", file)
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("restore", file.with_name("other.tar"))
    assert nothing_is_here()


OTHER_KEY = "b3RoZXIga2V5IGZvciB0ZXN0cywgb2YgMzIgYnl0ZXM"


@pytest.mark.django_db(transaction=True)
def test_restored_secrets_need_their_master_key(file, settings):
    before, settings.MASTER_KEY = settings.MASTER_KEY, OTHER_KEY
    with pytest.raises(CommandError, match="MASTER_KEY"):
        call_command("restore", file)
    assert nothing_is_here()
    call_command("restore", file, without_master_key=True)
    settings.MASTER_KEY = f"{OTHER_KEY},{before}"
    assert Credential.objects.get().secret == "secret"


@pytest.mark.django_db(transaction=True)
def test_keys_are_only_in_encrypted_backups(tmp_path, own_files, ada, settings):
    with pytest.raises(CommandError, match="encrypted"):
        call_command("backup", tmp_path / "plain.tar", with_keys=True)
    (key := tmp_path / "key").write_text("a key of at least thirty-two bytes")
    call_command("backup", file := tmp_path / "sealed.tar", with_keys=True, encrypt_to=key)
    call_command("restore", file, decrypt_with=key, keys_to=tmp_path / "keys.env")
    assert f"MASTER_KEY={settings.MASTER_KEY}\n" in (tmp_path / "keys.env").read_text()
    assert KEYS.encode() not in file.read_bytes()
    call_command("backup", plain := tmp_path / "plain.tar")
    assert settings.MASTER_KEY.encode() not in plain.read_bytes()


@pytest.mark.django_db(transaction=True)
def test_differences_from_the_log_are_found(own_files, tmp_path, ada, echo, said, capsys):
    talk = had_a_long_talk(ada, echo, said)
    cold = put_away(had_a_long_talk(ada, echo, said, "cold"))
    call_command("archive_sessions", session=str(cold.pk))
    call_command("verify_record")
    Message.objects.filter(context=talk, index=1).update(parts=[{"text": "forged"}])
    replace(*cold_files(), b"damaged")
    with pytest.raises(CommandError, match="2 of 2 sessions differ"):
        call_command("verify_record")
    assert {str(talk.pk), str(cold.pk)} <= {line.partition(":")[0] for line in capsys.readouterr().out.splitlines()}
    call_command("backup", file := tmp_path / "parley.tar")
    lose_everything()
    with pytest.raises(CommandError, match="differ"):
        call_command("restore", file)
    assert Message.objects.get(context=talk, index=1).parts == [{"text": "forged"}], "as it was backed up"
    lose_everything()
    call_command("restore", file, "--no-verify")


@pytest.mark.django_db(transaction=True)
def test_sessions_are_compared_with_few_queries(own_files, ada, echo, said, django_assert_max_num_queries):
    sessions = [send(ada, echo, said, f"number {number}", f"session {number}") for number in range(8)]
    with django_assert_max_num_queries(7):
        assert compare_sessions(None, lambda _: None, pytest.fail).sessions == len(sessions)
    Message.objects.filter(context=sessions[3], index=1).update(parts=[{"text": "forged"}])
    lines: list[str] = []
    assert compare_sessions(None, lambda _: None, lines.append).differing == 1
    assert [line.partition(":")[0] for line in lines] == [str(sessions[3].pk)]


@pytest.mark.django_db(transaction=True)
def test_few_events_are_in_memory_while_comparing(own_files, ada, echo, said, monkeypatch):
    for number in range(3):
        send(ada, echo, said, f"number {number}", f"session {number}")
    monkeypatch.setattr(projection, "EVENTS_AT_ONCE", 1)
    with CaptureQueriesContext(connection) as captured:
        assert compare_sessions(None, lambda _: None, pytest.fail).sessions == 3
    assert sum(f'FROM "{Event._meta.db_table}"' in one["sql"] for one in captured) == 3
