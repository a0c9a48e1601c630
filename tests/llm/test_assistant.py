"""The Assistant answers whatever it is asked, with and without a language model."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import db
from agentkit.messages import raw_part
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.engine.send import send, wait_until_settled
from apps.features.routing.router import register_house_agents
from apps.record import wire
from apps.record.models import Message, Task
from tests.llm import endpoint as endpoints
from tests.llm.endpoint import Endpoint, calls, says

pytestmark = pytest.mark.django_db(transaction=True)

QUESTIONS = ("What is the capital of France?", "Tell me a joke", "Hello, what can you do?")


@pytest.fixture
def ask(ada, said, worker, echo):
    """Sends to an agent, and returns the ended task."""
    register_house_agents()
    register_hosted("report", "examples.report.agent:Report")

    async def until_settled(text: str, slug: str = "assistant", **fields: Any) -> Task:
        agent = await db.run(Agent.objects.get, slug=slug)
        receipt = await send(ada.principal, agent, said(text, **fields))
        async with asyncio.timeout(30):
            await wait_until_settled(receipt.context, receipt.task, receipt.index, wire.load_task)
        return await db.run(Task.objects.select_related("context").get, pk=receipt.task)

    return until_settled


def text_of(task: Task) -> str:
    return "\n".join(part["text"] for part in task.status_message["parts"])


def author_of(task: Task) -> str:
    return Message.objects.select_related("agent").get(task=task, role=Message.Role.AGENT).agent.slug


@pytest.mark.parametrize("slug", ["assistant", "router"])
async def test_without_a_model_anything_gets_a_friendly_answer(ask, slug):
    for question in QUESTIONS:
        task = await ask(question, slug)
        assert task.state == "completed"
        metadata = task.status_message["metadata"]
        assert "report" in [one["agent"] for one in metadata["suggestions"]]
        assert metadata["noModel"]


@pytest.mark.parametrize("slug", ["assistant", "router"])
async def test_with_a_model_the_model_answers(ask, slug, endpoint: Endpoint):
    for question in QUESTIONS:
        endpoint.replies = [says("The model ", "says.")]
        task = await ask(question, slug)
        assert (task.state, text_of(task)) == ("completed", "The model says.")


async def test_a_session_goes_on_by_the_model_once_it_is_connected(ask, settings):
    first = await ask("Tell me a joke")
    with endpoints.running() as running:
        settings.LLM_MODEL, settings.LLM_BASE_URL = "test-model", running.url
        running.replies = [says("A joke.")]
        second = await ask("Tell me a joke", contextId=first.context.context_id)
    assert (second.context_id, text_of(second)) == (first.context_id, "A joke.")


async def test_without_a_model_it_calculates_and_tells_the_time(ask):
    for text, result in (
        ("What is (17 + 4) * 2?", "42"),
        ("What time is it in Asia/Tokyo?", "Asia/Tokyo"),
        ("What is 1/0?", "zero"),
    ):
        assert result in text_of(await ask(text))


async def test_an_agent_that_is_named_answers_in_its_own_name(ask, endpoint: Endpoint):
    task = await ask("@echo Hi")
    assert (text_of(task), await db.run(author_of, task)) == ("@echo Hi", "echo")
    assert endpoint.requests == []


async def test_the_model_calls_the_agents_that_its_caller_may_use(ask, endpoint: Endpoint):
    await db.run(register_hosted, "club", "examples.agents.echo:Echo", access=Agent.Access.GROUPS)
    endpoint.replies = [calls(("ask_echo", {"message": "Give this back", "files": ["a.csv"]})), says("Here it is.")]
    message = {"parts": [{"text": "echo my table"}, raw_part(b"a,b\n1,2\n", "a.csv", "text/csv")]}
    task = await ask("", **message)
    assert (text_of(task), await db.run(author_of, task)) == ("Here it is.", "assistant")
    assert [one.name for one in await db.run(lambda: list(task.artifacts.all()))] == ["answer", "a.csv"]
    offered = {tool["function"]["name"] for tool in endpoint.requests[0]["tools"]}
    assert {"ask_echo", "ask_report", "read_file", "calculate", "current_time"} <= offered
    assert offered.isdisjoint({"ask_club", "ask_router", "ask_assistant"})


async def test_an_agents_words_that_the_model_repeats_stay_that_agents(ask, endpoint: Endpoint):
    endpoint.replies = [calls(("ask_echo", {"message": "Word for word."})), says("Word for word.")]
    task = await ask("say it")
    assert (text_of(task), await db.run(author_of, task)) == ("Word for word.", "echo")
    assert [one.name for one in await db.run(lambda: list(task.artifacts.all()))] == ["answer"]


WISHES = {"client": {"output": {"name": "place", "schema": {"type": "object"}}}}


async def test_an_answer_of_a_form_needs_a_model(ask):
    task = await ask("What is 17 + 4?", metadata=WISHES)
    assert task.state == "failed"
    assert task.status_message["metadata"]["error"]["code"] == "no_model"


async def test_it_answers_in_a_clients_form(endpoint: Endpoint, ask):
    endpoint.replies = [calls(("final_result", {"sum": 21}))]
    assert text_of(await ask("What is 17 + 4?", metadata=WISHES)) == '{"sum": 21}'
