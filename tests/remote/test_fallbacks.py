"""A fallback of any kind takes the turn of an unreachable remote agent."""

from __future__ import annotations

import pytest

from apps.agents.models import Agent
from apps.conversations.sessions.commands import create_session, switch_agent
from apps.record.errors import InvalidParams
from apps.record.models import Message
from apps.remote import circuit_breaker
from apps.remote.errors import Unreachable
from parley import db
from tests.remote.card_server import card as card_at
from tests.remote.conversing import Talk, is_whole, remote_agent, run_of, until, words
from tests.remote.scripted import serving
from tests.stack import free_port

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker", "outward")]


@pytest.fixture(autouse=True)
def _soon(settings):
    settings.REMOTE_RETRY_SECONDS = 0.3


@pytest.fixture
def near():
    with serving() as scripted:
        scripted.tells("INPUT_REQUIRED", "Which?")
        yield scripted


def away(*fallbacks: str) -> Agent:
    return remote_agent(card_at(f"http://127.0.0.1:{free_port()}/a2a", name="Away"), "away", fallbacks=list(fallbacks))


def author(task) -> str:
    return Message.objects.select_related("agent").get(task=task.pk, role="agent").agent.slug


async def test_a_hosted_agent_takes_turns_of_unreachable_ones(ada, echo):
    agent = await db.run(away, "echo")
    done = await Talk(ada, agent).ask("hello")
    assert (done.state, words(done), done.agent.slug) == ("completed", "hello", "away")
    assert await db.run(author, done) == "echo"
    run = await db.run(run_of, done)
    assert run.agent_id == echo.pk
    assert "sent" not in run.input
    assert await db.run(is_whole, done)


async def test_agents_that_may_be_retried_are_waited_for(ada, settings):
    settings.REMOTE_REFUSED_SECONDS, settings.REMOTE_RETRY_SECONDS = 0.0, 60.0
    port = free_port()
    agent = await db.run(remote_agent, card_at(f"http://127.0.0.1:{port}/", name="Restarting"), "restarting")
    talk = Talk(ada, agent)
    failed = await talk.ask()
    assert (failed.state, (await db.run(run_of, failed)).error["code"]) == ("failed", "agent_unreachable"), "at once"
    assert "127.0.0.1" in words(failed)
    await Agent.objects.filter(pk=agent.pk).aupdate(retry_safe=True)
    sent = await talk.say()
    await until(lambda: "sent" in run_of(sent).input)
    with serving(port) as scripted:
        scripted.tells("COMPLETED", "Back again.")
        done = await talk.settled(sent)
    assert (done.state, words(done)) == ("completed", "Back again.")


async def test_another_remote_agent_takes_and_keeps_the_task(ada, near):
    other = await db.run(remote_agent, near.card(), "near")
    talk = Talk(ada, await db.run(away, "near"))
    asked = await talk.ask()
    assert (asked.state, words(asked)) == ("input-required", "Which?")
    run = await db.run(run_of, asked)
    assert (run.remote["agent"], run.remote["taskId"]) == (other.pk, "t1")
    assert run.input["agent"]["version"] == str(other.current_version_id)
    near.tells("COMPLETED", "Green it is.")
    answered = await talk.ask("green", task=asked)
    assert (answered.state, words(answered)) == ("completed", "Green it is.")
    assert [message.get("taskId") for message in near.sends] == [None, "t1"]
    assert await db.run(is_whole, answered)


async def test_a_question_of_an_absent_agent_stays_open(near, ada):
    talk = Talk(ada, await db.run(remote_agent, near.card()))
    asked = await talk.ask()
    for _ in range(5):
        await db.run(circuit_breaker.record_failure, talk.agent, Unreachable("Nobody is there."))
    again = await talk.ask("green", task=asked)
    assert again.state == "input-required"
    assert "send it again later" in words(again)
    await db.run(circuit_breaker.close, talk.agent)
    near.tells("COMPLETED", "Green it is.")
    assert words(await talk.ask("green", task=asked)) == "Green it is."
    assert [message.get("taskId") for message in near.sends] == [None, "t1"]


async def test_sessions_go_on_between_local_and_remote_agents(ada, near, echo):
    near.tells("COMPLETED", "Green it is.")
    talk = Talk(ada, echo)
    first = await talk.ask("mine")
    talk.agent = await db.run(remote_agent, near.card(), "near")
    await db.run(switch_agent, ada.principal, first.context_id, talk.agent)
    second = await talk.ask("theirs")
    assert second.context_id == first.context_id
    [message] = near.sends
    assert "User: mine" in str(message["parts"])
    assert [await db.run(author, one) for one in (first, second)] == ["echo", "near"]
    assert await db.run(is_whole, second)


async def test_options_go_where_card_declares_them(ada, near):
    near.tells("COMPLETED", "Green it is.")
    uri = "https://other.example/ext/options/v1"
    agent = await db.run(lambda: remote_agent(near.card(extensions=[{"uri": uri}])))
    other = await db.run(remote_agent, near.card(), "other")
    with pytest.raises(InvalidParams, match="takes no options"):
        await db.run(lambda: create_session(ada.principal, other, options={"language": "fi"}))
    session = (await db.run(lambda: create_session(ada.principal, agent, options={"language": "fi"}))).context
    await Talk(ada, agent, session.context_id).ask("hello", metadata={"mine": 1})
    [message] = near.sends
    assert message["metadata"] == {"mine": 1, uri: {"language": "fi"}}
    assert (message["extensions"], near.headers[0]["a2a-extensions"]) == ([uri], uri)
