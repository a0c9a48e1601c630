"""Turns of a task: how much of its history is shown, what it asks for, and what it refers to."""

import pytest

import bridge
from apps.conversations.models import Task
from tests.a2a.calling import message, text_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def talked(worker, ada_at, asking):
    """A finished task of four turns of talk: a question, a question back, an answer, an end."""
    task = (await ada_at("asking").send(message("hi"))).result["task"]
    await ada_at("asking").send(message("blue", taskId=task["id"]))
    return task["id"]


def said(task):
    return [text_of(one) for one in task["history"]]


async def test_the_newest_of_the_history_is_shown_in_order(talked, ada_at):
    whole = ["hi", "Which word?", "blue", "It was blue."]

    async def shown(**params):
        return (await ada_at("asking").call("GetTask", {"id": talked, **params})).result

    assert said(await shown()) == whole
    for length in (1, 2, 3, 4, 100):
        assert said(await shown(historyLength=length)) == whole[-length:]
    assert "history" not in await shown(historyLength=0)


async def test_a_send_shows_as_much_history_as_was_asked_for(worker, ada_at, asking):
    sent = (await ada_at("asking").send(message("hi"), historyLength=1)).result["task"]
    assert said(sent) == ["Which word?"]
    answer = message("blue", taskId=sent["id"])
    assert "history" not in (await ada_at("asking").send(answer, historyLength=0)).result["task"]
    streamed = {"message": message("hi"), "configuration": {"historyLength": 0}}
    responses = [response async for _, response in ada_at("asking").stream("SendStreamingMessage", streamed)]
    assert "history" not in responses[0]["task"]


@pytest.mark.parametrize(("text", "state"), [("hi", "INPUT_REQUIRED"), ("sign in", "AUTH_REQUIRED")])
async def test_a_send_waits_no_longer_than_to_a_question(worker, ada_at, asking, text, state):
    asked = (await ada_at("asking").send(message(text))).result["task"]
    assert asked["status"]["state"] == f"TASK_STATE_{state}"
    assert text_of(asked["status"]["message"])
    assert asked.get("artifacts", []) == []
    answered = (await ada_at("asking").send(message("blue", taskId=asked["id"]))).result["task"]
    assert answered["status"]["state"] == "TASK_STATE_COMPLETED"
    assert answered["contextId"] == asked["contextId"]


@pytest.mark.parametrize("text", ["hi", "sign in"])
async def test_a_question_that_nobody_answers_can_be_canceled(worker, ada_at, asking, text):
    asked = (await ada_at("asking").send(message(text))).result["task"]
    canceled = (await ada_at("asking").call("CancelTask", {"id": asked["id"]})).result
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    assert (await ada_at("asking").send(message("late", taskId=asked["id"]))).code == -32004


async def references_of(task):
    return await bridge.run(lambda: Task.objects.get(pk=task["id"]).references)


async def test_a_task_refers_to_the_callers_own_tasks_that_are_named_in_their_order(worker, ada_at, bob_at, echo):
    async def sent(caller, **fields):
        return (await caller.send(message("hi", **fields))).result["task"]

    first, second = [await sent(ada_at("echo")) for _ in range(2)]
    bobs = await sent(bob_at("echo"))
    named = [second["id"], bobs["id"], "no id", "00000000-0000-0000-0000-000000000000", first["id"]]
    refining = await sent(ada_at("echo"), referenceTaskIds=named)
    assert await references_of(refining) == [second["id"], first["id"]]
    assert refining["history"][0]["referenceTaskIds"] == named, "what was said stays as it was said"


async def test_a_task_that_follows_another_in_its_context_refers_to_it(worker, ada_at, echo):
    first = (await ada_at("echo").send(message("hi"))).result["task"]
    second = (await ada_at("echo").send(message("more", contextId=first["contextId"]))).result["task"]
    assert await references_of(second) == [first["id"]]
