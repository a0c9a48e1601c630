"""A backup is of one moment, and restores everything into an empty place."""

from __future__ import annotations

import os
import stat
import threading
from typing import Any

import pytest
from django.contrib.contenttypes.models import ContentType
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.db import connection

from apps.accounts.models import User
from apps.accounts.requests.authentication import api_key_principal
from apps.conversations.search.queries import search
from apps.conversations.sessions import deletion
from apps.conversations.uploads.models import Upload
from apps.credentials.models import Credential
from apps.engine import accept, jobs
from apps.optional.backup import operations as backup
from apps.optional.backup.files import HeldFiles
from apps.optional.backup.operations import Choices, stored_at
from apps.record import projection
from apps.record.models import Blob, Context, Event
from apps.record.reading.lookup import restored
from tests.backup import installations
from tests.backup.installations import SECRET, fill, lose_everything, make_files_old, rows, send, stored_files
from tests.emptying import remove
from tests.working import begin

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("each database has a snapshot and a form of rows of its own"),
    pytest.mark.usefixtures("own_files", "at_low_cost"),
]


AUDIT = ("accounts.AuditEntry", "accounts.AuditHead")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "parley.tar"


@pytest.fixture
def talk(ada, echo, said):
    return send(ada, echo, said, "hello", "talk")


def test_everything_comes_back_in_an_empty_place(play, ada, echo, said, file, capsys):
    play({"write": {"agent": "loud", "message": "hello"}})
    key = fill(ada, echo, said)
    before, files = rows(), stored_files()
    assert {name for name, found in before.items() if found} >= {
        "record.Segment", "record.ColdKey", "plans.Step", "credentials.Credential", "search.SearchEntry", "auth.Group"
    }  # fmt: skip
    call_command("backup", file)
    before |= {name: rows()[name] for name in AUDIT}  # a backup has its own entry
    lose_everything()
    ContentType.objects.filter(model="context").update(model="somethingelse")  # numbers mean something else there
    call_command("restore", file)
    assert f"{len(before['record.Context'])} sessions were replayed and match" in capsys.readouterr().out
    after = rows()
    assert [name for name in before if before[name] != after[name]] == []
    assert stored_files() == files
    assert api_key_principal(f"Bearer {key}").user_id == ada.pk
    assert Credential.objects.get().secret == SECRET
    assert search(ada.principal, "snowman")
    for context in Context.objects.all():
        assert projection.differences(restored(context).pk) == []


def test_restored_run_is_found_by_the_sweep(ada, echo, said, file):
    lost = begin(accept.accept(ada.principal, echo, said("at work")).run)
    call_command("backup", file)
    lose_everything()
    call_command("restore", file)
    assert jobs.sweep() == 1
    assert begin(lost.lease.run_id, "a worker of the new place").lease.fence == lost.lease.fence + 1


def test_keys_are_not_given_out_again(talk, file, ada, echo, said):
    last = send(ada, echo, said, "the last", "last")
    highest = Event.objects.order_by("-pk").values_list("pk", flat=True)[0]
    deletion.delete_context(ada.principal, echo, "last")
    remove(Event.objects.filter(context=last))
    call_command("backup", file)
    lose_everything()
    call_command("restore", file, sample=0)
    send(ada, echo, said, "the next", "next")
    assert Event.objects.order_by("pk").filter(context__context_id="next")[0].pk > highest


def test_backup_is_of_one_moment_during_writes(ada, echo, said, file, settings):
    settings.UNUSED_FILE_SECONDS = 0
    send(ada, echo, said, "deleted meanwhile", "deleted")
    make_files_old()
    stop, sent = threading.Event(), threading.Event()

    def keep_sending() -> None:
        number = 0
        while not stop.is_set():
            send(ada, echo, said, f"number {number}", f"session {number}")
            number += 1
            sent.set()
        connection.close()

    sender = threading.Thread(target=keep_sending)
    at: dict[str, Any] = {}

    def meanwhile(text: str) -> None:
        """Once the backup has begun, another session comes, and one goes with its file."""
        if text.startswith("accounts.user:") and not at:
            at["sessions"] = Context.objects.count()
            sent.clear()
            assert sent.wait(60)
            deletion.delete_context(ada.principal, echo, "deleted")

    sender.start()
    try:
        assert sent.wait(60)
        manifest = backup.make_backup(stored_at(str(file)), Choices(), meanwhile).manifest
    finally:
        stop.set()
        sender.join()
    assert "deleted" not in "".join(Context.objects.values_list("title", flat=True))
    assert Context.objects.count() > manifest["tables"]["record.context"]["rows"]
    lose_everything()
    call_command("restore", file)
    assert Context.objects.get(context_id="deleted").title == "deleted meanwhile"
    assert len(stored_files()) == Blob.objects.filter(uses__gt=0).count() == manifest["files"]["count"]


def test_backup_is_private_and_appears_whole(talk, file, ada, echo, said, monkeypatch):
    call_command("backup", file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(CommandError, match="exists"):
        call_command("backup", file)
    half = file.with_name("half.tar")

    def full(_: str) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(backup.BadBackup, match="No space left"):
        backup.make_backup(stored_at(str(half)), Choices(), full)
    assert sorted(os.listdir(file.parent)) == ["data", file.name]


def test_one_backup_runs_at_a_time(talk, file):
    with HeldFiles(default_storage), pytest.raises(CommandError, match="Another backup"):
        call_command("backup", file)
    call_command("backup", file)


def test_an_encrypted_one_opens_with_its_passphrase_alone(talk, file, tmp_path):
    before = rows()
    (tmp_path / "right").write_text("correct horse battery\n")
    (tmp_path / "wrong").write_text("incorrect horse\n")
    call_command("backup", file, passphrase_file=tmp_path / "right")
    before |= {name: rows()[name] for name in AUDIT}
    assert b"record.task" not in file.read_bytes()
    lose_everything()
    for given in ({}, {"passphrase_file": tmp_path / "wrong"}, {"decrypt_with": tmp_path / "right"}):
        with pytest.raises(CommandError):
            call_command("restore", file, **given)
    assert User.objects.count() == 0
    call_command("restore", file, passphrase_file=tmp_path / "right", sample=0)
    assert rows() == before


def test_occupied_place_is_refused_and_kept(talk, file, ada, echo):
    call_command("backup", file)
    before, files = rows(), stored_files()
    with pytest.raises(CommandError, match="has files"):
        call_command("restore", file)
    for path in stored_files():
        default_storage.delete(path)
    with pytest.raises(CommandError, match="has rows"):
        call_command("restore", file)
    assert rows() == before
    assert files


def test_missing_file_can_be_left_out(talk, file):
    (lost,) = stored_files()
    default_storage.delete(lost)
    with pytest.raises(CommandError, match="1 stored files are missing"):
        call_command("backup", file)
    assert not file.exists()
    call_command("backup", file, skip_missing_files=True)
    lose_everything()
    call_command("restore", file, sample=0)
    assert lost not in stored_files()


def test_complete_upload_under_way_is_backed_up(talk, file, ada, settings):
    upload, unfinished = installations.uploads_under_way(ada)
    call_command("backup", file)
    lose_everything()
    call_command("restore", file, sample=0)
    assert set(Upload.objects.values_list("pk", flat=True)) == {upload.pk} != {unfinished.pk}
    assert b"content of an upload" in stored_files().values()
