"""Our extension: feedback on tasks; listing and clearing conversations."""

import asyncio
import base64
from contextlib import aclosing

import pytest
from django.conf import settings
from django.urls import reverse

import db
from apps.agents.models import Agent
from apps.engine.send import wait_until_settled
from apps.record import feed, ledger, projection, wire
from apps.record.errors import TaskNotFound
from apps.record.events import EventType
from apps.record.execution import Accepted, Run
from apps.record.models import Artifact, Blob, Context, Event, Message, Task
from apps.record.projection import tombstone_of
from apps.record.runs import LeaseLost
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


async def test_the_card_declares_it_and_its_page_is_at_its_address(async_client, ada_at, echo, quiet):
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
    answer = await ada_at("echo").call("contexts/list", {}, {"A2A-Extensions": URI})
    assert answer.headers["A2A-Extensions"] == URI


async def test_feedback_is_kept_line_by_line_and_changes_no_row(worker, ada_at, echo):
    task = await sent(ada_at("echo"))
    given = [{"rating": 2, "feedback": "slow", "metadata": {"page": 3}}, {"rating": 5}]
    for one in given:
        assert (await ada_at("echo").call("tasks/feedback", {"taskId": task["id"], **one})).result == {}
    events = await db.run(lambda: list(Event.objects.filter(type=EventType.FEEDBACK).order_by("index")))
    assert [event.payload for event in events] == given
    assert {str(event.task_id) for event in events} == {task["id"]}
    assert (await ada_at("echo").call("GetTask", {"id": task["id"]})).result == task
    assert await db.run(projection.differences, events[0].context_id) == []


async def test_feedback_that_cannot_be_used_is_refused_and_not_kept(worker, ada_at, echo, subtests):
    task = (await sent(ada_at("echo")))["id"]
    wrong = {
        "rating": [{}, {"rating": 0}, {"rating": 6}, {"rating": 4.5}, {"rating": "good"}, {"rating": True}],
        "feedback": [{"rating": 1, "feedback": 5}, {"rating": 1, "feedback": "x" * 10_001}],
        "metadata": [{"rating": 1, "metadata": []}],
    }
    for field, params in wrong.items():
        for one in params:
            with subtests.test(str(one)[:40]):
                assert (await ada_at("echo").call("tasks/feedback", {"taskId": task, **one})).fields == [field]
    assert (await ada_at("echo").call("tasks/feedback", {"rating": 1})).fields == ["taskId"]
    assert not await db.run(Event.objects.filter(type=EventType.FEEDBACK).exists)


async def test_conversations_are_listed_the_busiest_first_with_the_number_of_their_tasks(
    worker, ada_at, bob_at, anybody_at, echo, public_echo, greeting
):
    for place in ("a", "b", "c", "a"):
        await sent(ada_at("echo"), contextId=place)
    await sent(bob_at("echo"), contextId="bob's")
    await ada_at("greeting").send(message("hi", contextId="elsewhere"))
    page = await listed(ada_at("echo"))
    assert [(one["contextId"], one["taskCount"]) for one in page["contexts"]] == [("a", 2), ("c", 1), ("b", 1)]
    times = [one["lastUpdated"] for one in page["contexts"]]
    assert times == sorted(times, reverse=True)
    assert page["nextPageToken"] == ""
    [talk] = (await listed(ada_at("greeting")))["contexts"]
    assert (talk["contextId"], talk["taskCount"]) == ("elsewhere", 0)
    await sent(anybody_at("open-echo"))
    assert await names_of(anybody_at("open-echo")) == [], "nobody in particular lists nothing"


async def test_pages_of_conversations_follow_one_another_by_tokens_of_this_list_alone(ada_at, bob_at, quiet, echo):
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


async def test_a_cleared_conversation_is_gone_from_everywhere_but_its_log(conversation, ada_at, ada):
    *gone, stays = conversation
    context = await db.run(Context.objects.get, context_id="gone")
    part = await db.run(lambda: next(iter(Message.objects.exclude(parts__icontains="text"))).parts[0])
    path = reverse("file", args=[context.pk, part["stored"]["sha256"]])
    caller = ada_at("echo")

    async def download():
        return await caller.client.get(path, headers={"Authorization": f"Bearer {caller.key}"})

    assert (await download()).status_code == 200
    assert await cleared(caller, "gone") == {}
    assert await names_of(caller) == ["stays"]
    assert [task["id"] for task in (await caller.call("ListTasks", {})).result["tasks"]] == [stays["id"]]
    assert (await caller.call("ListTasks", {"contextId": "gone"})).result["tasks"] == []
    for task in gone:
        for method in ("GetTask", "CancelTask", "SubscribeToTask"):
            assert (await caller.call(method, {"id": task["id"]})).code == -32001
        assert (await caller.call("tasks/feedback", {"taskId": task["id"], "rating": 1})).code == -32001
        assert (await caller.send(message("more", taskId=task["id"]))).code == -32001
    assert (await download()).status_code == 404

    def left():
        last = context.last_event
        context.refresh_from_db()
        models = (Task, Message, Artifact, Run)
        return (
            list(Context.objects.visible_to(ada.principal).values_list("context_id", flat=True)),
            (context.deleted_at is not None, context.title, context.last_event - last),
            [model.objects.count() for model in models],
            Blob.objects.get().uses,
            projection.differences(context.pk),
        )

    assert await db.run(left) == (["stays"], (True, "", 1), [1, 2, 1, 1], 0, [])


