"""The Assistant answers whatever it is asked, with and without a language model."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit.content.messages import raw_part
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.record.models import Context, Message, Task
from apps.routing.router import register_house_agents
from parley import db
from tests.engine.delegating import done, words
from tests.model_agents import endpoint as endpoints
from tests.model_agents.endpoint import calls, says

pytestmark = pytest.mark.django_db(transaction=True)

QUESTIONS = ("What is the capital of France?", "Hello, what can you do?")


@pytest.fixture
def ask(ada, said, worker, echo):
    """Sends to an agent, and returns the ended task."""
    register_house_agents()
    register_hosted("report", "examples.report.agent:Report")

    async def until_settled(text: str, slug: str = "assistant", **fields: Any) -> Task:
        agent = await db.run(Agent.objects.get, slug=slug)
        return await done(ada.principal, agent, said(text, **fields))

    return until_settled


def author_of(task: Task) -> str:
    return Message.objects.select_related("agent").get(task=task, role=Message.Role.AGENT).agent.slug


@pytest.mark.parametrize("slug", ["assistant", "router"])
async def test_anything_is_answered_with_and_without_a_model(ask, slug, settings):
    for question in QUESTIONS:
        task = await ask(question, slug)
        assert task.state == "completed"
        metadata = task.status_message["metadata"]
        assert "report" in [one["agent"] for one in metadata["suggestions"]]
        assert metadata["noModel"]
    session = await db.run(Context.objects.get, pk=task.context_id)
    with endpoints.running() as running:
        settings.LLM_MODEL, settings.LLM_BASE_URL = "test-model", running.url
        for question in QUESTIONS:
            running.replies = [says("The model ", "says.")]
            task = await ask(question, slug, contextId=session.context_id)
            assert (task.state, words(task)) == ("completed", "The model says.")
    assert task.context_id == session.pk, "a session goes on by the model once it is connected"


async def test_without_a_model_it_calculates(ask):
    for text, result in (
        ("What is (17 + 4) * 2?", "42"),
        ("What time is it in Asia/Tokyo?", "Asia/Tokyo"),
        ("What is 1/0?", "zero"),
    ):
        assert result in words(await ask(text))


async def test_an_agents_own_words_stay_that_agents(ask, endpoint):
    task = await ask("@echo Hi")
    assert (words(task), await db.run(author_of, task)) == ("@echo Hi", "echo")
    assert endpoint.requests == []
    endpoint.replies = [calls(("ask_echo", {"message": "Word for word."})), says("Word for word.")]
    task = await ask("say it")
    assert (words(task), await db.run(author_of, task)) == ("Word for word.", "echo")
    assert [one.name for one in await db.run(lambda: list(task.artifacts.all()))] == ["answer"]


async def test_the_model_calls_its_callers_agents(ask, endpoint):
    await db.run(register_hosted, "club", "examples.agents.echo:Echo", access=Agent.Access.GROUPS)
    endpoint.replies = [calls(("ask_echo", {"message": "Give this back", "files": ["a.csv"]})), says("Here it is.")]
    message = {"parts": [{"text": "echo my table"}, raw_part(b"a,b\n1,2\n", "a.csv", "text/csv")]}
    task = await ask("", **message)
    assert (words(task), await db.run(author_of, task)) == ("Here it is.", "assistant")
    assert [one.name for one in await db.run(lambda: list(task.artifacts.all()))] == ["answer", "a.csv"]
    offered = {tool["function"]["name"] for tool in endpoint.requests[0]["tools"]}
    assert {"ask_echo", "ask_report", "read_file", "calculate", "current_time"} <= offered
    assert offered.isdisjoint({"ask_club", "ask_router", "ask_assistant"})


WISHES = {"client": {"output": {"name": "place", "schema": {"type": "object"}}}}


async def test_a_clients_form_needs_a_model(ask, endpoint, settings):
    endpoint.replies = [calls(("final_result", {"sum": 21}))]
    assert words(await ask("What is 17 + 4?", metadata=WISHES)) == '{"sum": 21}'
    settings.LLM_MODEL = ""
    task = await ask("What is 17 + 4?", metadata=WISHES)
    assert (task.state, task.status_message["metadata"]["error"]["code"]) == ("failed", "no_model")
