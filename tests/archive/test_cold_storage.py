"""Old sessions: archived into one file and restored exactly, deleted by retention, or held by a legal hold."""

import datetime
import gzip

import pytest
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection, models, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agentkit import Completed
from apps.a2a.models import PushConfig
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.models import User
from apps.conversations.forks.forking import fork
from apps.conversations.sessions import commands, deletion
from apps.conversations.sessions.holds import UnderLegalHold
from apps.conversations.sessions.models import LegalHold
from apps.engine import accept
from apps.optional.archive import archiving, file_format
from apps.optional.archive.archiving import CannotArchive, move_to_cold_storage
from apps.record import ledger, projection, wire
from apps.record.content import blobs
from apps.record.errors import InvalidParams, TaskNotFound
from apps.record.events import EventType
from apps.record.execution import Accepted, Run
from apps.record.models import Blob, ColdKey, Context, Event, Task
from apps.record.reading import feed, lookup
from apps.record.reading.lookup import DamagedArchive, restore_run, restored
from apps.remote.models import OpenWork
from tests.archive.archiving import LONG_AGO, cold_files, everything, had_a_long_talk, put_away, replace, rows_left
from tests.working import begin, end

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("rows come back as they were")]


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


def test_archive_is_restored_to_the_last_byte(talk, monkeypatch):
    before, hand_over = everything(talk), archiving._replace_rows_by_file
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

    def unheard(*given):
        hand_over(*given)
        raise OperationalError("the server closed the connection unexpectedly")

    monkeypatch.setattr(archiving, "_replace_rows_by_file", unheard)
    with pytest.raises(OperationalError):
        move_to_cold_storage(talk.pk)
    talk.refresh_from_db()
    assert cold_files() == [talk.cold_file], "a commit that was not heard of keeps the file"
    restored(talk)
    assert everything(talk) == before


def test_damaged_file_restores_nothing(talk):
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
        gzip.compress(b"".join(lines[:1]) + b"".join(lines[1:]).replace(b"+00:00", b"+0x:00")),
        gzip.compress(b"".join(lines[:2]) + b"[]\n" + b"".join(lines[2:])),
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


def test_asking_for_content_restores_it(ada, bob, echo, talk, said):
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


def test_archived_messages_are_known(ada, echo, said, talk):
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


def test_writing_restores_the_archive(talk):
    """A writer that read the row before archiving must not write beside the file."""
    early = Context.objects.get(pk=talk.pk)
    name = move_to_cold_storage(talk.pk)
    with ledger.writing(early) as log:
        log.add(EventType.SESSION_UNARCHIVED, {})
    assert Event.objects.filter(context=talk).count() == talk.last_event + 1
    assert not default_storage.exists(name)
    put_away(talk)
    move_to_cold_storage(talk.pk)
    with ledger.writing(Context.objects.get(pk=talk.pk)) as log:
        log.add(EventType.SESSION_RENAMED, {"title": "other"})
    assert projection.differences(talk.pk) == []


def test_unfinished_or_needed_sessions_stay(ada, echo, said, talk):
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


def test_changes_during_archiving_keep_the_session(talk, monkeypatch):
    verify = file_format.verify_archive

    def meanwhile(name):
        Run.objects.filter(task__context=talk).update(notes=["late"])
        return verify(name)

    monkeypatch.setattr(file_format, "verify_archive", meanwhile)
    with pytest.raises(CannotArchive, match="meantime"):
        move_to_cold_storage(talk.pk)
    assert (rows_left(talk) > 0, cold_files()) == (True, [])


def test_job_moves_what_was_archived_long_enough(ada, echo, said, talk, monkeypatch):
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
    monkeypatch.setattr(archiving, "SESSIONS_AT_ONCE", 1)
    webhook = {"config_id": "1", "url": "http://127.0.0.1/", "token": "secret"}
    PushConfig.objects.create(task=Task.objects.filter(context=talk).first(), **webhook)
    moved = [archiving.archive_due_sessions(), archiving.archive_due_sessions()]
    assert moved == [0, 1], "one that has to stay keeps no other"
    assert Context.objects.exclude(cold_file="").get() == young


def test_commands_archive_and_restore(talk, capsys):
    call_command("archive_sessions", "--dry-run")
    assert f"{talk.pk} would be moved" in capsys.readouterr().out
    assert cold_files() == []
    call_command("archive_sessions", "--session", str(talk.pk))
    assert rows_left(talk) == 0
    with pytest.raises(CommandError):
        call_command("archive_sessions", "--session", str(talk.pk))
    call_command("restore_session", str(talk.pk))
    assert f"with {talk.last_event} events" in capsys.readouterr().out


