"""Backups lie in a folder or in S3-compatible storage: each is whole there, or is not there."""

from __future__ import annotations

import datetime
import errno
import os
import signal
import sys

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connections

from apps.accounts.models import User
from apps.housekeeping.backups import last_attempt, last_backup
from apps.housekeeping.models import Backup
from apps.optional.backup.keeping import kept
from apps.optional.backup.management.commands import backup as command
from apps.optional.backup.operations import BadBackup, Choices, make_backup, stored_at
from parley.db.sql import database_time
from tests.backup import s3_server
from tests.backup.installations import lose_everything, rows

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_files", "ada")]
ADDRESS = "s3://backups/of/parley"


@pytest.fixture
def storage(monkeypatch):
    with s3_server.serving() as storage:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", storage.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.SECRET)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        monkeypatch.setattr("apps.optional.backup.s3.PART_BYTES", 2_000)
        yield storage


@pytest.fixture
def folder(tmp_path):
    (path := tmp_path / "backups").mkdir()
    return path


def quiet(_):
    """No progress."""


def stopped(_):
    raise KeyboardInterrupt


def test_backup_comes_back_from_s3(storage, capsys):
    call_command("backup", ADDRESS)
    made = last_backup()
    assert (made.place, made.bytes) == (ADDRESS, len(storage.objects[f"of/parley/{made.name}"]))
    before = rows()
    lose_everything()
    with pytest.raises(CommandError, match=made.name):
        call_command("restore", ADDRESS)
    call_command("restore", f"{ADDRESS}/{made.name}", "--verify-only")
    call_command("restore", f"{ADDRESS}/{made.name}")
    assert rows() == before


@pytest.mark.parametrize("address", [ADDRESS, "folder"])
def test_stopped_backup_leaves_nothing(address, storage, folder):
    target = stored_at(str(folder) if address == "folder" else address).named()
    with pytest.raises(KeyboardInterrupt):
        make_backup(target, Choices(), stopped)
    assert (storage.objects, storage.uploads, os.listdir(folder)) == ({}, {}, [])
    assert last_attempt().state == Backup.State.FAILED


@pytest.mark.parametrize("address", [ADDRESS, "folder"])
def test_next_backup_clears_what_a_killed_one_left(address, storage, folder):
    place = stored_at(str(folder) if address == "folder" else address).place
    Backup.objects.create(place=place.label, name="killed.tar", started_at=database_time())
    leaving = place.writing("killed.tar")
    leaving.__enter__().write(bytes(5_000))
    assert storage.uploads or os.listdir(folder)
    make_backup(stored_at(address if address == ADDRESS else str(folder)).named(), Choices(), quiet)
    assert (storage.uploads, len(storage.objects) + len(os.listdir(folder))) == ({}, 1)


def test_full_or_locked_storage_is_told(storage, monkeypatch):
    storage.fails = 2
    with pytest.raises(CommandError, match="OutOfSpace"):
        call_command("backup", ADDRESS)
    assert (storage.objects, storage.uploads) == ({}, {})
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    with pytest.raises(CommandError, match="SignatureDoesNotMatch"):
        call_command("backup", ADDRESS)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    with pytest.raises(CommandError, match="Could not connect"):
        call_command("backup", ADDRESS)


def test_s3_without_its_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.delitem(sys.modules, "apps.optional.backup.s3", raising=False)
    with pytest.raises(BadBackup, match="parley-platform\\[s3\\]"):
        stored_at(ADDRESS)


def test_a_disk_that_changes_bytes_is_noticed(folder, monkeypatch):
    def change(handle):
        os.pwrite(handle, b"changed", 600)

    monkeypatch.setattr("os.fsync", change)
    with pytest.raises(CommandError, match="not what was written"):
        call_command("backup", folder)
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    "place", ["ftp://host/folder", "s3://", "s3://key:secret@backups/x", "/no/such/folder/x.tar", "/no/such/folder/"]
)
def test_wrong_places_are_refused(place):
    with pytest.raises(CommandError, match=r"Backups go into|Write s3|no folder"):
        call_command("backup", place)


# What is kept


def backups_at(*times: str) -> list[Backup]:
    return [
        Backup(pk=number, name=at, started_at=datetime.datetime.fromisoformat(f"{at}+00:00"))
        for number, at in enumerate(times)
    ]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({}, ["2030-03-04 18"]),
        ({"last": 2}, ["2030-03-04 12", "2030-03-04 18"]),
        ({"daily": 3}, ["2030-02-27 18", "2030-03-03 18", "2030-03-04 18"]),  # days without one do not count
        ({"weekly": 2}, ["2030-03-03 18", "2030-03-04 18"]),  # the 4th is a Monday
        ({"monthly": 2, "last": 1}, ["2030-02-27 18", "2030-03-04 18"]),
        ({"yearly": 5}, ["2029-12-31 18", "2030-03-04 18"]),
    ],
)
def test_newest_of_each_period_is_kept(rules, expected):
    times = ("2029-12-31 18", "2030-02-27 12", "2030-02-27 18", "2030-03-03 18", "2030-03-04 12", "2030-03-04 18")
    assert sorted(one.name for one in kept(backups_at(*times), rules)) == expected


