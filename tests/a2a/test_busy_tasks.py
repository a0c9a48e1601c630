"""Messages to a working task follow its agent's policy."""

from contextlib import aclosing

import pytest

import db
from apps.record import projection
from apps.record.execution import Run
from apps.record.models import Message, Task
from tests.a2a.agents import steps
from tests.a2a.calling import message, text_of
from tests.engine.delegating import until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("messages meet turns in the database")]


@pytest.fixture
async def busy(worker, ada_at, stepping):
    async with aclosing(ada_at("stepping").stream("SendStreamingMessage", {"message": message("2")})) as events:
        task = (await anext(events))[1]["task"]
        while (await anext(events))[1].get("statusUpdate", {}).get("status", {}).get("state") != "TASK_STATE_WORKING":
            pass
        yield task, events
        steps.allow(100)


async def policy(agent, on_busy):
    agent.on_busy = on_busy
    await agent.asave()


async def texts_of(task_id):
    rows = await db.run(lambda: list(Message.objects.filter(task=task_id).order_by("index")))
    return ["".join(part["text"] for part in row.parts) for row in rows]


async def state_of(task_id):
    return await db.run(lambda: Task.objects.get(pk=task_id).state)


async def test_a_message_becomes_the_next_turn_before_the_task_ends(busy, ada_at):
    task, events = busy
    queued = (await ada_at("stepping").send(message("1", taskId=task["id"]), returnImmediately=True)).result["task"]
    assert queued["id"] == task["id"]
    assert queued["status"]["state"] == "TASK_STATE_WORKING"
    steps.allow(100)
    rest = [response async for _, response in events]
    assert rest[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [text for text in await texts_of(task["id"]) if text != "nearly there"] == ["2", "1", "end", "end"]
    row = await db.run(Task.objects.get, pk=task["id"])
    assert await db.run(projection.differences, row.context_id) == []
    answer = await ada_at("stepping").send(message("1", taskId=task["id"]))
    assert (answer.code, answer.reason) == (-32004, "UNSUPPORTED_OPERATION"), "it is done"


async def test_a_message_is_refused_and_not_kept_where_the_agent_takes_none_while_it_works(busy, ada_at, stepping):
    await policy(stepping, "reject")
    task, _ = busy
    for method in ("SendMessage", "SendStreamingMessage"):
        answer = await ada_at("stepping").call(method, {"message": message("1", taskId=task["id"])})
        assert (answer.code, answer.reason) == (-32004, "UNSUPPORTED_OPERATION")
    assert await texts_of(task["id"]) == ["2"]
    assert await state_of(task["id"]) == "working"


async def test_a_message_stops_the_turn_and_follows_it_where_the_agent_says_so(busy, ada_at, stepping):
    await policy(stepping, "interrupt")
    task, events = busy
    sent = {"message": message("1", taskId=task["id"])}
    async with aclosing(ada_at("stepping").stream("SendStreamingMessage", sent)) as following:
        first = (await anext(following))[1]["task"]
        assert (first["id"], first["status"]["state"]) == (task["id"], "TASK_STATE_WORKING")
        await until(Run.objects.filter(task=task["id"], turn=2, state=Run.State.RUNNING).exists)
        steps.allow(100)
        rest = [response async for _, response in events]
        assert [response async for _, response in following][-1] == rest[-1]
    done = (await ada_at("stepping").call("GetTask", {"id": task["id"]})).result
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [text_of(artifact) for artifact in done["artifacts"]] == ["1\n", "1 lines"], "the first turn was cut off"
