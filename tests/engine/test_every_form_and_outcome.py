"""Every outcome on the platform with a real worker; tests/agentkit has all forms."""

import asyncio

import pytest

import db
from apps.engine import send
from apps.record import projection, wire
from apps.record.execution import Run
from apps.record.models import Task
from tests.engine.delegating import until

pytestmark = pytest.mark.django_db(transaction=True)

ENDS = {
    "completed": ("COMPLETED", "done", {"kind": "test"}, None),
    "asking": ("INPUT_REQUIRED", "which?", {"kind": "test"}, None),
    "credential": ("AUTH_REQUIRED", "key?", {"kind": "test"}, None),
    "failed": ("FAILED", "no", {"kind": "test"}, "broken"),
    "rejected": ("REJECTED", "never", {"kind": "test"}, "rejected"),
    "raises failure": ("FAILED", "no", None, "broken"),
    "raises error": ("FAILED", "The agent stopped because of an internal error", None, "agent_error"),
    "wrong type": ("FAILED", "", None, "invalid_agent_response"),
    "text": ("COMPLETED", "words", None, None),
    "dict": ("COMPLETED", "Here is answer.", None, None),
    "state": ("INPUT_REQUIRED", "which?", {"prompt": "which?", "service": "test"}, None),
    "nothing": ("COMPLETED", "Completed without an answer.", None, None),
}


async def ended(ada, agent, message):
    sent = await send.send(ada.principal, agent, message, require_task=True)
    task = await send.wait_until_settled(sent.context, sent.task, sent.index, wire.load_task)
    return task, await db.run(lambda: (Run.objects.get(task=sent.task), projection.differences(sent.context)))


async def test_every_end_is_recorded(ada, agent_at, worker, said):
    agent = await agent_at("tests.engine.forms:function")
    found = await asyncio.gather(*(ended(ada, agent, said(text)) for text in ENDS))
    for (text, (state, words, metadata, code)), (task, (run, differences)) in zip(ENDS.items(), found, strict=True):
        status = task["status"]
        message = status.get("message") or task["history"][-1]
        assert status["state"] == f"TASK_STATE_{state}", text
        assert words in message["parts"][0]["text"], text
        error = {"error": {"code": code}} if code else {}
        told = message["metadata"]
        assert ("slot" in told) is state.endswith("_REQUIRED"), text
        assert {**told, "slot": None} == (metadata or {}) | {"agent": agent.slug, "slot": None} | error, text
        assert bool(task["artifacts"]) is (state == "COMPLETED"), text
        assert state == "REJECTED" or (run.error or {}).get("code") == code, text
        assert differences == []
    assert await db.run(Task.objects.count) == len(ENDS)


async def test_streamed_text_is_the_answer_without_a_return(ada, agent_at, worker, said):
    task, (run, _) = await ended(ada, await agent_at("tests.engine.forms:Forgetting"), said("Good day"))
    assert task["history"][-1]["parts"] == [{"text": "Good day"}]
    assert [one["name"] for one in task["artifacts"]] == ["answer", "log.txt"]
    assert run.notes == []


async def test_nothing_at_all_warns_the_author(ada, agent_at, worker, said, caplog):
    agent = await agent_at("tests.engine.forms:function")
    task, _ = await ended(ada, agent, said("nothing"))
    await until(lambda: "lack a return" in str(Run.objects.get(task=task["id"]).notes))
    assert f"{agent.slug} returned no answer" in caplog.text