@pytest.mark.parametrize("is_damaged", [False, True])
def test_archived_session_is_deleted_with_its_file(ada, echo, talk, settings, is_damaged):
    settings.UNUSED_FILE_SECONDS = 0
    name = move_to_cold_storage(talk.pk)
    if is_damaged:
        replace(name, b"damaged")
    deletion.delete_context(ada.principal, echo, "talk")
    assert (cold_files(), rows_left(talk), ColdKey.objects.count()) == ([], 1, 0)
    assert projection.differences(talk.pk) == []
    if not is_damaged:
        assert not Blob.objects.exists()


def test_unnamed_files_are_swept(talk, settings):
    name = move_to_cold_storage(talk.pk)
    replace("cold/00/left-behind.jsonl.gz", b"left")
    blobs.sweep_unused()
    assert len(cold_files()) == 2, "somebody may be about to name it"
    settings.UNUSED_FILE_SECONDS = 0
    blobs.sweep_unused()
    assert cold_files() == [name]


@pytest.fixture
def aged(ada, echo, said):
    def make(days, agent=echo):
        sent = accept.accept(ada.principal, agent, said(f"{days} days ago", contextId=f"{agent.slug} {days}"))
        end(begin(sent.run), Completed("done"))
        Context.objects.filter(pk=sent.context).update(updated_at=timezone.now() - datetime.timedelta(days=days))
        return Context.objects.get(pk=sent.context)

    return make


def left():
    return set(Context.objects.filter(deleted_at=None).values_list("context_id", flat=True))


def keep(holder, days):
    holder.retention_days = days
    holder.save()


def test_shorter_of_two_rules_counts(ada, echo, countdown, aged):
    for days in (5, 20, 40):
        aged(days)
        aged(days, countdown)
    assert deletion.delete_expired_sessions() == 0, "without a rule everything is kept"
    keep(ada.personal_workspace, 30)
    assert deletion.delete_expired_sessions() == 2
    keep(countdown, 10)
    keep(echo, 1000)
    assert deletion.delete_expired_sessions() == 1
    assert left() == {"echo 5", "echo 20", "countdown 5"}
    entries = AuditEntry.objects.filter(action=AuditAction.SESSION_DELETED)
    assert set(entries.values_list("actor_kind", "actor_name")) == {("system", "retention")}


def test_retention_goes_on_until_nothing_is_due(ada, aged, monkeypatch):
    keep(ada.personal_workspace, 30)
    for days in range(40, 45):
        aged(days)
    monkeypatch.setattr(deletion, "FOUND_AT_ONCE", 3)
    monkeypatch.setattr(deletion, "AT_ONCE", {connection.vendor: (2, 1_000)})
    with monkeypatch.context() as hurried:
        hurried.setattr(deletion, "JOB_SECONDS", 0)
        hurried.setattr(deletion, "send_job", (sent := []).append)
        assert (deletion.delete_expired_sessions(), sent) == (2, ["sessions.expire"])
    assert deletion.delete_expired_sessions() == 3


def test_statements_of_retention_grow_by_one_a_session(ada, aged):
    """By none on PostgreSQL, where rows are updated together."""
    keep(ada.personal_workspace, 30)
    statements = []
    for number in (2, 12):
        for days in range(40, 40 + number):
            aged(days)
        with CaptureQueriesContext(connection) as captured:
            assert deletion.delete_expired_sessions() == number
        statements.append(len(captured))
    assert statements[1] - statements[0] <= (0 if connection.vendor == "postgresql" else 10)


def test_unfinished_and_touched_sessions_stay(ada, echo, aged, said, monkeypatch):
    keep(ada.personal_workspace, 30)
    open_one = accept.accept(ada.principal, echo, said("open", contextId="open"))
    Context.objects.filter(pk=open_one.context).update(updated_at=timezone.now() - datetime.timedelta(days=99))
    aged(40)
    delete = deletion.delete

    def answered_meanwhile(contexts, *args, **options):
        accept.accept(ada.principal, echo, said("wait", contextId=contexts[0].context_id))
        return delete(contexts, *args, **options)

    monkeypatch.setattr(deletion, "delete", answered_meanwhile)
    assert deletion.delete_expired_sessions() == 0
    assert left() == {"open", "echo 40"}