@pytest.mark.parametrize("address", [ADDRESS, "folder"])
def test_only_own_whole_backups_are_deleted(address, storage, folder):
    address = str(folder) if address == "folder" else address
    place = stored_at(address).place
    others = ("parley-20300101T000000Z-0a0b0c0d.tar", "by-hand.tar", "notes.txt")
    for name in others[::2]:
        with place.writing(name) as file:
            file.write(b"of another installation")
    call_command("backup", f"{address}/by-hand.tar")
    for _ in range(3):
        call_command("backup", address)
    damaged = last_backup()
    Backup.objects.filter(pk=damaged.pk).update(bytes=1)  # as if its file had been changed
    call_command("backup", address, "--keep-last=1")
    left = set(place.sizes())
    assert left == {*others, damaged.name, last_backup().name}
    assert Backup.objects.complete().filter(name__in=left).count() == Backup.objects.count() == 3


def test_failed_backup_deletes_nothing(storage):
    call_command("backup", ADDRESS)
    storage.fails = 0
    with pytest.raises(CommandError):
        call_command("backup", ADDRESS, "--keep-last=1")
    assert len(storage.objects) == 1


@pytest.mark.parametrize("address", [ADDRESS, "folder"])
def test_whole_files_of_failed_backups_are_deleted(address, storage, folder):
    address = str(folder) if address == "folder" else address
    names = ("parley-20300101T000000Z-0a0b0c0d.tar", "by-hand.tar")
    for name in names:
        call_command("backup", f"{address}/{name}")
    Backup.objects.update(state=Backup.State.FAILED)  # as if it had been killed before it was noted
    call_command("backup", address)
    assert {*names, last_backup().name} == set(stored_at(address).place.sizes())
    call_command("backup", address, "--keep-last=2")
    assert set(stored_at(address).place.sizes()) == {"by-hand.tar", *(one.name for one in Backup.objects.complete())}


def test_unreadable_stored_file_is_told_as_such(folder, monkeypatch):
    def broken(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("apps.optional.backup.files.HeldFiles.hold", broken)
    with pytest.raises(CommandError, match=r"stored file cannot be read: Input/output"):
        call_command("backup", folder)


# One after the other


def test_backups_are_made_at_intervals_and_survive_failures(folder, monkeypatch, capsys):
    waits, gone = [], folder.with_name("gone")

    def wait(seconds):
        waits.append(round(seconds))
        if len(waits) == 2:
            folder.rename(gone)
        if len(waits) == 3:
            gone.rename(folder)
        if len(waits) >= 4:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(command, "pause", wait)
    for _ in range(2):  # the second process waits until the first one's next is due
        with pytest.raises(SystemExit):
            call_command("backup", folder, "--every=6h", "--keep-last=5")
    first, failed, second = capsys.readouterr().out.splitlines()
    assert "FAILED" in failed
    assert [any(f"{name}:" in line for name in os.listdir(folder)) for line in (first, failed, second)] == [1, 0, 1]
    assert waits[:4] == pytest.approx([0, 6 * 3600, 600, 6 * 3600], abs=60)
    assert waits[4] == pytest.approx(6 * 3600, abs=60)
    assert User.objects.count() == 1


def test_interval_begins_though_the_database_is_away(folder, monkeypatch, capsys):
    waits = []

    def wait(seconds):
        waits.append(round(seconds))
        assert all(one.connection is None for one in connections.all())
        monkeypatch.setattr(command, "pause", lambda _: signal.raise_signal(signal.SIGTERM))

    def away(*_):
        raise OperationalError("It is away")

    monkeypatch.setattr(command, "pause", wait)
    monkeypatch.setattr(command, "_first", away)
    with pytest.raises(SystemExit):
        call_command("backup", folder, "--every=6h")
    assert waits == pytest.approx([600], abs=60)
    failed, made = capsys.readouterr().out.splitlines()
    assert "It is away" in failed
    assert last_backup().name in made


@pytest.mark.parametrize("wrong", ["6", "0h", "h", "1y", "-1h"])
def test_wrong_intervals_are_refused(folder, wrong):
    with pytest.raises(CommandError, match="such as 30m"):
        call_command("backup", folder, f"--every={wrong}")
    with pytest.raises(CommandError, match="is none"):
        call_command("backup", folder / "file.tar", "--every=6h")
