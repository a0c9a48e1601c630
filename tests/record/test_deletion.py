"""Deleted content is in no column and no file."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.core.files.storage import default_storage
from django.db import connection, transaction
from django.utils import timezone

from agentkit import Artifact, Completed, InputRequired
from apps.a2a.models import Delivery, PushConfig
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.engine import accept
from apps.features.forks.forking import fork
from apps.features.search import indexing
from apps.features.sessions import commands, deletion
from apps.features.uploads.models import Upload
from apps.record import ledger, projection
from apps.record.content import blobs
from apps.record.errors import ContextNotFound
from apps.record.events import EventType
from apps.record.execution import Accepted, Run
from apps.record.models import Blob, Context, Event, Task
from apps.remote.models import OpenWork
from tests.record.archiving import put_away
from tests.working import begin, chunk, end, say

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("columns of any table may hold it")]

MARK = "xylophagous"


def places(mark: str = MARK) -> list[str]:
    """Where a text is: column or file."""
    return sorted({*_columns_with(mark), *_files_with(mark)})


def _columns_with(mark: str) -> Iterator[str]:
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            columns = [column.name for column in connection.introspection.get_table_description(cursor, table)]
            quoted = connection.ops.quote_name
            for column in columns:
                where = f"CAST({quoted(column)} AS text) LIKE %s"
                cursor.execute(f"SELECT 1 FROM {quoted(table)} WHERE {where} LIMIT 1", [f"%{mark}%"])
                if cursor.fetchone():
                    yield f"{table}.{column}"


def _files_with(mark: str) -> Iterator[str]:
    for path in Path(default_storage.path("")).rglob("*"):
        if path.is_file() and mark.encode() in path.read_bytes():
            yield path.name


@pytest.fixture(autouse=True)
def _no_grace_and_no_files_of_other_tests(settings: Any) -> None:
    settings.UNUSED_FILE_SECONDS = 0
    for path in Path(default_storage.path("")).rglob("*"):
        if path.is_file():
            path.unlink()


def deletions() -> Any:
    return AuditEntry.objects.filter(action=AuditAction.SESSION_DELETED)


def full_of_it(ada: Any, echo: Any, said: Any, context_id: str = f"{MARK}-talk") -> Context:
    """A conversation with the mark in every content field."""
    first = said(f"{MARK} at first", contextId=context_id, metadata={"note": MARK})
    sent = accept.accept(ada.principal, echo, first, traceparent="")
    held = begin(sent.run)
    say(held, chunk(f"{MARK}-id", f"{MARK} in a chunk\n", last=False), chunk(f"{MARK}-id", "2\n", append=True))
    end(held, InputRequired(f"{MARK}?", slot=MARK))
    answer = accept.accept(ada.principal, echo, said(MARK, taskId=str(sent.task)))
    Run.objects.filter(pk=answer.run).update(memory={"mind": MARK}, notes=[MARK], remote={"contextId": MARK})
    large = Artifact.text(MARK, f"{MARK} is large\n" * 30_000)
    end(begin(answer.run), Completed(MARK, [Artifact.json("data", {MARK: MARK}), large]))
    commands.give_feedback(ada.principal, echo, str(sent.task), {"rating": 1, "feedback": MARK})
    webhook = PushConfig.objects.create(task_id=sent.task, config_id=MARK, url=f"http://{MARK}.example/")
    Delivery.objects.create(config=webhook, event_index=1, last_error=MARK, state=Delivery.State.DEAD)
    with ledger.writing(sent.context) as log:
        log.add(EventType.SESSION_RENAMED, {"title": MARK})
        log.remember({"kept": MARK}, ())
    context = Context.objects.get(pk=sent.context)
    indexing.index_completely(context)
    return context


def test_nothing_is_left_of_a_deleted_session_but_a_line_in_the_book(ada, echo, said):
    context = full_of_it(ada, echo, said)
    before, events = places(), Event.objects.filter(context=context).count()
    tables = ("context", "event", "task", "message", "artifact", "run")
    for table in (*(f"record_{name}" for name in tables), "search_searchentry"):
        assert any(place.startswith(f"{table}.") for place in before), table
    assert any(place.startswith("a2a_") for place in before)
    assert [place for place in before if "." not in place], "a file has it"
    deletion.delete_session(ada.principal, context.pk)
    assert places() == []
    tombstone = Event.objects.get(context=context)
    context.refresh_from_db()
    assert (tombstone.type, tombstone.index) == (EventType.SESSION_DELETED, context.last_event)
    assert context.deleted_at == tombstone.at
    assert projection.differences(context.pk) == []
    with pytest.raises(ContextNotFound):
        deletion.delete_session(ada.principal, context.pk)
    entry = deletions().get()
    assert (entry.actor_key, entry.object_key) == (str(ada.pk), str(context.pk))
    assert entry.details == {"events": events, "messages": 4, "tasks": 1, "artifacts": 3}


def test_a_deletion_that_fails_leaves_everything_and_no_line(ada, echo, said, monkeypatch):
    context = full_of_it(ada, echo, said)
    before = places()
    monkeypatch.setattr("apps.record.content.blobs.delete_unused", lambda _: pytest.fail("a file was deleted"))

    @transaction.atomic
    def fail():
        deletion.delete_session(ada.principal, context.pk)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert places() == before
    assert not deletions().exists()


def test_a_fork_keeps_the_past_that_it_shares_and_nothing_else_does(ada, echo, said):
    context = full_of_it(ada, echo, said)
    secret = accept.accept(ada.principal, echo, said("tetrahedral", contextId=context.context_id))
    end(begin(secret.run), Completed("tetrahedral"))
    at = Event.objects.get(context=context, type=EventType.SESSION_RENAMED).index
    child = fork(ada.principal, context, at, reason="fork")
    deletion.delete_session(ada.principal, context.pk)
    assert places("tetrahedral") == []
    assert places()
    assert projection.differences(child.pk) == []
    deletion.delete_session(ada.principal, child.pk)
    assert places() == []


def test_what_other_sessions_were_given_of_it_is_forgotten_and_those_in_which_agents_worked_for_it_go(ada, echo, said):
    context = full_of_it(ada, echo, said)
    task = Task.objects.get(context=context)
    other = accept.accept(ada.principal, echo, said("go on", contextId="other", referenceTaskIds=[str(task.pk)]))
    Run.objects.filter(pk=other.run).update(input={"sent": {"message": {"parts": [{"text": MARK}]}}}, input_hash="1")
    called = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": f"{MARK} for the parent"}]}
    accept.accept(ada.principal, echo, called, sender=f"task:{task.pk}", parent=task.pk)
    deletion.delete_session(ada.principal, context.pk)
    assert places() == []
    assert Run.objects.get(pk=other.run).input_hash == "1"
    assert deletions().count() == 2


def test_a_message_that_was_sent_there_stays_used_by_its_hash_alone_and_a_remote_agent_is_told_to_stop(ada, echo, said):
    sent = said(f"{MARK} once", contextId="talk")
    receipt = accept.accept(ada.principal, echo, sent)
    OpenWork.objects.create(agent=echo, owner=ada, task=receipt.task, run=uuid.uuid4(), remote_task="there")
    deletion.delete_context(ada.principal, echo, "talk")
    kept = Accepted.objects.get()
    assert (kept.message_id, kept.task_id, len(kept.body_hash)) == (sent["messageId"], None, 64)
    assert not Run.objects.exists()
    assert OpenWork.objects.unwanted().count() == 1


def a_large_part(text: str) -> dict[str, Any]:
    return {"text": f"{text} " * 60_000}


def stored(ada: Any, echo: Any, said: Any, context_id: str) -> str:
    accept.accept(ada.principal, echo, {**said(contextId=context_id), "parts": [a_large_part(MARK)]})
    return Blob.objects.latest("pk").sha256


def test_a_file_that_another_session_uses_stays_as_long_as_that(ada, bob, echo, said):
    digest = stored(ada, echo, said, "mine")
    stored(bob, echo, said, "theirs")
    assert Blob.objects.filter(sha256=digest, uses=1).count() == 2
    deletion.delete_context(ada.principal, echo, "mine")
    assert default_storage.exists(blobs.path_of(digest))
    deletion.delete_context(bob.principal, echo, "theirs")
    assert not default_storage.exists(blobs.path_of(digest))
    assert not Blob.objects.exists()


def test_an_upload_that_was_sent_there_is_not_kept_to_be_sent_again(ada, echo, said):
    digest = stored(ada, echo, said, "mine")
    part = {"stored": {"sha256": digest, "size": 1}}
    for sha256 in (digest, "", "0" * 64):
        Upload.objects.create(
            owner=ada, workspace=ada.personal_workspace, filename=MARK, size=1, sha256=sha256, expires_at=timezone.now()
        )
    blobs.count_uses(ada.personal_workspace.pk, [part])
    deletion.delete_context(ada.principal, echo, "mine")
    assert not default_storage.exists(blobs.path_of(digest))
    assert Upload.objects.count() == 2, "others have nothing to do with it"


def test_a_file_that_was_stored_just_now_is_left_to_the_sweep(ada, echo, said, settings):
    settings.UNUSED_FILE_SECONDS = 3600
    digest = stored(ada, echo, said, "mine")
    deletion.delete_context(ada.principal, echo, "mine")
    assert default_storage.exists(blobs.path_of(digest))
    assert blobs.sweep_unused() == 0
    settings.UNUSED_FILE_SECONDS = 0
    assert blobs.sweep_unused() == 1
    assert not default_storage.exists(blobs.path_of(digest))


def test_the_sweep_finds_files_that_nobody_counted_and_spares_those_in_use(ada, echo, said):
    digest = stored(ada, echo, said, "mine")
    [lost] = blobs.store_large([a_large_part("lost")])
    path = Path(default_storage.path(blobs.path_of(digest)))
    Path(f"{path}_copy").write_text("of two writers")
    assert blobs.sweep_unused() == 2
    assert not default_storage.exists(blobs.path_of(lost["stored"]["sha256"]))
    path.rename(f"{path}.gone")  # a leftover of a killed process
    blobs.sweep_unused()
    assert blobs.content_of({"stored": {"sha256": digest}}).startswith(MARK.encode())


def test_nothing_is_left_of_one_that_an_operator_moved_into_cold_storage(admin_client, ada, echo, said):
    """The log of operators' actions has only the session's id."""
    context = put_away(full_of_it(ada, echo, said))
    chosen = {"action": "move_into_cold_storage", "_selected_action": [str(context.pk)]}
    page = admin_client.post("/admin/record/context/", chosen, follow=True).content.decode()
    assert f"{context.pk} is in cold storage." in page
    deletion.delete_session(ada.principal, context.pk)
    assert places() == []
    assert not LogEntry.objects.filter(object_repr__contains=MARK).exists()