def test_one_stuck_deletion_keeps_no_other(ada, aged, monkeypatch):
    keep(ada.personal_workspace, 30)
    stuck, delete = aged(50), deletion.delete
    aged(40)

    def delete_unless_stuck(contexts, *args, **options):
        if stuck in contexts:
            raise OSError("The disk is gone.")
        return delete(contexts, *args, **options)

    monkeypatch.setattr(deletion, "delete", delete_unless_stuck)
    assert deletion.delete_expired_sessions() == 1
    assert deletion.delete_expired_sessions() == 0
    assert left() == {"echo 50"}


def test_command_lists_expiring_sessions_before_it_deletes(ada, aged, capsys):
    gone = aged(40)
    file = move_to_cold_storage(put_away(gone).pk)
    keep(ada.personal_workspace, 30)
    call_command("expire_sessions", "--dry-run")
    assert f"{gone.pk} unchanged since" in capsys.readouterr().out
    assert left() == {"echo 40"}
    call_command("expire_sessions")
    assert (left(), default_storage.exists(file)) == (set(), False)


@pytest.fixture
def session(ada, echo, said):
    sent = accept.accept(ada.principal, echo, said("evidence"))
    end(begin(sent.run), Completed("done"))
    return Context.objects.get(pk=sent.context)


@pytest.fixture(params=["user", "workspace", "context"])
def held(request, ada, session):
    return {"user": ada, "workspace": ada.personal_workspace, "context": session}[request.param], request.param


@pytest.fixture
def hold(held):
    row, kind = held
    return LegalHold.objects.create(**{kind: row}, reason="Case 7")


def test_held_sessions_are_deleted_by_nobody(ada, bob, echo, said, session, hold, held):
    with pytest.raises(UnderLegalHold):
        deletion.delete_session(ada.principal, session.pk)
    with pytest.raises(models.ProtectedError):
        held[0].delete()
    assert projection.differences(session.pk) == []
    other = accept.accept(bob.principal, echo, said("nothing"))
    end(begin(other.run), Completed("done"))
    for person in (ada, bob):
        person.personal_workspace.retention_days = 1
        person.personal_workspace.save()
    Context.objects.update(updated_at=timezone.now() - datetime.timedelta(days=3))
    assert deletion.delete_expired_sessions() == 1
    assert list(Context.objects.filter(deleted_at=None).values_list("pk", flat=True)) == [session.pk]
    User.objects.filter(pk=ada.pk).update(erased_at=timezone.now())
    assert deletion.delete_sessions_of_deleted_accounts() == 0
    hold.delete()
    assert deletion.delete_sessions_of_deleted_accounts() == 1


def test_held_account_is_not_erased(ada, session, hold, client):
    client.force_login(ada)
    answer = client.post("/settings/data/delete", {"email": ada.email, "current_password": "correct horse"})
    assert (answer.status_code, str(UnderLegalHold()) in answer.text) == (422, True)
    ada.refresh_from_db()
    assert (ada.is_active, ada.erased_at) == (True, None)


def test_hold_covers_parent_and_child_sessions(ada, echo, said, session):
    task = session.tasks.get()
    child = accept.accept(ada.principal, echo, said("part of it"))
    Context.objects.filter(pk=child.context).update(parent_task=task.pk)
    end(begin(child.run), Completed("done"))
    LegalHold.objects.create(context_id=child.context, reason="Case 8")
    with pytest.raises(UnderLegalHold), transaction.atomic():
        deletion.delete_session(ada.principal, session.pk)
    assert not Context.objects.filter(deleted_at__isnull=False).exists()


def test_operators_place_and_lift_holds(ada, bob, session, client):
    bob.is_staff = bob.is_superuser = True
    bob.save()
    client.force_login(bob)
    page = "/admin/session_marks/legalhold/"
    assert client.post(f"{page}add/", {"user": ada.pk, "context": session.pk, "reason": "Case 7"}).status_code == 200
    assert client.post(f"{page}add/", {"user": ada.pk, "reason": "Case 7"}).status_code == 302
    hold = LegalHold.objects.get()
    assert ada.email in client.get(page).text
    assert client.post(f"{page}{hold.pk}/delete/", {"post": "yes"}).status_code == 302
    entries = AuditEntry.objects.filter(object_type="session_marks.legalhold").order_by("number")
    told = [(entry.action, entry.actor_key, entry.object_label) for entry in entries]
    assert told == [(f"admin.{verb}", str(bob.pk), f"legal hold on {ada.email}") for verb in ("created", "deleted")]
    client.force_login(ada)
    assert client.get(page).status_code in (302, 403)
