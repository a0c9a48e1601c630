"""Our extension: feedback on tasks; listing and clearing conversations."""

import base64

import pytest
from django.conf import settings
from django.urls import reverse

from apps.agents.models import Agent
from apps.record import ledger, projection
from apps.record.events import EventType
from apps.record.execution import Run
from apps.record.models import Artifact, Blob, Context, Event, Message, Task
from apps.record.projection import tombstone_of
from parley import db
from tests.a2a.calling import message, text_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("lists and clearing are SQL of our own")]

URI = f"{settings.PUBLIC_BASE_URL}/ext/conversations/v1"
EXTENSIONS = ("conversations", "depends-on", "message-ids", "negotiation", "cursor", "signature", "health")
LARGE = base64.b64encode(b"large" * 100_000).decode()


async def sent(caller, text="hi", **fields):
    return (await caller.send(message(text, **fields))).result["task"]


async def listed(caller, **params):
    return (await caller.call("contexts/list", params)).result


async def cleared(caller, context_id):
    return (await caller.call("contexts/clear", {"contextId": context_id})).result


async def names_of(caller):
    return [one["contextId"] for one in (await listed(caller))["contexts"]]


async def test_card_declares_extensions_with_their_pages(async_client, ada_at, echo, quiet):
    await Agent.objects.filter(pk=echo.pk).aupdate(sign_artifacts=True)

    async def declared(slug):
        card = (await async_client.get(f"/a2a/{slug}/.well-known/agent-card.json")).json()
        return [one["uri"] for one in card["capabilities"]["extensions"]]

    def uris(*without):
        return [URI.replace("conversations", name) for name in EXTENSIONS if name not in without]

    assert await declared("echo") == uris()
    assert await declared("quiet") == uris("cursor", "signature"), "it neither streams nor signs"
    for uri in uris():
        path = uri.removeprefix(settings.PUBLIC_BASE_URL)
        page = await async_client.get(path)
        assert (page.status_code, page["Content-Type"]) == (200, "text/plain; charset=utf-8")
        assert path in page.content.decode()
    for path in ("/ext/conversations/v2", "/ext/nothing/v1"):
        assert (await async_client.get(path)).status_code == 404
    assert await listed(ada_at("echo")) == {"contexts": [], "nextPageToken": ""}, "it need not be named"


async def test_feedback_is_kept_and_changes_no_row(worker, ada_at, echo):
    task = await sent(ada_at("echo"))
    given = [{"rating": 2, "feedback": "slow", "metadata": {"page": 3}}, {"rating": 5}]
    for one in given:
        assert (await ada_at("echo").call("tasks/feedback", {"taskId": task["id"], **one})).result == {}
    for field, wrong in (
        ("rating", {"rating": 6}),
        ("rating", {"rating": True}),
        ("feedback", {"rating": 1, "feedback": 5}),
        ("metadata", {"rating": 1, "metadata": []}),
    ):
        assert (await ada_at("echo").call("tasks/feedback", {"taskId": task["id"], **wrong})).fields == [field], wrong
    assert (await ada_at("echo").call("tasks/feedback", {"rating": 1})).fields == ["taskId"]
    events = await db.run(lambda: list(Event.objects.filter(type=EventType.FEEDBACK).order_by("index")))
    assert [(str(event.task_id), event.payload) for event in events] == [(task["id"], one) for one in given]
    assert (await ada_at("echo").call("GetTask", {"id": task["id"]})).result == task
    assert await db.run(projection.differences, events[0].context_id) == []


async def test_page_tokens_are_of_one_list_alone(ada_at, bob_at, quiet, echo):
    for number in range(5):
        await ada_at("echo").send(message(contextId=str(number)), returnImmediately=True)
    same = Context.objects.filter(context_id__in="123")
    await db.run(lambda: same.update(updated_at=Context.objects.get(context_id="1").updated_at))
    found, token, tokens = [], "", []
    for _ in range(3):
        page = await listed(ada_at("echo"), pageSize=2, pageToken=token)
        found += [one["contextId"] for one in page["contexts"]]
        token = page["nextPageToken"]
        tokens.append(token)
    assert token == ""
    assert sorted(found) == list("01234")
    for caller in (bob_at("echo"), ada_at("quiet")):
        assert (await caller.call("contexts/list", {"pageToken": tokens[0]})).fields == ["pageToken"]
    assert (await ada_at("echo").call("ListTasks", {"pageToken": tokens[0]})).fields == ["pageToken"]
    assert (await ada_at("echo").call("contexts/list", {"pageSize": 101})).fields == ["pageSize"]


