"""An archived session becomes one file, and is restored exactly."""

import datetime
import gzip
import hashlib
import json

import pytest
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.utils import timezone

import db
from agentkit import Completed
from apps.a2a.models import PushConfig
from apps.engine import accept
from apps.features.archive import archiving, file_format
from apps.features.archive.archiving import CannotArchive, move_to_cold_storage
from apps.features.forks.forking import fork
from apps.features.sessions import commands, deletion
from apps.record import feed, ledger, lookup, projection, wire
from apps.record.content import blobs
from apps.record.errors import InvalidParams, TaskNotFound
from apps.record.events import EventType
from apps.record.execution import Accepted, Run
from apps.record.lookup import DamagedArchive, restore_run, restored
from apps.record.models import Blob, ColdKey, Context, Event, Task
from apps.remote.models import OpenWork
from tests.record.archiving import LONG_AGO, cold_files, everything, had_a_long_talk, put_away, replace, rows_left
from tests.working import begin, end

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("rows come back as they were"),
]


@pytest.fixture(autouse=True)
def _nothing_is_left_of_other_tests():
    for name in cold_files():
        default_storage.delete(name)


@pytest.fixture
def talk(ada, echo, said):
    context = had_a_long_talk(ada, echo, said)
    done = Task.objects.filter(context=context, state="completed").get()
    commands.give_feedback(ada.principal, echo, str(done.pk), {"rating": 4, "feedback": "good"})
    return put_away(context)


def test_what_comes_back_is_what_went_to_the_last_byte_any_number_of_times(talk):
    before = everything(talk)
    assert before["record.artifact"]
    assert before["accepted"]
    for _ in range(2):
        move_to_cold_storage(talk.pk)
        assert rows_left(talk) == 0
        talk.refresh_from_db()
        assert (talk.title, bool(talk.cold_file), bool(talk.cold_at)) == ("first of talk", True, True)
        restored(talk)
        assert everything(talk) == before
        assert (talk.cold_file, talk.cold_at, cold_files(), ColdKey.objects.count()) == ("", None, [], 0)
    assert projection.differences(talk.pk) == []


def test_a_commit_that_was_not_heard_of_keeps_the_file(talk, monkeypatch):
    before, hand_over = everything(talk), archiving._replace_rows_by_file

    def unheard(*given):
        hand_over(*given)
        raise OperationalError("the server closed the connection unexpectedly")

    monkeypatch.setattr(archiving, "_replace_rows_by_file", unheard)
    with pytest.raises(OperationalError):
        move_to_cold_storage(talk.pk)
    talk.refresh_from_db()
    assert cold_files() == [talk.cold_file]
    restored(talk)
    assert everything(talk) == before


def lines_of(name):
    with default_storage.open(name) as file:
        return [line + b"\n" for line in gzip.decompress(file.read()).splitlines()]


def test_the_file_says_what_it_is_and_proves_that_it_is_whole(talk):
    before = everything(talk)
    manifest, *lines = lines_of(move_to_cold_storage(talk.pk))
    said = json.loads(manifest)
    assert (said["format"], said["version"], said["session"]) == ("parley-session", 1, str(talk.pk))
    assert (said["firstEvent"], said["lastEvent"]) == (1, talk.last_event)
    assert said["context"]["title"] == "first of talk"
    digests = {}
    for line in lines:
        digests.setdefault(json.loads(line)["in"], hashlib.sha256()).update(line)
    counted = {one["name"]: one for one in said["sections"]}
    assert {name: digest.hexdigest() for name, digest in digests.items()} == {
        name: one["sha256"] for name, one in counted.items() if one["rows"]
    }
    assert {name: one["rows"] for name, one in counted.items() if name in before} == {
        name: len(rows) for name, rows in before.items() if name in counted
    }
    assert said["digest"] == hashlib.sha256(b"".join(lines)).hexdigest()
    assert [file["sha256"] for file in said["files"]] == [Blob.objects.get().sha256]


