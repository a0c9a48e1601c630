"""Agents with language models: events in the record, usage on the run."""

import asyncio

import pytest
from django.core.exceptions import ImproperlyConfigured

from agentkit.llm import LlmFunction
from apps.agents.registration import register_hosted
from apps.engine import accept, cancel
from apps.engine.send import send
from apps.model_agents import language_models
from apps.record import projection, wire
from apps.record.execution import Run
from apps.record.models import Event, Task
from parley import db, outbound
from tests.engine.delegating import done, words
from tests.model_agents.conftest import KEY
from tests.model_agents.endpoint import calls, hangs, refuses, says
from tests.working import carry_out

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ask(ada, said, worker):
    """Sends to an agent of this folder; returns the task."""

    async def until_settled(name: str, text: str = "hello", **fields) -> Task:
        agent = await db.run(register_hosted, name.lower(), f"tests.model_agents.agents:{name}")
        return await done(ada.principal, agent, said(text, **fields))

    return until_settled


def told(task: Task) -> dict:
    return {event.type: event.payload for event in Event.objects.filter(task=task).order_by("index")}


async def test_words_tools_and_usage_are_recorded(endpoint, ask):
    endpoint.replies = [calls(("double", {"number": 4}), text="Let me see."), says("It is ", "8.")]
    task = await ask("Helper", "Twice four?")
    events, run = await db.run(told, task), await db.run(Run.objects.get, task=task)
    assert task.state == "completed"
    call = events["agent_tool_call"]
    assert (call["name"], call["arguments"]) == ("double", {"number": 4})
    assert events["agent_tool_result"] == {"callId": call["callId"], "name": "double", "result": 8, "isError": False}
    counts = {"requests": 2, "inputTokens": 40, "outputTokens": 10}
    assert run.usage == events["agent_complete"]["usage"] == {**counts, "models": {"test-model": counts}}
    shown = await db.run(lambda: wire.load_task(Task.objects.select_related("context").get(pk=task.pk)))
    (artifact,) = shown["artifacts"]
    assert [part["text"] for part in artifact["parts"]] == ["Let me see.\n\nIt is 8."]
    assert shown["history"][-1]["metadata"]["models"] == ["test-model"]
    assert await db.run(projection.differences, task.context_id) == []


async def test_a_message_names_its_model(endpoint, ada, said, settings, ask):
    agent = await db.run(register_hosted, "greeter", "tests.model_agents.agents:Greeter")
    for finish, more in (("stop", {}), ("length", {"finishReason": "length"})):
        endpoint.replies = [says("Good day.", finish=finish)]
        answered = (await send(ada.principal, agent, said())).answer
        assert answered["parts"] == [{"text": "Good day."}]
        assert answered["metadata"] == {"models": ["test-model"], "agent": "greeter", **more}
    settings.LLM_MODEL = ""
    answered = (await send(ada.principal, agent, said())).answer
    assert "LLM_MODEL" in answered["parts"][0]["text"]
    assert answered["metadata"]["error"] == {"code": "no_model"}
    task = await ask("Helper")
    assert (task.state, "LLM_MODEL" in words(task)) == ("failed", True)
    assert (await db.run(told, task))["agent_failed"]["code"] == "no_model"


async def test_nobody_is_shown_the_key(endpoint, ask):
    endpoint.replies = [refuses(401, f"Incorrect API key provided: {KEY}")]
    task = await ask("Helper")
    run = await db.run(Run.objects.get, task=task)
    assert run.error["code"] == "model_key"
    assert "Incorrect API key provided: ***" in run.error["detail"]
    log = await db.run(lambda: str(list(Event.objects.values_list("payload", flat=True))))
    assert "Incorrect API key" not in log
    assert KEY not in log + str(run.error)


async def test_a_stop_cuts_requests_and_keeps_usage(endpoint, ada, said):
    endpoint.replies = [calls(("double", {"number": 4})), hangs("It ")]
    agent = await db.run(register_hosted, "helper", "tests.model_agents.agents:Helper")
    receipt = await db.run(accept.accept, ada.principal, agent, said())
    work = asyncio.create_task(carry_out(receipt.run))
    assert await asyncio.to_thread(endpoint.hanging.wait, 20)
    await db.run(cancel.cancel_by_id, ada.principal, agent, str(receipt.task))
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert await asyncio.to_thread(endpoint.hung_up.wait, 10)
    run = await db.run(Run.objects.get, pk=receipt.run)
    assert run.state == Run.State.CANCELED
    assert run.usage["models"]["test-model"]["inputTokens"] == 20


async def test_a_models_private_address_opens_nothing_else(endpoint, settings):
    for url in (endpoint.url, endpoint.url.replace("127.0.0.1", "localhost")):
        settings.LLM_BASE_URL = url
        endpoint.replies = [says("Here.")]
        assert await LlmFunction("Help.")(None, "x") == "Here."
    with pytest.raises(outbound.Forbidden):
        outbound.guard().check(endpoint.url)
    for url in ("models.internal", "ftp://models.internal", "http://user:secret@models.internal/v1"):
        settings.LLM_BASE_URL = url
        with pytest.raises(ImproperlyConfigured, match="LLM_BASE_URL: Must") as refused:
            language_models.configure()
        assert "secret" not in str(refused.value)
