"""Turns of a task: history length, questions and references."""

import pytest

import db
from apps.agents.registration import register_hosted
from apps.record.models import Task
from tests.a2a.calling import message, text_of

pytestmark = pytest.mark.django_db(transaction=True)


def said(task):
    return [text_of(one) for one in task["history"]]


async def test_the_newest_of_the_history_is_shown_in_order(worker, ada_at, asking):
    task = (await ada_at("asking").send(message("hi"), historyLength=1)).result["task"]
    assert said(task) == ["Which word?"]
    answer = message("blue", taskId=task["id"])
    assert "history" not in (await ada_at("asking").send(answer, historyLength=0)).result["task"]
    whole = ["hi", "Which word?", "blue", "It was blue."]

    async def shown(**params):
        return (await ada_at("asking").call("GetTask", {"id": task["id"], **params})).result

    assert said(await shown()) == whole
    for length in (1, 2, 3, 4, 100):
        assert said(await shown(historyLength=length)) == whole[-length:]
    assert "history" not in await shown(historyLength=0)
    streamed = {"message": message("hi"), "configuration": {"historyLength": 0}}
    responses = [response async for _, response in ada_at("asking").stream("SendStreamingMessage", streamed)]
    assert "history" not in responses[0]["task"]


@pytest.mark.parametrize(("text", "state"), [("hi", "INPUT_REQUIRED"), ("sign in", "AUTH_REQUIRED")])
async def test_a_send_waits_no_longer_than_to_a_question_which_is_answered_or_canceled(
    worker, ada_at, asking, text, state
):
    asked, other = [(await ada_at("asking").send(message(text))).result["task"] for _ in range(2)]
    assert asked["status"]["state"] == f"TASK_STATE_{state}"
    assert text_of(asked["status"]["message"])
    assert asked.get("artifacts", []) == []
    answered = (await ada_at("asking").send(message("blue", taskId=asked["id"]))).result["task"]
    assert answered["status"]["state"] == "TASK_STATE_COMPLETED"
    assert answered["contextId"] == asked["contextId"]
    canceled = (await ada_at("asking").call("CancelTask", {"id": other["id"]})).result
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    assert (await ada_at("asking").send(message("late", taskId=other["id"]))).code == -32004


async def test_a_task_refers_to_the_callers_own_tasks_that_are_named_in_their_order(worker, ada_at, bob_at, echo):
    async def sent(caller, **fields):
        return (await caller.send(message("hi", **fields))).result["task"]

    async def references_of(task):
        return await db.run(lambda: Task.objects.get(pk=task["id"]).references)

    first, second = [await sent(ada_at("echo")) for _ in range(2)]
    bobs = await sent(bob_at("echo"))
    named = [second["id"], bobs["id"], "no id", "00000000-0000-0000-0000-000000000000", first["id"]]
    refining = await sent(ada_at("echo"), referenceTaskIds=named)
    assert await references_of(refining) == [second["id"], first["id"]]
    assert refining["history"][0]["referenceTaskIds"] == named, "what was said stays as it was said"
    following = await sent(ada_at("echo"), contextId=first["contextId"])
    assert await references_of(following) == [first["id"]]


async def test_a_task_starts_when_its_dependency_ends(worker, ada_at, asking, echo):
    first = (await ada_at("asking").send(message("hi"))).result["task"]["id"]
    after = {"message": message("go", metadata={"dependsOn": [first]}), "configuration": {"returnImmediately": True}}
    second = (await ada_at("echo").call("SendMessage", after)).result["task"]
    assert (second["status"]["state"], second["metadata"]) == ("TASK_STATE_SUBMITTED", {"dependsOn": [first]})
    stream = ada_at("echo").stream("SubscribeToTask", {"id": second["id"]})
    await anext(stream)
    await ada_at("asking").send(message("blue", taskId=first))
    states = [one["statusUpdate"]["status"]["state"] async for _, one in stream if "statusUpdate" in one]
    assert states == ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]


async def test_a_skill_is_named_in_metadata_and_what_is_unclear_is_answered_by_a_message(ada_at, worker):
    await db.run(register_hosted, "office", "tests.engine.skilled:Office")
    office = ada_at("office")
    answer = await office.send(message("book", metadata={"skillId": "advise"}))
    assert text_of(answer.result["task"]["history"][-1]) == "advise: book"
    answer = await office.send(message("hello"))
    assert text_of(answer.result["message"]).startswith("What would you like?")
    events = [event async for _, event in office.stream("SendStreamingMessage", {"message": message("hello")})]
    assert [list(event) for event in events] == [["message"]]
    assert len((await office.call("ListTasks", {})).result["tasks"]) == 1


async def test_what_a_task_asks_for_is_said_with_its_form(worker, ada_at, countdown):
    sent = {"message": message("20000")}
    asked = [event async for _, event in ada_at("countdown").stream("SendStreamingMessage", sent)]
    slot = asked[-1]["statusUpdate"]["metadata"]["slot"]
    assert (slot["name"], slot["schema"]["maximum"]) == ("start", 10_000)
    answers = [asked[-1]["statusUpdate"], (await ada_at("countdown").send(message("20000"))).result["task"]]
    answers.append((await ada_at("countdown").call("GetTask", {"id": asked[0]["task"]["id"]})).result)
    assert [one["status"]["message"]["metadata"]["slot"] for one in answers] == [slot] * 3
    form = message(taskId=asked[0]["task"]["id"], parts=[{"data": {"start": 1}}])
    assert (await ada_at("countdown").send(form)).result["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
