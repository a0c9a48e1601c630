"""The extension of our own: feedback on tasks; conversations that are listed and cleared."""

import asyncio
import base64
from contextlib import aclosing

import pytest
from django.conf import settings
from django.urls import reverse

import bridge
from apps.accounts.models import ApiKey
from apps.agents.models import Agent
from apps.conversations import feed, ledger, replay, wire
from apps.conversations.errors import TaskNotFound
from apps.conversations.events import EventType
from apps.conversations.leases import LeaseLost
from apps.conversations.models import Accepted, Artifact, Blob, Context, Event, Message, Run, Task
from apps.conversations.projection import tombstone_of
from apps.runtime.sending import settled
from tests.a2a.calling import Caller, message, text_of

pytestmark = pytest.mark.django_db(transaction=True)

URI = f"{settings.PUBLIC_BASE_URL}/ext/conversations/v1"
EXTENSIONS = ("conversations", "message-ids", "negotiation", "cursor", "signature", "health")
LARGE = base64.b64encode(b"large" * 100_000).decode()


async def sent(caller, text="hi", **fields):
    return (await caller.send(message(text, **fields))).result["task"]


async def listed(caller, **params):
    return (await caller.call("contexts/list", params)).result


async def cleared(caller, context_id):
    return (await caller.call("contexts/clear", {"contextId": context_id})).result


# Knowing of it


async def test_the_card_declares_it_and_its_page_is_at_its_address(ada_at, echo):
    await bridge.run(Agent.objects.filter(pk=echo.pk).update, sign_artifacts=True)
    caller = ada_at("echo")
    card = (await caller.client.get("/a2a/echo/.well-known/agent-card.json")).json()
    declared = [one["uri"] for one in card["capabilities"]["extensions"]]
    assert declared == [URI.replace("conversations", name) for name in EXTENSIONS]
    for uri in declared:
        page = await caller.client.get(uri.removeprefix(settings.PUBLIC_BASE_URL))
        assert page.status_code == 200
        assert page["Content-Type"] == "text/plain; charset=utf-8"
        assert "An A2A extension of Parley's." in page.content.decode()
    assert (await caller.client.get("/ext/conversations/v2")).status_code == 404
    assert (await caller.client.get("/ext/nothing/v1")).status_code == 404


async def test_an_agent_that_does_not_stream_declares_no_cursor(ada_at, quiet):
    card = (await ada_at("quiet").client.get("/a2a/quiet/.well-known/agent-card.json")).json()
    declared = [one["uri"] for one in card["capabilities"]["extensions"]]
    assert declared == [
        URI.replace("conversations", name) for name in EXTENSIONS if name not in ("cursor", "signature")
    ]


async def test_it_may_be_named_and_need_not(ada_at, echo):
    assert (await ada_at("echo").call("contexts/list", {})).result == {"contexts": [], "nextPageToken": ""}
    answer = await ada_at("echo").call("contexts/list", {}, {"A2A-Extensions": URI})
    assert answer.headers["A2A-Extensions"] == URI
    assert answer.result == {"contexts": [], "nextPageToken": ""}


async def test_a_key_needs_the_scope_to_write_for_what_changes_something(worker, ada, ada_at, echo):
    task = await sent(ada_at("echo"))
    keys = {
        scope: (await bridge.run(ApiKey.issue, ada, "k", scopes=[scope]))[1] for scope in ("tasks:read", "tasks:write")
    }
    reading, writing = Caller("echo", keys["tasks:read"]), Caller("echo", keys["tasks:write"])
    assert len((await listed(reading))["contexts"]) == 1
    assert (await writing.call("contexts/list", {})).status == 403
    rated = {"taskId": task["id"], "rating": 5}
    assert (await reading.call("tasks/feedback", rated)).status == 403
    assert (await reading.call("contexts/clear", {"contextId": task["contextId"]})).status == 403
    assert (await writing.call("tasks/feedback", rated)).result == {}
    assert await cleared(writing, task["contextId"]) == {}


# Feedback


