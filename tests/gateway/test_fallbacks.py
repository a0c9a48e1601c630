"""A remote agent that cannot be reached: a fallback of any kind takes the turn, and what is said is the fallback's."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

import bridge
from apps.agents.models import Agent
from apps.conversations.models import Message
from apps.conversations.switching import switch
from apps.gateway import breaker
from apps.gateway.errors import Unreachable
from tests.gateway.card_server import card as card_at
from tests.gateway.conversing import Talk, is_whole, remote_agent, run_of, words
from tests.gateway.peers.starting import running
from tests.stack import free_port

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker", "outward")]


@pytest.fixture(autouse=True)
def _soon(settings) -> None:
    settings.REMOTE_RETRY_SECONDS = 0.3


@pytest.fixture(scope="module")
def peer() -> Iterator[dict]:
    with running("tests.gateway.peers.sdk_server") as url:
        yield httpx.get(f"{url}.well-known/agent-card.json", trust_env=False).json()


def away(*fallbacks: str) -> Agent:
    """A registered agent at an address where nobody listens."""
    return remote_agent(card_at(f"http://127.0.0.1:{free_port()}/a2a", name="Away"), "away", fallbacks=list(fallbacks))


def author(task) -> str:
    return Message.objects.select_related("agent").get(task=task.pk, role="agent").agent.slug


async def test_a_hosted_agent_takes_the_turn(ada, echo):
    task = await Talk(ada, await bridge.run(away, "echo")).ask("hello")
    assert (task.state, words(task), task.agent.slug) == ("completed", "hello", "away")
    assert await bridge.run(author, task) == "echo"
    assert await bridge.run(is_whole, task)


async def test_another_remote_agent_takes_it_and_keeps_the_task(ada, peer):
    def cast() -> Agent:
        remote_agent(peer, "near")
        return away("near")

    talk = Talk(ada, await bridge.run(cast))
    asked = await talk.ask("ask")
    assert (asked.state, words(asked)) == ("input-required", "Which colour?")
    run = await bridge.run(run_of, asked)
    assert run.remote["taskId"]
    assert run.input["agent"]["version"] == str((await Agent.objects.aget(slug="near")).current_version_id)
    answered = await talk.ask("green", task=asked)
    assert answered.state == "completed"
    assert (await bridge.run(run_of, answered)).remote["taskId"] == run.remote["taskId"]
    assert await bridge.run(is_whole, answered)


async def test_it_does_so_where_the_breaker_is_open_too(ada, echo, settings):
    agent = await bridge.run(away, "echo")
    for _ in range(settings.REMOTE_BREAKER_FAILURES):
        await bridge.run(breaker.failed, agent, Unreachable("Nobody is there."))
    task = await Talk(ada, agent).ask("hello")
    assert (task.state, words(task)) == ("completed", "hello")


async def test_without_one_the_task_fails_with_a_reason_for_people(ada):
    task = await Talk(ada, await bridge.run(away)).ask("hello")
    assert task.state == "failed"
    assert "reached" in words(task) or "connect" in words(task), words(task)


async def test_what_the_agent_has_begun_is_not_handed_on(ada, peer, echo):
    talk = Talk(ada, await bridge.run(remote_agent, peer, "begun", fallbacks=["echo"]))
    task = await talk.ask("fail")
    assert (task.state, words(task)) == ("failed", "It broke.")
    assert await bridge.run(author, task) == "begun"


async def test_a_session_goes_on_between_one_of_ours_and_a_remote_one(ada, peer, echo):
    near = await bridge.run(remote_agent, peer, "near")
    talk = Talk(ada, echo)
    first = await talk.ask("mine")
    await bridge.run(switch, ada.principal, first.context_id, near)
    talk.agent = near
    second = await talk.ask("message theirs")
    assert second.context_id == first.context_id
    assert words(second).startswith("theirs\n")
    assert "User: mine" in words(second)  # it was told what had been said
    assert [await bridge.run(author, one) for one in (first, second)] == ["echo", "near"]
    assert await bridge.run(is_whole, second)


def test_fallbacks_stay_when_an_agent_is_registered_anew(ada, echo, cards_at):
    remote_agent(cards_at.card(), "away", fallbacks=["echo"])
    agent = remote_agent(cards_at.card(description="Another."), "away", update=True)
    assert agent.fallbacks == ["echo"]