async def test_what_runs_there_is_canceled_and_whoever_waits_for_it_is_told(worker, ada_at, stepping):
    caller = ada_at("stepping")
    async with aclosing(caller.stream("SendStreamingMessage", {"message": message("3", contextId="gone")})) as events:
        task = (await anext(events))[1]["task"]
        row = await db.run(Task.objects.get, pk=task["id"])
        waiting = asyncio.create_task(wait_until_settled(row.context_id, row.pk, 1, wire.load_task))
        assert await cleared(caller, "gone") == {}
        rest = [response async for _, response in events]
    assert rest[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"
    with pytest.raises(TaskNotFound):
        await waiting
    assert not await db.run(Run.objects.exists)


async def test_its_id_begins_another_conversation(conversation, ada_at):
    await cleared(ada_at("echo"), "gone")
    again = await sent(ada_at("echo"), "anew", contextId="gone")
    assert again["contextId"] == "gone"
    assert [text_of(said) for said in again["history"]] == ["anew", "anew"]
    shown = [(one["contextId"], one["taskCount"]) for one in (await listed(ada_at("echo")))["contexts"]]
    assert shown == [("gone", 1), ("stays", 1)]
    assert await db.run(lambda: Task.objects.get(pk=again["id"]).references) == []
    await cleared(ada_at("echo"), "gone")
    assert await db.run(Context.objects.exclude(deleted_at=None).count) == 2


async def test_a_message_that_was_sent_there_does_not_run_again(worker, ada_at, echo, greeting):
    for slug in ("echo", "greeting"):
        same = message("hi", contextId=f"gone from {slug}")
        await ada_at(slug).send(same)
        await cleared(ada_at(slug), f"gone from {slug}")
        assert (await ada_at(slug).send(same)).fields == ["messageId"]
    assert await db.run(Accepted.objects.count) == 2
    assert not await db.run(Message.objects.exists)


async def test_what_is_not_there_cannot_be_cleared(ada_at, bob_at, quiet, echo):
    for place in ("gone", "stays"):
        await ada_at("echo").send(message(contextId=place), returnImmediately=True)
    await cleared(ada_at("echo"), "gone")
    never = await ada_at("echo").call("contexts/clear", {"contextId": "never"})
    assert never.code == -32602
    for caller, context_id in ((ada_at("echo"), "gone"), (bob_at("echo"), "stays"), (ada_at("quiet"), "stays")):
        assert (await caller.call("contexts/clear", {"contextId": context_id})).body == never.body
    assert (await ada_at("echo").call("contexts/clear", {})).fields == ["contextId"]


async def test_nobody_in_particular_clears_by_the_unguessable_id_alone(worker, anybody_at, public_echo):
    anybody = anybody_at("open-echo")
    named, given = await sent(anybody, contextId="ours"), await sent(anybody)
    assert (await anybody.call("contexts/clear", {"contextId": named["contextId"]})).code == -32602
    assert await cleared(anybody, given["contextId"]) == {}
    assert (await anybody.call("GetTask", {"id": given["id"]})).code == -32001
    assert (await anybody.call("GetTask", {"id": named["id"]})).result["id"] == named["id"]


async def test_a_message_that_comes_while_a_conversation_is_cleared_begins_another(conversation, ada_at, monkeypatch):
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


async def test_a_worker_that_is_late_writes_nothing_into_a_cleared_conversation(ada_at, echo):
    await ada_at("echo").send(message(contextId="gone"), returnImmediately=True)
    context = await db.run(Context.objects.get, context_id="gone")
    await cleared(ada_at("echo"), "gone")

    def write():
        with pytest.raises(LeaseLost), ledger.writing(context.pk) as log:
            log.add(EventType.SESSION_RENAMED, {"title": "late"})

    await db.run(write)
    events = await db.run(feed.read_events, context.pk, 0)
    assert events[-1].type == EventType.SESSION_DELETED
