"""The draft of A2A 1.1 is served to who asks for it, where it is switched on."""

import asyncio
from typing import Any

import pytest

from apps.a2a.versions.v1_1 import generation_of
from parley import db
from tests.a2a.calling import Caller, details_of, message, text_of
from tests.a2a.resting import Resource

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def next_at(ada_key, settings):
    settings.A2A_PREVIEW = True
    return lambda slug: Caller(slug, ada_key, version="1.1")


async def generation_in_log(task: str) -> str:
    return str(await db.run(generation_of, task))


async def asked(caller) -> dict[str, Any]:
    """A task that waits for an answer."""
    return (await caller.send(message("ask me"))).result["task"]


async def test_task_has_its_generation_and_timeline(worker, next_at, ada_at, asking):
    task = await asked(next_at("asking"))
    assert task["generation"] == await generation_in_log(task["id"])
    await next_at("asking").send(message("blue", taskId=task["id"]))
    done = (await next_at("asking").call("GetTask", {"id": task["id"]})).result
    assert int(done["generation"]) > int(task["generation"])
    places = [int(entry["generation"]) for entry in done["timeline"]]
    assert places == sorted(set(places))
    assert places[-1] == int(done["generation"])
    said = [text_of(entry["message"]) for entry in done["timeline"] if "message" in entry]
    states = [entry["status"]["state"].removeprefix("TASK_STATE_") for entry in done["timeline"] if "status" in entry]
    assert said == ["ask me", "blue"]
    assert [state for state in states if state != "WORKING"] == ["INPUT_REQUIRED", "COMPLETED"]
    for artifact in done["artifacts"]:
        assert 0 < int(artifact["startGeneration"]) <= int(artifact["endGeneration"]) <= int(done["generation"])
    short = (await next_at("asking").call("GetTask", {"id": task["id"], "timelineLength": 1})).result
    assert short["timeline"] == done["timeline"][-1:]
    [listed] = (await next_at("asking").call("ListTasks", {})).result["tasks"]
    assert listed["generation"] == done["generation"]
    now = (await ada_at("asking").call("GetTask", {"id": task["id"]})).result
    assert not {"generation", "timeline"} & now.keys()


async def test_client_waits_for_a_newer_task(worker, next_at, asking, settings):
    task = await asked(next_at("asking"))
    known = {"id": task["id"], "currentGeneration": task["generation"]}
    older = {**known, "currentGeneration": int(task["generation"]) - 1}
    assert (await next_at("asking").call("GetTask", older)).result["generation"] == task["generation"]
    waiting = asyncio.ensure_future(next_at("asking").call("GetTask", known))
    await next_at("asking").send(message("blue", taskId=task["id"]))
    newer = (await waiting).result
    assert int(newer["generation"]) > int(task["generation"])
    ended = (await next_at("asking").call("GetTask", {"id": task["id"]})).result
    over = {"id": task["id"], "currentGeneration": ended["generation"]}
    assert (await next_at("asking").call("GetTask", over)).result == ended, "nothing more happens to it"
    settings.A2A_POLL_SECONDS = 0.01
    again = await asked(next_at("asking"))
    same = {"id": again["id"], "currentGeneration": again["generation"]}
    assert (await next_at("asking").call("GetTask", same)).result["generation"] == again["generation"]


async def test_write_to_a_changed_task_is_refused(worker, next_at, ada_key, asking):
    task = await asked(next_at("asking"))
    current, stale = int(task["generation"]), int(task["generation"]) - 1
    answer = await next_at("asking").send(message("blue", taskId=task["id"]), ifGenerationMatch=stale)
    assert (answer.status, answer.code, answer.reason) == (200, -32010, "TASK_GENERATION_MISMATCH")
    [about] = details_of(answer.details, "ErrorInfo")
    expected = {"taskId": task["id"], "expectedGeneration": str(stale), "currentGeneration": str(current)}
    assert about["metadata"] == expected
    refused = await next_at("asking").call("CancelTask", {"id": task["id"], "ifGenerationMatch": stale})
    assert refused.code == -32010
    rest = Resource("asking", ada_key, version="1.1")
    over_http = await rest.ask("POST", f"tasks/{task['id']}:cancel", {"ifGenerationMatch": str(stale)})
    assert (over_http.status, over_http.reason) == (409, "TASK_GENERATION_MISMATCH")
    assert await generation_in_log(task["id"]) == task["generation"], "nothing was recorded"
    answered = message("blue", taskId=task["id"])
    settled = await next_at("asking").send(answered, ifGenerationMatch=current)
    assert settled.result["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    repeated = await next_at("asking").send(answered, ifGenerationMatch=current)
    assert repeated.result["task"]["id"] == task["id"], "it was accepted then"
    other = await asked(next_at("asking"))
    canceled = {"id": other["id"], "ifGenerationMatch": other["generation"]}
    assert (await next_at("asking").call("CancelTask", canceled)).result["status"]["state"] == "TASK_STATE_CANCELED"


@pytest.mark.services("a generation is checked under the lock of the context")
async def test_one_of_two_writes_on_a_generation_counts(next_at, echo):
    task = (await next_at("echo").send(message(), returnImmediately=True)).result["task"]
    expected = {"ifGenerationMatch": task["generation"], "returnImmediately": True}
    both = [next_at("echo").send(message(text, taskId=task["id"]), **expected) for text in ("one", "two")]
    answers = await asyncio.gather(*both)
    assert sorted("result" in answer.body for answer in answers) == [False, True]
    assert [answer.code for answer in answers if "error" in answer.body] == [-32010]


async def test_events_and_questions_have_generations(worker, next_at, echo, asking):
    context = (await next_at("echo").send(message("before"))).result["task"]["contextId"]
    stream = next_at("echo").stream("SendStreamingMessage", {"message": message("hi", contextId=context)})
    events = [body async for _, event in stream for body in event.values()]
    assert [body["generation"] for body in events] == ["1", "2", "3", "4"]
    shown = (await next_at("echo").call("GetTask", {"id": events[0]["id"]})).result
    assert shown["generation"] == events[-1]["generation"]
    task = await asked(next_at("asking"))
    question = {"id": task["status"]["message"]["messageId"], "metadata": {"slot": "word"}}
    assert task["elicitations"] == [{**question, "state": "ELICITATION_STATE_BLOCKED"}]
    stream = next_at("asking").stream("SubscribeToTask", {"id": task["id"]})
    first = await anext(stream)
    done = (await next_at("asking").send(message("blue", taskId=task["id"]))).result["task"]
    assert done["elicitations"] == [{**question, "state": "ELICITATION_STATE_RESOLVED"}]
    rest = [body async for _, event in stream for body in event.values()]
    assert first[1]["task"]["generation"] == task["generation"] == "3"
    assert [body["generation"] for body in rest] == ["5", "6", "7"], "the answer is the fourth"
