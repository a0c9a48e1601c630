"""A caller sees its own. Somebody else's task is not found, with the same words as one that never was."""

import asyncio
import uuid

import pytest

import bridge
from apps.conversations.models import Context, Task
from tests.a2a.calling import message

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def adas(worker, ada_at, echo):
    """A finished task of Ada's."""
    return (await ada_at("echo").send(message("secret", contextId="mine"))).result["task"]


@pytest.fixture
async def adas_running(worker, ada_at, countdown):
    """A task of Ada's that goes on."""
    sent = await ada_at("countdown").send(message("2000"), returnImmediately=True)
    yield sent.result["task"]
    await ada_at("countdown").call("CancelTask", {"id": sent.result["task"]["id"]})


def everything_about(task_id):
    """Each method with each field that names a task."""
    return [
        ("GetTask", {"id": task_id}),
        ("CancelTask", {"id": task_id}),
        ("SubscribeToTask", {"id": task_id}),
        ("SendMessage", {"message": message("mine too", taskId=task_id)}),
        ("SendStreamingMessage", {"message": message("mine too", taskId=task_id)}),
        ("CreateTaskPushNotificationConfig", {"taskId": task_id, "url": "https://hooks.invalid/hook"}),
        ("GetTaskPushNotificationConfig", {"taskId": task_id, "id": "hook"}),
        ("ListTaskPushNotificationConfigs", {"taskId": task_id}),
        ("DeleteTaskPushNotificationConfig", {"taskId": task_id, "id": "hook"}),
    ]


async def test_somebody_elses_task_is_not_found(adas, adas_running, bob_at, subtests):
    unknown = str(uuid.uuid4())
    for slug, theirs in (("echo", adas["id"]), ("countdown", adas_running["id"])):
        for (method, params), (_, of_nothing) in zip(everything_about(theirs), everything_about(unknown), strict=True):
            with subtests.test(f"{method} at {slug}"):
                answer = await bob_at(slug).call(method, params)
                assert answer.code == -32001
                assert answer.body == (await bob_at(slug).call(method, of_nothing)).body


async def test_a_webhook_of_somebody_elses_task_stays_as_it_is(adas, ada_at, bob_at):
    about = {"taskId": adas["id"], "id": "hook"}
    made = (
        await ada_at("echo").call("CreateTaskPushNotificationConfig", about | {"url": "https://hooks.invalid/a"})
    ).result
    for method in ("Create", "Get", "Delete"):
        refused = await bob_at("echo").call(
            f"{method}TaskPushNotificationConfig", about | {"url": "https://hooks.invalid/b"}
        )
        assert refused.code == -32001
    assert (await ada_at("echo").call("GetTaskPushNotificationConfig", about)).result == made


async def test_somebody_elses_context_does_not_show(adas, bob_at):
    listed = (await bob_at("echo").call("ListTasks", {"contextId": "mine"})).result
    assert listed["tasks"] == []
    assert listed["totalSize"] == 0
    assert (await bob_at("echo").call("ListTasks", {})).result["tasks"] == []


async def test_two_callers_may_use_the_same_context_id(adas, ada_at, bob_at):
    bobs = (await bob_at("echo").send(message("hi", contextId="mine"))).result["task"]
    assert bobs["contextId"] == "mine"
    assert len(bobs["history"]) == 2
    again = (await ada_at("echo").send(message("more", contextId="mine"))).result["task"]
    listed = (await ada_at("echo").call("ListTasks", {"contextId": "mine"})).result["tasks"]
    assert [task["id"] for task in listed] == [again["id"], adas["id"]]


async def test_a_reference_to_somebody_elses_task_leads_nowhere(adas, bob_at):
    sent = (await bob_at("echo").send(message("hi", referenceTaskIds=[adas["id"]]))).result["task"]
    row = await bridge.run(Task.objects.get, pk=sent["id"])
    assert row.references == []


async def test_an_agents_endpoint_shows_only_that_agents_tasks(adas, adas_running, ada_at):
    assert (await ada_at("countdown").call("GetTask", {"id": adas["id"]})).code == -32001
    assert (await ada_at("countdown").call("CancelTask", {"id": adas["id"]})).code == -32001
    listed = (await ada_at("echo").call("ListTasks", {})).result["tasks"]
    assert [task["id"] for task in listed] == [adas["id"]]


async def test_anybody_reaches_a_task_at_an_open_agent_by_its_id_alone(worker, anybody_at, ada_at, public_echo):
    anybody = anybody_at("open-echo")
    task = (await anybody.send(message("hi"))).result["task"]
    assert (await anybody.call("GetTask", {"id": task["id"]})).result == task
    listed = (await anybody.call("ListTasks", {})).result
    assert listed == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}
    assert (await ada_at("open-echo").call("GetTask", {"id": task["id"]})).code == -32001


async def test_what_anybody_calls_a_context_is_not_shared(worker, anybody_at, public_echo):
    anybody = anybody_at("open-echo")
    both = await asyncio.gather(
        *(anybody.send(message("hi", contextId="ours")) for _ in range(2)), return_exceptions=True
    )
    assert [answer.result["task"]["contextId"] for answer in both] == ["ours", "ours"]
    assert await bridge.run(Context.objects.filter(context_id="ours").count) == 2


async def test_anybody_continues_a_conversation_by_the_id_that_it_was_given(worker, anybody_at, public_echo):
    anybody = anybody_at("open-echo")
    given = (await anybody.send(message("hi"))).result["task"]["contextId"]
    assert (await anybody.send(message("more", contextId=given))).result["task"]["contextId"] == given
    assert await bridge.run(Context.objects.count) == 1


async def test_anybodys_message_is_not_remembered(worker, anybody_at, public_echo):
    same = message("hi")
    first, second = [(await anybody_at("open-echo").send(same)).result["task"]["id"] for _ in range(2)]
    assert first != second
