"""An agent that cannot be reached: nothing was sent, so another may do it, and a question stays one."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import bridge
from apps.agents.models import Agent
from apps.gateway import breaker
from apps.gateway.errors import Unreachable
from tests.gateway.conversing import Talk, delivered, is_whole, remote_agent, run_of, words
from tests.gateway.scripted import Scripted, events, serving, task
from tests.stack import free_port

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker", "outward")]


@pytest.fixture(autouse=True)
def quick(settings):
    settings.REMOTE_RETRY_SECONDS = 0.5


@pytest.fixture
def agent() -> Iterator[Scripted]:
    with serving() as scripted:
        yield scripted


@pytest.fixture
def nobody(ada) -> Talk:
    """An agent at whose address nobody listens."""
    scripted = Scripted()
    scripted.url = f"http://127.0.0.1:{free_port()}/"
    return Talk(ada, remote_agent(scripted.card()))


async def test_that_nobody_is_there_is_told(nobody):
    failed = await nobody.ask()
    assert failed.state == "failed"
    assert "127.0.0.1" in words(failed)
    assert (await bridge.run(run_of, failed)).error["code"] == "agent_unreachable"


async def test_a_fallback_answers_what_nobody_took(nobody, echo):
    await bridge.run(Agent.objects.filter(pk=nobody.agent.pk).update, fallbacks=["echo"])
    done = await nobody.ask("hello there")
    assert done.state == "completed"
    assert await bridge.run(delivered, done) == {"answer": "hello there"}
    run = await bridge.run(run_of, done)
    assert run.agent_id == echo.pk
    assert "sent" not in run.input
    assert await bridge.run(is_whole, done)


async def test_a_remote_fallback_is_sent_a_snapshot_of_its_own(nobody, agent):
    agent.sent = events({"task": task("COMPLETED")})
    agent.is_at("COMPLETED", "I am here.")
    other = await bridge.run(remote_agent, agent.card(), "other")
    await bridge.run(Agent.objects.filter(pk=nobody.agent.pk).update, fallbacks=["other"])
    done = await nobody.ask()
    assert words(done) == "I am here."
    run = await bridge.run(run_of, done)
    assert run.remote["agent"] == other.pk
    assert run.input["agent"]["sha256"] == other.current_version.sha256
    assert len(agent.sends) == 1


async def test_a_question_whose_agent_is_away_stays_one(agent, ada):
    talk = Talk(ada, await bridge.run(remote_agent, agent.card()))
    agent.sent = events({"task": task("INPUT_REQUIRED", "Which?")})
    agent.is_at("INPUT_REQUIRED", "Which?")
    asked = await talk.ask()
    for _ in range(5):
        await bridge.run(breaker.failed, talk.agent, Unreachable("Nobody is there."))
    again = await talk.ask("green", task=asked)
    assert again.state == "input-required"
    assert "send it again later" in words(again)
    await bridge.run(breaker.close, talk.agent)
    agent.sent = events({"task": task("COMPLETED")})
    agent.is_at("COMPLETED", "Green it is.")
    assert words(await talk.ask("green", task=asked)) == "Green it is."
    assert [message.get("taskId") for message in agent.sends] == [None, "t1"]


async def test_the_trace_goes_out_with_every_call(agent, ada):
    talk = Talk(ada, await bridge.run(remote_agent, agent.card()))
    agent.sent = events({"task": task("COMPLETED")})
    agent.is_at("COMPLETED", "Done.")
    done = await talk.ask()
    trace = (await bridge.run(run_of, done)).traceparent.split("-")[1]
    assert re.fullmatch(f"00-{trace}-[0-9a-f]{{16}}-[0-9a-f]{{2}}", agent.headers["traceparent"])
