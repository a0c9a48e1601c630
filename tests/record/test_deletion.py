"""Deleted content is in no column and no file; large content is in files, for people who may see its conversation."""

from __future__ import annotations

import base64
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from agentkit import Artifact, Completed, InputRequired
from apps.a2a.models import Delivery, PushConfig
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.models import ApiKey
from apps.conversations.forks.forking import fork
from apps.conversations.search import indexing
from apps.conversations.sessions import commands, deletion
from apps.conversations.uploads.models import Upload
from apps.engine import accept
from apps.record import ledger, projection
from apps.record.content import blobs
from apps.record.errors import ContextNotFound
from apps.record.events import EventType
from apps.record.execution import Accepted, Run
from apps.record.models import Blob, Context, Event, Message, Task
from apps.remote.models import OpenWork
from tests.archive.archiving import put_away
from tests.canaries import places
from tests.chosen_rows import act
from tests.working import begin, chunk, end, say

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("columns of any table may hold it")]


MARK = "xylophagous"


@pytest.fixture(autouse=True)
def _no_grace_and_no_files_of_other_tests(settings):
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
    large = Artifact.text(MARK, f"{MARK} is large\n" * 13_000)
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


def test_deleted_session_leaves_an_audit_entry_alone(ada, echo, said, monkeypatch):
    context = full_of_it(ada, echo, said)
    before, events = places(MARK), Event.objects.filter(context=context).count()
    tables = ("context", "event", "task", "message", "artifact", "run")
    for table in (*(f"record_{name}" for name in tables), "search_searchentry"):
        assert any(place.startswith(f"{table}.") for place in before), table
    assert any(place.startswith("a2a_") for place in before)
    assert [place for place in before if "." not in place], "a file has it"
    with monkeypatch.context() as patched, transaction.atomic():
        patched.setattr("apps.record.content.blobs.delete_unused", lambda _: pytest.fail("a file was deleted"))
        deletion.delete_session(ada.principal, context.pk)
        transaction.set_rollback(True)
    assert (places(MARK), deletions().exists()) == (before, False), "a deletion that fails changes nothing"
    deletion.delete_session(ada.principal, context.pk)
    assert places(MARK) == []
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


def test_archived_by_operator_leaves_nothing_either(admin_client, ada, echo, said):
    """The logs of what operators do have only the id of a session, whose text is its title."""
    context = put_away(full_of_it(ada, echo, said))
    page = act(admin_client, Context, "move_to_cold_storage_selected", context).text
    assert "It is in cold storage." in page
    deletion.delete_session(ada.principal, context.pk)
    assert places(MARK) == []


def test_fork_alone_keeps_the_shared_past(ada, echo, said):
    context = full_of_it(ada, echo, said)
    secret = accept.accept(ada.principal, echo, said("tetrahedral", contextId=context.context_id))
    end(begin(secret.run), Completed("tetrahedral"))
    at = Event.objects.get(context=context, type=EventType.SESSION_RENAMED).index
    child = fork(ada.principal, context, at, reason="fork")
    deletion.delete_session(ada.principal, context.pk)
    assert places("tetrahedral") == []
    assert places(MARK)
    assert projection.differences(child.pk) == []
    deletion.delete_session(ada.principal, child.pk)
    assert places(MARK) == []


def test_content_given_to_others_is_forgotten(ada, echo, said):
    context = full_of_it(ada, echo, said)
    task = Task.objects.get(context=context)
    other = accept.accept(ada.principal, echo, said("go on", contextId="other", referenceTaskIds=[str(task.pk)]))
    Run.objects.filter(pk=other.run).update(input={"sent": {"message": {"parts": [{"text": MARK}]}}}, input_hash="1")
    called = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": f"{MARK} for the parent"}]}
    accept.accept(ada.principal, echo, called, sender=f"task:{task.pk}", parent=task.pk)
    deletion.delete_session(ada.principal, context.pk)
    assert places(MARK) == []
    assert Run.objects.get(pk=other.run).input_hash == "1"
    assert deletions().count() == 2


def test_message_id_stays_used_by_its_hash(ada, echo, said):
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


def test_files_stay_as_long_as_anybody_uses_them(ada, bob, echo, said):
    digest = stored(ada, echo, said, "mine")
    stored(bob, echo, said, "theirs")
    assert Blob.objects.filter(sha256=digest, uses=1).count() == 2
    deletion.delete_context(ada.principal, echo, "mine")
    assert default_storage.exists(blobs.path_of(digest))
    owned = {"owner": bob, "workspace": bob.personal_workspace, "filename": MARK, "size": 1}
    for sha256 in (digest, "", "0" * 64):
        Upload.objects.create(**owned, sha256=sha256, expires_at=timezone.now())
    blobs.count_uses(bob.personal_workspace.pk, [{"stored": {"sha256": digest, "size": 1}}])
    deletion.delete_context(bob.principal, echo, "theirs")
    assert not default_storage.exists(blobs.path_of(digest)), "an upload is not kept to be sent again"
    assert Upload.objects.count() == 2, "others have nothing to do with it"