def test_a_damaged_file_brings_nothing_back_and_says_so(talk):
    name = move_to_cold_storage(talk.pk)
    with default_storage.open(name) as file:
        whole = file.read()
    lines = gzip.decompress(whole).splitlines(keepends=True)
    damaged = [
        whole[:-20],
        whole[: len(whole) // 2] + bytes([whole[len(whole) // 2] ^ 1]) + whole[len(whole) // 2 + 1 :],
        b"no gzip at all",
        gzip.compress(b"".join(lines[:-1])),
        gzip.compress(b"".join(lines).replace(b"first of talk", b"worst of talk")),
        gzip.compress(b"".join(lines).replace(b'"version":1', b'"version":2', 1)),
        gzip.compress(b"".join(lines).replace(b"parley-session", b"parley-sessile", 1)),
        gzip.compress(b"".join(lines[:1]) + b"".join(lines[1:]).replace(b"+00:00", b"+0x:00")),
        gzip.compress(b"".join(lines[:2]) + b"[]\n" + b"".join(lines[2:])),
        gzip.compress(b"[]\n" + b"".join(lines[1:])),
        gzip.compress(lines[0].replace(b'"sections"', b'"sectors"') + b"".join(lines[1:])),
    ]
    for content in damaged:
        replace(name, content)
        with pytest.raises(DamagedArchive):
            restored(Context.objects.get(pk=talk.pk))
        assert rows_left(talk) == 0
        assert Context.objects.get(pk=talk.pk).cold_file == name
    replace(name, whole)
    restored(Context.objects.get(pk=talk.pk))
    assert projection.differences(talk.pk) == []


def test_whoever_asks_for_something_in_it_brings_it_back(ada, bob, echo, talk, said):
    done = Task.objects.get(context=talk, state="completed")
    run = Run.objects.filter(task=done).first()

    def is_restored():
        return not Context.objects.get(pk=talk.pk).cold_file

    def wakes(ask):
        move_to_cold_storage(talk.pk)
        ask()
        return is_restored() and projection.differences(talk.pk) == []

    assert wakes(lambda: wire.load_task(lookup.find_agent_task(ada.principal, echo, str(done.pk))))
    assert wakes(lambda: feed.read_events(talk.pk, 0))
    assert wakes(lambda: lookup.references_of(ada.principal, {"referenceTaskIds": [str(done.pk)]}, None))
    assert wakes(lambda: fork(ada.principal, talk, 2, reason="fork"))
    Context.objects.exclude(pk=talk.pk).update(deleted_at=timezone.now())  # otherwise it would need this one
    assert wakes(lambda: restore_run(ada.principal, run.pk))
    assert wakes(lambda: lookup.find_context(ada.principal, echo, "talk"))
    move_to_cold_storage(talk.pk)
    with pytest.raises(TaskNotFound):
        lookup.find_agent_task(bob.principal, echo, str(done.pk))
    assert not is_restored(), "a stranger moves nothing"
    receipt = accept.accept(ada.principal, echo, said("more", contextId="talk"))
    assert is_restored()
    end(begin(receipt.run), Completed("done"))
    assert projection.differences(talk.pk) == []


def test_a_message_that_was_sent_before_it_went_is_known(ada, echo, said, talk):
    sent = said("again", contextId="talk")
    first = accept.accept(ada.principal, echo, sent)
    end(begin(first.run), Completed("done"))
    Context.objects.update(archived_at=LONG_AGO)
    move_to_cold_storage(talk.pk)
    runs = ColdKey.objects.filter(kind="record.run").count()
    assert Accepted.objects.filter(task=None).count() == 4
    repeated = accept.accept(ada.principal, echo, sent)
    assert (repeated.task, repeated.repeated, repeated.run) == (first.task, True, None)
    assert Run.objects.count() == runs
    move_to_cold_storage(talk.pk)
    with pytest.raises(InvalidParams):
        accept.accept(ada.principal, echo, {**sent, "parts": [{"text": "other"}]})


def test_it_is_written_to_as_if_it_had_never_been_away(talk):
    name = move_to_cold_storage(talk.pk)
    stale = Context.objects.get(pk=talk.pk)
    with ledger.writing(stale) as log:
        log.add(EventType.SESSION_UNARCHIVED, {})
    assert Event.objects.filter(context=talk).count() == talk.last_event + 1
    assert projection.differences(talk.pk) == []
    assert not default_storage.exists(name)


def test_writing_to_a_context_that_went_meanwhile_brings_it_back(talk):
    """A writer that read the row before archiving must not write beside the file."""
    read = Context.objects.get(pk=talk.pk)
    move_to_cold_storage(talk.pk)
    with ledger.writing(read) as log:
        log.add(EventType.SESSION_RENAMED, {"title": "other"})
    assert projection.differences(talk.pk) == []


async def test_who_follows_it_gets_its_log(talk):
    await db.run(move_to_cold_storage, talk.pk)
    async for events in feed.follow(talk.pk, 0):
        assert [event.index for event in events] == list(range(1, talk.last_event + 1))
        break


def test_what_has_not_ended_or_is_needed_stays(ada, echo, said, talk):
    def stays(word):
        with pytest.raises(CannotArchive, match=word):
            move_to_cold_storage(talk.pk)
        assert rows_left(talk)
        assert cold_files() == []
        return True

    task = Task.objects.filter(context=talk).first()
    Context.objects.update(archived_at=None)
    assert stays("not archived")
    sent = accept.accept(ada.principal, echo, said("more", contextId="talk"))
    Context.objects.update(archived_at=LONG_AGO)
    assert stays("unfinished")
    end(begin(sent.run), Completed("done"))
    work = OpenWork.objects.create(agent=echo, task=task.pk, run=sent.run, remote_task="1")
    assert stays("remote agent")
    work.delete()
    webhook = PushConfig.objects.create(task=task, config_id="1", url="http://127.0.0.1/", token="secret")
    assert stays("secrets")
    PushConfig.objects.update(token="")
    webhook.deliveries.create(event_index=1)
    assert stays("webhook")
    webhook.deliveries.update(state="delivered")
    child = fork(ada.principal, talk, 2, reason="fork")
    assert stays("forks")
    move_to_cold_storage(put_away(child).pk)
    before = everything(talk)
    move_to_cold_storage(talk.pk)
    restored(Context.objects.get(pk=child.pk))
    assert everything(talk) == before, "a fork needs what it was forked from"
    assert projection.differences(child.pk) == []


def test_something_that_happens_while_it_is_written_keeps_it(talk, monkeypatch):
    verify = file_format.verify_archive

    def meanwhile(name):
        Run.objects.filter(task__context=talk).update(notes=["late"])
        return verify(name)

    monkeypatch.setattr(file_format, "verify_archive", meanwhile)
    with pytest.raises(CannotArchive, match="meantime"):
        move_to_cold_storage(talk.pk)
    assert (rows_left(talk) > 0, cold_files()) == (True, [])


def test_the_job_moves_what_was_put_away_long_enough_and_rests_what_was_looked_at(ada, echo, said, talk):
    ada.personal_workspace.cold_after_days = 60
    ada.personal_workspace.save()
    young = put_away(had_a_long_talk(ada, echo, said, "young"), timezone.now() - datetime.timedelta(days=40))
    assert archiving.archive_due_sessions() == 1
    assert Context.objects.exclude(cold_file="").get() == talk
    restored(Context.objects.get(pk=talk.pk))
    assert archiving.archive_due_sessions() == 0, "somebody looked at it today"
    Context.objects.update(warmed_at=LONG_AGO)
    ada.personal_workspace.cold_after_days = None
    ada.personal_workspace.save()
    assert archiving.archive_due_sessions() == 2
    assert Context.objects.get(pk=young.pk).cold_file


def test_what_has_to_stay_does_not_keep_others_from_going(ada, echo, said, talk, monkeypatch):
    monkeypatch.setattr(archiving, "SESSIONS_AT_ONCE", 1)
    task = Task.objects.filter(context=talk).first()
    PushConfig.objects.create(task=task, config_id="1", url="http://127.0.0.1/", token="secret")
    later = put_away(had_a_long_talk(ada, echo, said, "later"), LONG_AGO + datetime.timedelta(hours=1))
    assert [archiving.archive_due_sessions(), archiving.archive_due_sessions()] == [0, 1]
    assert Context.objects.exclude(cold_file="").get() == later


def test_the_commands(talk, capsys):
    call_command("archive_sessions", "--dry-run")
    assert f"{talk.pk} would be moved" in capsys.readouterr().out
    assert cold_files() == []
    call_command("archive_sessions", "--session", str(talk.pk))
    assert rows_left(talk) == 0
    with pytest.raises(CommandError):
        call_command("archive_sessions", "--session", str(talk.pk))
    call_command("replay", str(talk.pk))
    assert "match the log" in capsys.readouterr().out
    call_command("archive_sessions", "--session", str(talk.pk))
    call_command("restore_session", str(talk.pk))
    assert f"with {talk.last_event} events" in capsys.readouterr().out


@pytest.mark.parametrize("is_damaged", [False, True])
def test_one_in_cold_storage_is_deleted_with_its_file_also_a_damaged_one(ada, echo, talk, settings, is_damaged):
    settings.UNUSED_FILE_SECONDS = 0
    name = move_to_cold_storage(talk.pk)
    if is_damaged:
        replace(name, b"damaged")
    deletion.delete_context(ada.principal, echo, "talk")
    assert (cold_files(), rows_left(talk), ColdKey.objects.count()) == ([], 1, 0)
    assert projection.differences(talk.pk) == []
    if not is_damaged:
        assert not Blob.objects.exists()


def test_files_that_no_session_names_are_swept(talk, settings):
    name = move_to_cold_storage(talk.pk)
    replace("cold/00/left-behind.jsonl.gz", b"left")
    blobs.sweep_unused()
    assert len(cold_files()) == 2, "somebody may be about to name it"
    settings.UNUSED_FILE_SECONDS = 0
    blobs.sweep_unused()
    assert cold_files() == [name]
