"""The archive of an account is made by a job, once, wherever the job dies."""

from __future__ import annotations

import datetime
import io
import json
import zipfile

import pytest
from django.core.files.storage import default_storage
from django.utils import timezone

from apps.accounts.models import ApiKey, Workspace
from apps.agents.models import Agent
from apps.conversations.sessions import commands
from apps.notifications.models import Channel
from apps.optional.archive.archiving import move_to_cold_storage
from apps.optional.transfers import exports
from apps.optional.transfers.models import Export
from apps.record.content import blobs
from apps.record.models import Context
from parley.db import sql
from tests.clients import telling
from tests.clients.of_pages import finished, report  # noqa: F401 fixtures

pytestmark = pytest.mark.django_db
State = Export.State
ENDED = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def stored() -> list[str]:
    return default_storage.listdir(exports.FOLDER)[1] if default_storage.exists(exports.FOLDER) else []


@pytest.fixture(autouse=True)
def _no_files():
    for name in stored():
        default_storage.delete(f"{exports.FOLDER}/{name}")


@pytest.fixture
def started(ada):
    return exports.start(ada.principal)


def made(export: Export) -> zipfile.ZipFile:
    exports.make(export.pk)
    export.refresh_from_db()
    with default_storage.open(export.file) as file:
        return zipfile.ZipFile(io.BytesIO(file.read()))


def test_archive_has_profile_keys_and_sessions_with_files(ada, finished):  # noqa: F811
    ApiKey.issue(ada, "laptop")
    secrets = {"url": "https://example.org/canary", "secret": "whsec_canary"}
    Channel.objects.create(user=ada, type="webhook", name="Mine", **secrets)
    task = str(finished.task)
    commands.give_feedback(ada.principal, Agent.objects.get(slug="echo"), task, {"rating": 5})
    export = exports.start(ada.principal)
    archive = made(export)
    assert (export.state, export.sessions, export.sessions_done) == ("done", 1, 1)
    assert export.size == default_storage.size(export.file)
    assert archive.testzip() is None
    assert json.loads(archive.read("profile.json"))["email"] == "ada@example.org"
    [key] = json.loads(archive.read("keys.json"))
    assert key["name"] == "laptop"
    assert "digest" not in key
    told = archive.read("notifications.json")
    assert [one["name"] for one in json.loads(told)["channels"]] == ["Mine"]
    assert b"canary" not in told
    [folder] = {name.rpartition("/")[0] for name in archive.namelist() if name.endswith("/session.md")}
    [room] = json.loads(archive.read("workspaces.json"))
    assert room["role"] == "owner"
    [act, *_] = json.loads(archive.read("activity.json"))
    assert act["action"] == "export.data"
    sign_in = {"addresses", "secondFactors", "accounts", "programs", "browsers"}
    assert json.loads(archive.read("sign_in.json")).keys() == sign_in
    assert json.loads(archive.read("elsewhere.json")) == []
    names = {name.removeprefix(f"{folder}/") for name in archive.namelist() if name.startswith(folder)}
    assert {"session.md", "session.json", "files/notes.md", "files/dot.png"} <= names
    assert archive.read(f"{folder}/files/notes.md") == b"# Notes\n"
    session = json.loads(archive.read(f"{folder}/session.json"))
    assert session["id"] == str(finished.context)
    assert [task["state"] for task in session["tasks"]] == ["completed"]
    assert [(one["task"], one["rating"]) for one in session["feedback"]] == [(task, 5)]
    assert json.loads(archive.read("made.json")) == json.loads(archive.read("shares.json")) == []


def test_archive_has_own_sessions_also_archived(ada, bob, finished, echo):  # noqa: F811
    telling.finished(bob, echo, {"secret.md": telling.text("of Bob", "text/markdown")})
    commands.archive_session(ada.principal, finished.context)
    move_to_cold_storage(finished.context)
    names = made(exports.start(ada.principal)).namelist()
    assert sum(name.endswith("/session.md") for name in names) == 1
    assert any(name.endswith("files/notes.md") for name in names)
    assert not any("secret" in name for name in names)


def test_archive_has_no_sessions_of_left_workspaces(ada, finished):  # noqa: F811
    left = Workspace.objects.create(name="Left")
    Context.objects.filter(pk=finished.context).update(workspace=left)
    assert not any(name.endswith("/session.md") for name in made(exports.start(ada.principal)).namelist())


