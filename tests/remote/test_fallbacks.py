"""A fallback of any kind takes the turn of an unreachable remote agent."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

import db
from apps.agents.models import Agent
from apps.engine import send
from apps.features.sessions.commands import create_session, switch_agent
from apps.record.errors import InvalidParams
from apps.record.models import Message
from apps.remote import circuit_breaker
from apps.remote.errors import Unreachable
from tests.remote.card_server import card as card_at
from tests.remote.conversing import Talk, is_whole, remote_agent, run_of, until, words
from tests.remote.scripted import Scripted, events, serving, task
from tests.stack import free_port

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker", "outward")]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture(autouse=True)
def _soon(settings) -> None:
    settings.REMOTE_RETRY_SECONDS = 0.3


@pytest.fixture
def near() -> Iterator[Scripted]:
    with serving() as scripted:
        scripted.sent = events({"task": task("INPUT_REQUIRED", "Which?")})
        scripted.is_at("INPUT_REQUIRED", "Which?")
        yield scripted


def goes_on(near: Scripted) -> None:
    near.sent = events({"task": task("COMPLETED")})
    near.is_at("COMPLETED", "Green it is.")


def away(*fallbacks: str) -> Agent:
    return remote_agent(card_at(f"http://127.0.0.1:{free_port()}/a2a", name="Away"), "away", fallbacks=list(fallbacks))


def author(task) -> str:
    return Message.objects.select_related("agent").get(task=task.pk, role="agent").agent.slug


async def test_a_hosted_agent_takes_the_turn_where_nobody_listens_or_the_breaker_is_open(ada, echo, settings):
    agent = await db.run(away, "echo")
    done = await Talk(ada, agent).ask("hello")
    assert (done.state, words(done), done.agent.slug) == ("completed", "hello", "away")
    assert await db.run(author, done) == "echo"
    run = await db.run(run_of, done)
    assert run.agent_id == echo.pk
    assert "sent" not in run.input
    assert await db.run(is_whole, done)
    for _ in range(settings.REMOTE_BREAKER_FAILURES):
        await db.run(circuit_breaker.record_failure, agent, Unreachable("Nobody is there."))
    done = await Talk(ada, agent).ask("hello")
    assert (done.state, words(done)) == ("completed", "hello")


@pytest.mark.parametrize("declared", [False, True])
async def test_an_agent_that_comes_back_is_waited_for_longer_where_it_may_be_retried(ada, settings, declared):
    settings.REMOTE_REFUSED_SECONDS, settings.REMOTE_RETRY_SECONDS = 0.0, 60.0
    port = free_port()
    agent = await db.run(remote_agent, card_at(f"http://127.0.0.1:{port}/", name="Restarting"), "restarting")
    await Agent.objects.filter(pk=agent.pk).aupdate(retry_safe=declared)
    talk = Talk(ada, agent)
    if not declared:
        assert (await talk.ask()).state == "failed", "at once"
        return
    sent = await talk.say()
    await until(lambda: "sent" in run_of(sent).input)
    with serving(port) as scripted:
        scripted.sent = events({"task": task("COMPLETED")})
        scripted.is_at("COMPLETED", "Back again.")
        done = await talk.settled(sent)
    assert (done.state, words(done)) == ("completed", "Back again.")


@pytest.mark.services("a broker has the turn that is retried and passed on")
async def test_a_refusal_is_retried_and_then_passed_on(ada, echo, near):
    near.is_down = True
    agent = await db.run(remote_agent, near.card(), "near", fallbacks=["echo"])
    done = await Talk(ada, agent).ask("hello")
    assert (done.state, words(done)) == ("completed", "hello")
    assert await db.run(author, done) == "echo"
    assert near.refused > 1, "it was tried again before"


async def test_another_remote_agent_takes_it_with_a_snapshot_of_its_own_and_keeps_the_task(ada, near):
    other = await db.run(remote_agent, near.card(), "near")
    talk = Talk(ada, await db.run(away, "near"))
    asked = await talk.ask()
    assert (asked.state, words(asked)) == ("input-required", "Which?")
    run = await db.run(run_of, asked)
    assert (run.remote["agent"], run.remote["taskId"]) == (other.pk, "t1")
    assert run.input["agent"]["version"] == str(other.current_version_id)
    goes_on(near)
    answered = await talk.ask("green", task=asked)
    assert (answered.state, words(answered)) == ("completed", "Green it is.")
    assert [message.get("taskId") for message in near.sends] == [None, "t1"]
    assert await db.run(is_whole, answered)


async def test_without_one_the_task_fails_with_a_reason_for_people(ada):
    failed = await Talk(ada, await db.run(away)).ask("hello")
    assert failed.state == "failed"
    assert "127.0.0.1" in words(failed)
    assert (await db.run(run_of, failed)).error["code"] == "agent_unreachable"


async def test_a_question_whose_agent_is_away_stays_one(near, ada):
    talk = Talk(ada, await db.run(remote_agent, near.card()))
    asked = await talk.ask()
    for _ in range(5):
        await db.run(circuit_breaker.record_failure, talk.agent, Unreachable("Nobody is there."))
    again = await talk.ask("green", task=asked)
    assert again.state == "input-required"
    assert "send it again later" in words(again)
    await db.run(circuit_breaker.close, talk.agent)
    goes_on(near)
    assert words(await talk.ask("green", task=asked)) == "Green it is."
    assert [message.get("taskId") for message in near.sends] == [None, "t1"]


async def test_a_session_goes_on_between_one_of_ours_and_a_remote_one(ada, near, echo):
    goes_on(near)
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


async def test_every_call_is_in_the_callers_trace_as_a_span_below_the_run(ada, near, said):
    goes_on(near)
    agent = await db.run(remote_agent, near.card())
    for header in (f"00-{TRACE}-00f067aa0ba902b7-01", ""):  # without the header, the trace is the run's own
        near.headers.clear()
        sent = await send.send(ada.principal, agent, said(), traceparent=header)
        done = await send.wait_until_settled(sent.context, sent.task, sent.index, lambda found: found)
        run = await db.run(run_of, done)
        told = [headers["traceparent"] for headers in near.headers]
        assert len(told) >= 2
        assert {one[:36] for one in told} == {run.traceparent[:36]}
        assert {headers["a2a-version"] for headers in near.headers} == {"1.0"}
        assert not {run.traceparent[36:52], "00f067aa0ba902b7"} & {one[36:52] for one in told}
        assert (run.traceparent[3:35] == TRACE) is bool(header)


@pytest.mark.parametrize("declared", [True, False])
async def test_options_go_where_card_declares_them(ada, near, declared, client):
    goes_on(near)
    uri = "https://other.example/ext/options/v1"
    agent = await db.run(remote_agent, near.card(extensions=[{"uri": uri}] * declared))
    begin = partial(create_session, ada.principal, agent, options={"language": "fi"})
    await db.run(client.force_login, ada)
    shown = (await db.run(client.get, f"/agents/{agent.slug}")).content.decode()
    assert ("options are sent to it" if declared else "It takes none") in shown
    if not declared:
        with pytest.raises(InvalidParams, match="takes no options"):
            await db.run(begin)
        return
    session = (await db.run(begin)).context
    await Talk(ada, agent, session.context_id).ask("hello", metadata={"mine": 1})
    [message] = near.sends
    assert message["metadata"] == {"mine": 1, uri: {"language": "fi"}}
    assert (message["extensions"], near.headers[0]["a2a-extensions"]) == ([uri], uri)


def test_fallbacks_stay_when_an_agent_is_registered_anew(ada, echo, cards_at):
    remote_agent(cards_at.card(), "away", fallbacks=["echo"])
    agent = remote_agent(cards_at.card(description="Another."), "away", update=True)
    assert agent.fallbacks == ["echo"]