async def test_feedback_is_kept_line_by_line_and_changes_no_row(worker, ada_at, echo):
    task = await sent(ada_at("echo"))
    given = [{"rating": 2, "feedback": "slow", "metadata": {"page": 3}}, {"rating": 5}]
    for one in given:
        assert (await ada_at("echo").call("tasks/feedback", {"taskId": task["id"], **one})).result == {}
    events = await bridge.run(lambda: list(Event.objects.filter(type=EventType.FEEDBACK).order_by("index")))
    assert [event.payload for event in events] == given
    assert {str(event.task_id) for event in events} == {task["id"]}
    assert (await ada_at("echo").call("GetTask", {"id": task["id"]})).result == task
    assert await bridge.run(replay.differences, events[0].context_id) == []


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
    assert not await bridge.run(Event.objects.filter(type=EventType.FEEDBACK).exists)


# Listing


async def test_conversations_are_listed_the_busiest_first_with_the_number_of_their_tasks(
    worker, ada_at, bob_at, echo, greeting
):
    for place in ("a", "b", "c", "a"):
        await sent(ada_at("echo"), contextId=place)
    await sent(bob_at("echo"), contextId="bob's")
    await ada_at("greeting").send(message("hi", contextId="elsewhere"))
    page = await listed(ada_at("echo"))
    assert [(one["contextId"], one["taskCount"]) for one in page["contexts"]] == [("a", 2), ("c", 1), ("b", 1)]
    assert [one["lastUpdated"] for one in page["contexts"]] == sorted(
        (one["lastUpdated"] for one in page["contexts"]), reverse=True
    )
    assert page["nextPageToken"] == ""
    [talk] = (await listed(ada_at("greeting")))["contexts"]
    assert (talk["contextId"], talk["taskCount"]) == ("elsewhere", 0)


async def test_pages_of_conversations_follow_one_another_without_a_gap_or_a_repetition(worker, ada_at, echo):
    for number in range(5):
        await sent(ada_at("echo"), contextId=str(number))
    await bridge.run(
        lambda: Context.objects.filter(context_id__in="123").update(
            updated_at=Context.objects.get(context_id="1").updated_at
        )
    )
    found, token = [], ""
    for _ in range(3):
        page = await listed(ada_at("echo"), pageSize=2, pageToken=token)
        found += [one["contextId"] for one in page["contexts"]]
        token = page["nextPageToken"]
    assert token == ""
    assert sorted(found) == list("01234")


async def test_a_token_of_conversations_is_good_for_its_caller_and_list_alone(worker, ada_at, bob_at, quiet, echo):
    for place in "ab":
        await sent(ada_at("echo"), contextId=place)
    token = (await listed(ada_at("echo"), pageSize=1))["nextPageToken"]
    for caller in (bob_at("echo"), ada_at("quiet")):
        assert (await caller.call("contexts/list", {"pageToken": token})).fields == ["pageToken"]
    assert (await ada_at("echo").call("ListTasks", {"pageToken": token})).fields == ["pageToken"]
    assert (await ada_at("echo").call("contexts/list", {"pageSize": 101})).fields == ["pageSize"]


async def test_nobody_in_particular_lists_nothing(worker, anybody_at, public_echo):
    await sent(anybody_at("open-echo"))
    assert await listed(anybody_at("open-echo")) == {"contexts": [], "nextPageToken": ""}


# Clearing


@pytest.fixture
async def conversation(worker, ada_at, echo):
    """Three tasks of Ada's in one conversation, one with a large file, and one elsewhere."""
    tasks = [await sent(ada_at("echo"), contextId="gone") for _ in range(2)]
    tasks.append(await sent(ada_at("echo"), contextId="gone", parts=[{"raw": LARGE, "filename": "big.bin"}]))
    return [*tasks, await sent(ada_at("echo"), contextId="stays")]


async def test_a_cleared_conversation_is_gone_from_everywhere(conversation, ada_at, ada):
    *gone, stays = conversation
    context = await bridge.run(Context.objects.get, context_id="gone")
    assert await bridge.run(lambda: Blob.objects.get().uses) > 0
    part = await bridge.run(lambda: next(iter(Message.objects.exclude(parts__icontains="text"))).parts[0])
    path = reverse("file", args=[context.pk, part["stored"]["sha256"]])
    caller = ada_at("echo")

    async def download():
        return await caller.client.get(path, headers={"Authorization": f"Bearer {caller.key}"})

    assert (await download()).status_code == 200
    assert await cleared(caller, "gone") == {}
    assert [one["contextId"] for one in (await listed(caller))["contexts"]] == ["stays"]
    assert [task["id"] for task in (await caller.call("ListTasks", {})).result["tasks"]] == [stays["id"]]
    assert (await caller.call("ListTasks", {"contextId": "gone"})).result["tasks"] == []
    for task in gone:
        for method in ("GetTask", "CancelTask", "SubscribeToTask"):
            assert (await caller.call(method, {"id": task["id"]})).code == -32001
        assert (await caller.call("tasks/feedback", {"taskId": task["id"], "rating": 1})).code == -32001
        assert (await caller.send(message("more", taskId=task["id"]))).code == -32001
    assert (await download()).status_code == 404
    assert await bridge.run(lambda: Blob.objects.get().uses) == 0
    assert await bridge.run(
        lambda: list(Context.objects.visible_to(ada.principal).values_list("context_id", flat=True))
    ) == ["stays"]