@pytest.fixture
async def conversation(worker, ada_at, echo):
    """Three tasks in one conversation of Ada's, one with a large file, and one elsewhere."""
    tasks = [await sent(ada_at("echo"), contextId="gone") for _ in range(2)]
    tasks.append(await sent(ada_at("echo"), contextId="gone", parts=[{"raw": LARGE, "filename": "big.bin"}]))
    return [*tasks, await sent(ada_at("echo"), contextId="stays")]


async def test_cleared_conversation_is_gone_but_its_log(conversation, ada_at):
    *gone, stays = conversation
    context = await db.run(Context.objects.get, context_id="gone")
    part = await db.run(lambda: next(iter(Message.objects.exclude(parts__icontains="text"))).parts[0])
    path = reverse("file", args=[context.pk, part["stored"]["sha256"]])
    caller = ada_at("echo")

    async def download():
        return (await caller.client.get(path, headers={"Authorization": f"Bearer {caller.key}"})).status_code

    assert await download() == 200
    assert await cleared(caller, "gone") == {}
    assert await names_of(caller) == ["stays"]
    assert [task["id"] for task in (await caller.call("ListTasks", {})).result["tasks"]] == [stays["id"]]
    for method in ("GetTask", "CancelTask", "SubscribeToTask"):
        assert (await caller.call(method, {"id": gone[0]["id"]})).code == -32001
    assert (await caller.send(message("more", taskId=gone[0]["id"]))).code == -32001
    assert await download() == 404
    counts = [await db.run(model.objects.count) for model in (Task, Message, Artifact, Run)]
    assert (counts, (await Blob.objects.aget()).uses) == ([1, 2, 1, 1], 0)
    assert await db.run(projection.differences, context.pk) == []


async def test_cleared_id_begins_another_conversation(conversation, ada_at):
    await cleared(ada_at("echo"), "gone")
    again = await sent(ada_at("echo"), "anew", contextId="gone")
    assert [text_of(said) for said in again["history"]] == ["anew", "anew"]
    shown = [(one["contextId"], one["taskCount"]) for one in (await listed(ada_at("echo")))["contexts"]]
    assert shown == [("gone", 1), ("stays", 1)]
    assert await db.run(lambda: Task.objects.get(pk=again["id"]).references) == []
    same = message("hi", contextId="talk")
    await ada_at("echo").send(same)
    await cleared(ada_at("echo"), "talk")
    assert (await ada_at("echo").send(same)).fields == ["messageId"], "what was sent there does not run again"
    assert (await ada_at("echo").call("contexts/clear", {})).fields == ["contextId"]


async def test_anonymous_callers_clear_by_given_ids_alone(worker, anybody_at, public_echo):
    anybody = anybody_at("open-echo")
    named, given = await sent(anybody, contextId="ours"), await sent(anybody)
    assert (await anybody.call("contexts/clear", {"contextId": named["contextId"]})).code == -32602
    assert await cleared(anybody, given["contextId"]) == {}
    assert (await anybody.call("GetTask", {"id": given["id"]})).code == -32001
    assert (await anybody.call("GetTask", {"id": named["id"]})).result["id"] == named["id"]


async def test_message_during_clearing_begins_another_conversation(conversation, ada_at, monkeypatch):
    """The context is found, then cleared by another request, then written to."""
    found = []
    opened = ledger.writing

    def cleared_before(context, **options):
        if not found and getattr(context, "context_id", "") == "gone":
            found.append(context)
            with opened(context.pk) as log:
                log.add(EventType.SESSION_DELETED, tombstone_of(log.context))
        return opened(context, **options)

    monkeypatch.setattr(ledger, "writing", cleared_before)
    again = await sent(ada_at("echo"), "late", contextId="gone")
    assert found
    assert [text_of(said) for said in again["history"]] == ["late", "late"]