def test_uses_are_counted_in_one_order(ada):
    """So that transactions cannot wait for each other's rows."""
    parts = [{"stored": {"sha256": letter * 64, "size": 1}} for letter in "bacb"]
    with CaptureQueriesContext(connection) as captured:
        blobs.count_uses(ada.personal_workspace.pk, parts)
    updates = [query["sql"] for query in captured if query["sql"].startswith("UPDATE")]
    assert list(dict.fromkeys(letter for sql in updates for letter in "abc" if letter * 64 in sql)) == list("abc")
    assert dict(Blob.objects.values_list("sha256", "uses")) == {"a" * 64: 1, "b" * 64: 2, "c" * 64: 1}


def test_sweep_spares_young_and_used_files(ada, echo, said, settings):
    settings.UNUSED_FILE_SECONDS = 3600
    young = stored(ada, echo, said, "young")
    deletion.delete_context(ada.principal, echo, "young")
    assert blobs.sweep_unused() == 0
    assert default_storage.exists(blobs.path_of(young)), "stored just now"
    settings.UNUSED_FILE_SECONDS = 0
    assert blobs.sweep_unused() == 1
    assert not default_storage.exists(blobs.path_of(young))
    digest = stored(ada, echo, said, "mine")
    [lost] = blobs.store_large([a_large_part("lost")])
    path = Path(default_storage.path(blobs.path_of(digest)))
    Path(f"{path}_copy").write_text("of two writers")
    assert blobs.sweep_unused() == 2
    assert not default_storage.exists(blobs.path_of(lost["stored"]["sha256"]))
    path.rename(f"{path}.gone")  # a leftover of a killed process
    blobs.sweep_unused()
    assert blobs.content_of({"stored": {"sha256": digest}}).startswith(MARK.encode())


CONTENT = bytes(range(256)) * 2000


@pytest.fixture
def sent(ada, echo, said):
    def send(content=CONTENT, name="big.bin", media_type="application/x-big", user=ada) -> str:
        part = {"raw": base64.b64encode(content).decode(), "filename": name, "mediaType": media_type}
        receipt = accept.accept(user.principal, echo, said(parts=[part]))
        stored = Message.objects.get(context=receipt.context).parts[0]["stored"]
        return reverse("file", args=[receipt.context, stored["sha256"]])

    return send


def got(address: str, key: str = ""):
    return Client().get(address, headers={"Authorization": f"Bearer {key}"} if key else {})


def content_of(answer) -> bytes:
    return b"".join(answer.streaming_content)


def test_owner_gets_the_file_alone(sent, ada, bob):
    address = sent()
    sent(user=bob)  # who has the same content in his own conversation
    answer = got(address, ApiKey.issue(ada, "key")[1])
    assert content_of(answer) == CONTENT
    assert answer["Content-Type"] == "application/x-big"
    assert answer["Content-Disposition"] == 'attachment; filename="big.bin"'
    assert answer["X-Content-Type-Options"] == "nosniff"
    for key, status in ((ApiKey.issue(bob, "key")[1], 404), ("", 404), ("parley_abc_def", 401)):
        assert got(address, key).status_code == status
    assert got(address, ApiKey.issue(ada, "key", scopes=["tasks:write"])[1]).status_code == 403
    message = Message.objects.order_by("created_at").first()
    message.parts[0]["mediaType"] = "text/html\r\nX-Evil: 1"
    message.save()
    assert got(address, ApiKey.issue(ada, "key")[1])["Content-Type"] == "application/octet-stream"


def test_only_true_pictures_open_in_the_browser(sent, ada):
    key = ApiKey.issue(ada, "key")[1]
    picture = b"\x89PNG\r\n\x1a\n" + CONTENT
    answer = got(sent(picture, "a.png", "image/png"), key)
    assert (answer["Content-Type"], content_of(answer)) == ("image/png", picture)
    assert answer["Content-Disposition"].startswith("inline")
    for number, media_type in enumerate(["image/png", "application/pdf", "text/plain", "image/png; a=b"]):
        program = b"MZ\x00" + CONTENT + bytes([number])
        answer = got(sent(program, "a.exe", media_type), key)
        assert (answer["Content-Type"], content_of(answer)) == ("application/octet-stream", program), media_type
        assert answer["Content-Disposition"].startswith("attachment")