def test_archive_names_sessions_whose_files_are_lost(ada, echo):
    [part] = blobs.store_large([telling.text("lost" * 100_000, "text/plain")])
    for name, content in {"kept.txt": telling.text("kept", "text/plain"), "lost.txt": part}.items():
        telling.finished(ada, echo, {name: content})
    default_storage.delete(blobs.path_of(part["stored"]["sha256"]))
    archive = made(exports.start(ada.principal))
    assert archive.read("incomplete.txt").count(b"sessions/") == 1
    assert any(name.endswith("files/kept.txt") for name in archive.namelist())


def test_new_export_replaces_the_old_one(ada, bob, started):
    with pytest.raises(exports.ExportRunning):
        exports.start(ada.principal)
    exports.start(bob.principal)
    made(started)
    newer = exports.start(ada.principal)
    assert default_storage.exists(started.file)
    made(Export.objects.get(owner=bob))
    made(newer)
    assert not default_storage.exists(started.file)
    assert list(Export.objects.visible_to(ada.principal)) == [newer]


def test_deleted_exports_count_among_ten_a_day(ada):
    for _ in range(exports.MOST_IN_A_DAY):
        exports.delete(exports.start(ada.principal))
    with pytest.raises(exports.TooManyExports):
        exports.start(ada.principal)
    Export.objects.update(created_at=timezone.now() - datetime.timedelta(days=2))
    exports.start(ada.principal)


def test_killed_export_job_is_followed_by_another(ada, started):
    Export.objects.update(state=State.WORKING, fence=1, lease_until=sql.database_time() + exports.LEASE)
    assert not exports.make(started.pk)
    Export.objects.update(lease_until=ENDED)
    made(started)
    assert (started.state, started.fence) == (State.DONE, 2)
    Export.objects.update(state=State.WORKING, fence=exports.MOST_ATTEMPTS, lease_until=ENDED)
    assert not exports.make(started.pk)
    started.refresh_from_db()
    assert (started.state, bool(started.problem)) == (State.FAILED, True)
    assert exports.start(ada.principal)


@pytest.mark.parametrize("meanwhile", ["deleted", "another job", "account"])
def test_job_without_lease_leaves_no_file(ada, started, finished, monkeypatch, meanwhile):  # noqa: F811
    monkeypatch.setattr(exports, "EXTEND_SECONDS", 0)

    def lose(_):
        match meanwhile:
            case "deleted":
                exports.delete(started)
            case "another job":
                Export.objects.update(fence=2)
            case "account":
                Export.objects.all().delete()
        monkeypatch.undo()
        return original(_)

    original = exports.sessions_of
    monkeypatch.setattr("apps.optional.transfers.archive.sessions_of", lose)
    exports.make(started.pk)
    assert not Export.objects.filter(state=State.DONE).exists()
    assert stored() == []


def test_an_error_is_tried_again_and_then_told(started, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(exports, "write_archive", fail)
    for attempt in range(1, exports.MOST_ATTEMPTS + 1):
        exports.make(started.pk)
        started.refresh_from_db()
        assert started.fence == attempt
        Export.objects.filter(state=State.WORKING).update(lease_until=ENDED)
    assert (started.state, stored()) == (State.FAILED, [])
    assert "disk" not in started.problem


def test_expired_files_and_orphans_are_deleted(ada, bob, started):
    made(started)
    kept = exports.start(bob.principal)
    made(kept)
    default_storage.save("exports/left-by-a-killed-job.zip", default_storage.open(kept.file))
    Export.objects.filter(owner=ada).update(expires_at=timezone.now())
    assert exports.delete_expired() == 1
    assert [f"{exports.FOLDER}/{name}" for name in stored()] == [kept.file]
    assert list(Export.objects.all()) == [kept]


def test_export_needs_the_whole_account(ada, bob):
    team = bob.personal_workspace.pk
    limited = [{"scopes": ["tasks:read", "tasks:write"]}, {"agents": ["echo"]}, {"workspace_id": team}]
    for limits in limited:
        key, _ = ApiKey.issue(ada, "limited", **limits)
        with pytest.raises(exports.NotWholeAccount):
            exports.start(key.principal)
    key, _ = ApiKey.issue(ada, "full")
    assert exports.start(key.principal).owner == ada