async def test_what_is_left_is_a_tombstone_and_a_log_that_replays(conversation, ada_at):
    context = await bridge.run(Context.objects.get, context_id="gone")
    before = await bridge.run(Event.objects.filter(context=context).count)
    await cleared(ada_at("echo"), "gone")

    def left():
        context.refresh_from_db()
        models = (Task, Message, Artifact, Run)
        return (
            context.deleted_at is not None,
            context.title,
            context.last_event,
            [model.objects.count() for model in models],
            replay.differences(context.pk),
        )

    assert await bridge.run(left) == (True, "", before + 1, [1, 2, 1, 1], [])


async def test_what_runs_there_is_canceled_and_whoever_waits_for_it_is_told(worker, ada_at, stepping):
    caller = ada_at("stepping")
    async with aclosing(caller.stream("SendStreamingMessage", {"message": message("3", contextId="gone")})) as events:
        task = (await anext(events))[1]["task"]
        row = await bridge.run(Task.objects.get, pk=task["id"])
        waiting = asyncio.create_task(settled(row.context_id, row.pk, 1, wire.load_task))
        assert await cleared(caller, "gone") == {}
        rest = [response async for _, response in events]
    assert rest[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"
    with pytest.raises(TaskNotFound):
        await waiting
    assert (await caller.call("GetTask", {"id": task["id"]})).code == -32001
    assert not await bridge.run(Run.objects.exists)


async def test_its_id_begins_another_conversation(conversation, ada_at):
    await cleared(ada_at("echo"), "gone")
    again = await sent(ada_at("echo"), "anew", contextId="gone")
    assert again["contextId"] == "gone"
    assert [text_of(said) for said in again["history"]] == ["anew", "anew"]
    assert [(one["contextId"], one["taskCount"]) for one in (await listed(ada_at("echo")))["contexts"]] == [
        ("gone", 1),
        ("stays", 1),
    ]
    assert await bridge.run(lambda: Task.objects.get(pk=again["id"]).references) == []
    await cleared(ada_at("echo"), "gone")
    assert await bridge.run(Context.objects.exclude(deleted_at=None).count) == 2


async def test_a_message_that_was_sent_there_does_not_run_again(worker, ada_at, echo, greeting):
    for slug in ("echo", "greeting"):
        same = message("hi", contextId=f"gone from {slug}")
        await ada_at(slug).send(same)
        await cleared(ada_at(slug), f"gone from {slug}")
        assert (await ada_at(slug).send(same)).fields == ["messageId"]
    assert await bridge.run(Accepted.objects.count) == 2
    assert not await bridge.run(Message.objects.exists)


async def test_what_is_not_there_cannot_be_cleared(conversation, ada_at, bob_at, quiet):
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
    """The context is found, then cleared by somebody else, then written to."""
    found = []
    opened = ledger.proposing

    def cleared_before(context, *args):
        if not found and context.context_id == "gone":
            found.append(context)
            with ledger.writing(context.pk) as log:
                log.add(EventType.SESSION_DELETED, tombstone_of(log.context))
        return opened(context, *args)

    monkeypatch.setattr(ledger, "proposing", cleared_before)
    again = await sent(ada_at("echo"), "late", contextId="gone")
    assert found
    assert [text_of(said) for said in again["history"]] == ["late", "late"]


async def test_a_worker_that_is_late_writes_nothing_into_a_cleared_conversation(conversation, ada_at):
    context = await bridge.run(Context.objects.get, context_id="gone")
    await cleared(ada_at("echo"), "gone")

    def write():
        with pytest.raises(LeaseLost), ledger.writing(context.pk) as log:
            log.add(EventType.SESSION_RENAMED, {"title": "late"})

    await bridge.run(write)
    events = await bridge.run(feed.read, context.pk, 0)
    assert events[-1].type == EventType.SESSION_DELETED
