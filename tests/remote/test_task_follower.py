"""After a broken connection, a remote task is found again and recorded once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db.models import F
from django.utils import timezone

import db
from apps.engine import worker
from apps.record import notifications, wire
from apps.record.execution import Run
from apps.remote import circuit_breaker
from apps.remote.authentication import credentials
from apps.remote.errors import Unreachable
from apps.remote.execution import cancellation
from apps.remote.execution.task_follower import Backoff
from apps.remote.federation import known
from apps.remote.models import Breaker, OpenWork, RemoteAgent
from tests.remote.conversing import Talk, delivered, is_whole, remote_agent, run_of, said, until, words
from tests.remote.scripted import CUT, Scripted, artifact, events, in_turn, made, now, refusing, serving, task

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("worker", "outward"),
    pytest.mark.services("turns of remote agents, by a worker"),
]
WANTS = {
    "securitySchemes": {"key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}},
    "securityRequirements": [{"schemes": {"key": {"list": []}}}],
}
PIECES = [made("a ", append=False), made("b ", append=True), made("c", append=True, last=True)]


@pytest.fixture(autouse=True)
def quick(settings):
    settings.REMOTE_POLL_SECONDS = (0.02, 0.1)
    settings.REMOTE_AWAY_SECONDS = 0.5
    settings.REMOTE_CONFIRM_SECONDS = 0.3
    settings.REMOTE_RETRY_SECONDS = 2.0


@pytest.fixture
def agent() -> Iterator[Scripted]:
    with serving() as scripted:
        yield scripted


@pytest.fixture
def talk(agent, ada) -> Talk:
    return Talk(ada, remote_agent(agent.card()))


async def silence(_):
    await asyncio.sleep(30)
    yield {}


def working(*said, key="t1"):
    """Begins a task, says this, and works longer than any test."""

    async def work(_):
        yield {"task": task(key=key)}
        for one in said:
            yield one
        await asyncio.sleep(30)

    return work


@pytest.mark.parametrize("frames", range(5))
async def test_a_stream_that_breaks_off_after_any_frame_is_taken_up_again(agent, talk, frames):
    whole = [{"task": task()}, *PIECES]
    parts = [piece["artifactUpdate"]["artifact"]["parts"][0] for piece in PIECES]
    heard = max(frames - 1, 0)
    by_then = task(artifacts=[artifact("", parts=parts[:heard])] if heard else None)
    agent.task = by_then
    if frames == 0:
        agent.sent = events(CUT)
        lost = await talk.ask()
        assert lost.state == "failed"
        assert "not sent a second time" in words(lost)
        return

    async def rest(_):
        yield {"task": by_then}
        for piece in PIECES[heard:]:
            yield piece
        agent.is_at("COMPLETED", "Done.", [artifact("", parts=parts)])
        yield now("COMPLETED", "Done.")

    agent.sent, agent.subscribed = events(*whole[:frames], CUT), rest
    done = await talk.ask()
    assert (done.state, words(done)) == ("completed", "Done.")
    assert await db.run(delivered, done) == {"answer": "a b c"}
    chunks = await db.run(said, done, "artifact_update")
    assert [chunk["artifact"]["parts"] for chunk in chunks] == [[part] for part in parts]
    assert agent.count("SendStreamingMessage") == 1
    assert await db.run(is_whole, done)


async def test_what_the_agent_says_when_it_is_asked_counts(agent, talk):
    agent.sent = events({"task": task()}, made("wrong"), now("COMPLETED", "Done."))
    agent.is_at("COMPLETED", artifacts=[artifact("right")])
    assert await db.run(delivered, await talk.ask()) == {"answer": "right"}
    assert len(agent.callers) == 1, "one connection serves both turns"
    agent.task = None  # it forgets ended tasks: the result counts, with a note
    done = await talk.ask()
    assert (done.state, words(done)) == ("completed", "Done.")
    assert "could not be confirmed" in str((await db.run(run_of, done)).notes)


async def test_answer_without_status_message_is_kept_once(agent, talk):
    said = {"messageId": "m1", "role": "ROLE_AGENT", "parts": [{"text": "a b c"}]}
    agent.sent = events({"task": task()}, *PIECES, now("COMPLETED"))
    agent.task = task("COMPLETED", artifacts=[artifact("a b c")]) | {"history": [said]}
    done = await talk.ask()
    assert (words(done), await db.run(delivered, done)) == ("a b c", {"answer": "a b c"})
    assert "message" not in (await db.run(wire.load_task, done))["status"]


async def test_another_end_after_the_task_was_completed_discards_nothing(agent, talk):
    agent.sent = events({"task": task()}, made("work"), now("COMPLETED", "Done."), now("FAILED", "Or not."))
    agent.is_at("FAILED", "It broke after all.")
    done = await talk.ask()
    assert (done.state, words(done)) == ("completed", "Done.")
    assert await db.run(delivered, done) == {"answer": "work"}
    assert "TASK_STATE_FAILED" in str((await db.run(run_of, done)).notes)


async def test_an_end_that_the_agent_takes_back_is_none(agent, talk):
    agent.sent = events({"task": task()}, now("COMPLETED", "Done."), now("WORKING", "Or not."))
    agent.is_at("WORKING")
    failed = await talk.ask()
    assert failed.state == "failed"
    assert "had ended, and then that it goes on" in words(failed)


async def test_nothing_of_another_task_is_taken_in(agent, talk):
    agent.sent = events({"task": task()}, made("secret", task="t2"), now("COMPLETED", key="t2"))
    agent.is_at("WORKING")
    failed = await talk.ask()
    assert failed.state == "failed"
    assert await db.run(said, failed, "artifact_update") == []


async def test_an_agent_that_goes_away_in_the_middle_of_its_work_is_missed_and_told(agent, talk):
    async def work(_):
        yield {"task": task()}
        agent.is_down = True
        yield CUT

    agent.sent = work
    failed = await talk.ask()
    assert failed.state == "failed"
    assert "could not be reached" in words(failed)
    lines = await db.run(said, failed, "agent_status")
    assert any("was lost" in str(line.get("message")) for line in lines)


async def test_too_many_requests_are_tried_again_when_the_agent_says(agent, talk):
    agent.sent = in_turn(
        refusing(-32000, status=429, headers={"Retry-After": "1"}), events({"task": task("COMPLETED")})
    )
    agent.is_at("COMPLETED", "Done.")
    assert (await talk.ask()).state == "completed"
    first, second = agent.sends
    assert first == second


async def test_an_agent_that_calls_back_is_looked_at_when_it_does(agent, ada, settings):
    settings.REMOTE_PATIENCE_SECONDS, settings.REMOTE_POLL_SECONDS = 0.0, (0.1, 60.0)
    settings.REMOTE_BACKSTOP_SECONDS = 60.0
    talk = Talk(ada, await db.run(remote_agent, agent.card(streaming=False, pushNotifications=True)))
    agent.sent = events({"task": task()})
    agent.is_at("WORKING")
    begun = await talk.say()
    await until(lambda: agent.count("CreateTaskPushNotificationConfig"))
    [hook] = [params for method, params in agent.requests if method == "CreateTaskPushNotificationConfig"]
    run = await db.run(run_of, begun)
    assert hook["url"].endswith(f"/gateway/notifications/{run.pk}")
    agent.is_at("COMPLETED", "Done at last.")
    for _ in range(3):  # repeat to cut short waits of up to a minute
        await db.run(notifications.nudge, run.pk)
    done = await asyncio.wait_for(talk.settled(begun), 5)
    assert words(done) == "Done at last."


def test_looks_grow_apart_up_to_ten_minutes(settings):
    settings.REMOTE_POLL_SECONDS = (0.2, 600.0)
    backoff = Backoff()
    waits = [backoff.next() for _ in range(30)]
    assert (waits[0], waits[-1], waits == sorted(waits)) == (0.2, 600.0, True)
    assert all(wait <= sum(waits[:place]) * 0.6 for place, wait in enumerate(waits) if place > 5)
    backoff.restart()
    assert backoff.next() == 0.2


@pytest.mark.services("a broker has the turn that no limit ends")
async def test_without_a_limit_it_is_followed(agent, ada):
    talk = Talk(ada, await db.run(remote_agent, agent.card(), time_limit=None))
    agent.sent = events({"task": task()})
    agent.is_at("WORKING")
    begun = await talk.say()
    await until(lambda: agent.count("GetTask") > 2)
    agent.is_at("COMPLETED", "After days.")
    assert words(await talk.settled(begun)) == "After days."


async def test_time_that_is_over_is_over_and_the_agent_is_told(agent, ada):
    talk = Talk(ada, await db.run(remote_agent, agent.card(), time_limit=1.0))
    agent.sent = working()
    agent.is_at("WORKING")
    failed = await talk.ask()
    assert failed.state == "failed"
    assert "longer than its limit" in words(failed)
    await until(lambda: agent.count("CancelTask") == 1 and OpenWork.objects.count() == 0)


async def test_a_question_that_is_withdrawn_here_is_withdrawn_there(agent, talk):
    agent.sent = events({"task": task()}, now("INPUT_REQUIRED", "Which?"))
    agent.is_at("INPUT_REQUIRED", "Which?")
    asked = await talk.ask()
    assert asked.state == "input-required"
    await talk.cancel(asked)
    await until(lambda: agent.count("CancelTask") == 1 and OpenWork.objects.count() == 0)


async def test_a_newer_message_that_interrupts_ends_the_work_on_the_older(agent, ada):
    talk = Talk(ada, await db.run(remote_agent, agent.card(), on_busy="interrupt"))
    agent.sent = in_turn(working(), events({"task": task(key="t2")}, now("COMPLETED", "Second.", key="t2")))
    agent.is_at("WORKING")
    begun = await talk.say("first")
    await until(lambda: run_of(begun).remote.get("taskId"))
    agent.task = None
    await talk.say("second", task=begun)
    done = await talk.settled(begun)
    assert words(done) == "Second."
    await until(lambda: agent.count("CancelTask") >= 1)
    assert agent.sends[1]["referenceTaskIds"] == ["t1"]


async def test_files_are_sent_as_links_to_an_agent_that_takes_them_so(agent, talk, client):
    agent.sent = in_turn(refusing(-32005), events({"task": task("COMPLETED")}))
    agent.is_at("COMPLETED", "Thanks.")
    sheet = {"raw": "YSxiCg==", "filename": "a b.csv", "mediaType": "text/csv"}
    done = await talk.ask(parts=[{"text": "take"}, sheet])
    assert done.state == "completed"
    inline, linked = (message["parts"][1] for message in agent.sends)
    assert inline == sheet
    assert "raw" not in linked
    path = linked["url"].partition("//")[2].partition("/")[2]
    fetched = await db.run(client.get, f"/{path}")
    assert fetched.content == b"a,b\n"
    assert fetched["Content-Type"] == "text/csv"
    forged = await db.run(client.get, f"/{path.replace('.1.', '.0.')}")
    assert forged.status_code == 404


@pytest.mark.parametrize("breaker_is", ["closed", "open"])
async def test_a_worker_that_ends_leaves_the_work_to_the_next_which_finds_it_again(agent, talk, breaker_is):
    async def rest(_):
        yield {"task": agent.task}
        yield PIECES[2]
        agent.is_at("COMPLETED", "Done.", [artifact("a b c")])
        yield now("COMPLETED", "Done.")

    agent.sent, agent.subscribed = working(*PIECES[:2]), rest
    agent.is_at("WORKING", artifacts=[artifact("a b ")])
    sent = await talk.say()
    await until(lambda: len(said(sent, "artifact_update")) == 2)
    if breaker_is == "open":  # calls of others failed meanwhile; a running task is followed anyway
        now_and_later = {"opened_at": timezone.now(), "retry_at": timezone.now() + timedelta(minutes=10)}
        await db.run(lambda: Breaker.objects.create(agent=talk.agent, failures=9, **now_and_later))
        circuit_breaker.clear_cache()
    await asyncio.to_thread(worker.close_current_worker, 0.0)  # as SIGTERM does; the run is given back
    done = await talk.settled(sent)
    assert await db.run(delivered, done) == {"answer": "a b c"}
    assert agent.count("SendStreamingMessage") == 1
    assert agent.count("CancelTask") == 0
    assert (await db.run(run_of, done)).attempt == 1
    assert await db.run(is_whole, done)


@pytest.mark.parametrize(
    ("remembers", "knows_caller"),
    [(False, True), (True, True), (True, False)],
    ids=["forgetful", "remembers", "remembers callers it knows, and this one only signs"],
)
async def test_a_message_of_which_nothing_is_known_is_sent_again_only_where_that_is_safe(
    agent, ada, remembers, knows_caller
):
    extensions = [{"uri": "https://peer.invalid/ext/message-ids/v1"}] if remembers else []
    talk = Talk(ada, await db.run(remote_agent, agent.card(extensions=extensions) | (WANTS if knows_caller else {})))
    if knows_caller:
        await db.run(credentials.save, talk.agent, None, "key", {"key": "0123456789"}, ada)
    else:
        await db.run(RemoteAgent.objects.filter(agent=talk.agent).update, signs_requests=True)
        known.forget()
    agent.sent = in_turn(silence, events({"task": task("COMPLETED")}))
    agent.is_at("COMPLETED", "Done.")
    sent = await talk.say()
    await until(lambda: agent.sends)
    await asyncio.to_thread(worker.close_current_worker, 0.0)
    done = await talk.settled(sent)
    if remembers and knows_caller:
        first, second = agent.sends
        assert first == second
        assert words(done) == "Done."
    else:
        assert len(agent.sends) == 1
        assert done.state == "failed"
        assert "not sent a second time" in words(done)


async def test_an_answer_of_which_nothing_is_known_is_looked_for_in_the_task_that_asked(agent, talk):
    agent.sent = in_turn(events({"task": task("INPUT_REQUIRED", "Which?")}), silence)
    agent.is_at("INPUT_REQUIRED", "Which?")
    asked = await talk.ask()
    await talk.say("green", task=asked)
    await until(lambda: len(agent.sends) == 2)
    agent.is_at("COMPLETED", "Green it is.")
    await asyncio.to_thread(worker.close_current_worker, 0.0)
    done = await talk.settled(asked)
    assert words(done) == "Green it is."
    assert len(agent.sends) == 2


@pytest.mark.parametrize("state", ["CANCELED", "REJECTED"])
async def test_an_end_of_the_agents_own_making_has_a_reason(agent, talk, state):
    agent.sent = events({"task": task()}, now(state))
    agent.is_at(state)
    ended = await talk.ask()
    assert ended.state == ("failed" if state == "CANCELED" else "rejected")
    assert words(ended)


async def test_credentials_that_the_agent_wants_are_asked_for_and_the_answer_goes_on_there(agent, talk):
    wants = now("AUTH_REQUIRED", "Sign in at https://id.invalid/", metadata={"slot": {"schema": {"type": "string"}}})
    agent.sent = in_turn(events({"task": task()}, wants), events({"task": task("COMPLETED", "In.")}))
    agent.is_at("AUTH_REQUIRED", "Sign in at https://id.invalid/")
    asked = await talk.ask()
    assert (asked.state, words(asked)) == ("auth-required", "Sign in at https://id.invalid/")
    assert asked.slot == {"name": "credential", "schema": {"type": "string"}}
    agent.is_at("COMPLETED", "In.")
    assert words(await talk.ask("done", task=asked)) == "In."
    assert agent.sends[1]["taskId"] == "t1"


async def test_a_credential_of_ones_own_is_asked_for_before_anything_is_sent(agent, ada):
    talk = Talk(ada, await db.run(remote_agent, agent.card() | WANTS))
    await db.run(credentials.set_personal, talk.agent, "key", True, ada)
    agent.sent = events({"task": task("COMPLETED")})
    agent.is_at("COMPLETED", "Let in.")
    asked = await talk.ask()
    assert asked.state == "auth-required"
    assert agent.requests == []
    await db.run(credentials.save, talk.agent, ada, "key", {"key": "0123456789"}, ada)
    await until(lambda: run_of(asked).turn == 2 and run_of(asked).state == "done")
    assert agent.headers[-1]["x-key"] == "0123456789"
    assert agent.sends[0]["parts"] == [{"text": "hello"}]


def taken_by_another(run) -> None:
    """A worker was held up for so long that another has claimed its run."""
    Run.objects.filter(pk=run.pk).update(fence=F("fence") + 1)


@pytest.mark.parametrize("ends", [[], [now("WORKING", key="t2")]], ids=["well", "badly"])
async def test_a_worker_that_lost_its_run_leaves_the_work_to_the_one_that_has_it(agent, talk, monkeypatch, ends):
    monkeypatch.setattr(worker.WorkerProcess, "_stop_lost", lambda *_: None)
    go = threading.Event()

    async def work(_):
        yield {"task": task()}
        await asyncio.to_thread(go.wait, 10)
        for event in ends or (made(f"{number}", append=number > 0) for number in range(50)):
            yield event
            await asyncio.sleep(0.1)

    agent.sent = work
    agent.is_at("WORKING")
    begun = await talk.say()
    run = await until(lambda: (found := run_of(begun)).remote.get("taskId") and found)
    await db.run(taken_by_another, run)
    go.set()
    await until(lambda: "no longer its own" in str(run_of(begun).notes))
    work_there = await db.run(OpenWork.objects.get)
    assert not work_there.is_unwanted
    assert agent.count("CancelTask") == 0


@pytest.mark.parametrize("word_of_it", ["comes at once", "comes later than the answer"])
async def test_a_cancel_that_comes_just_before_the_first_answer_is_passed_on(agent, talk, monkeypatch, word_of_it):
    if word_of_it == "comes later than the answer":
        monkeypatch.setattr(worker.WorkerProcess, "_stop", lambda *_: None)
    go = threading.Event()

    async def work(_):
        await asyncio.to_thread(go.wait, 10)
        yield {"task": task()}
        await asyncio.sleep(30)

    agent.sent = work
    agent.is_at("WORKING")
    begun = await talk.say()
    await until(lambda: agent.sends)
    await talk.cancel(begun)
    if word_of_it == "comes at once":
        await until(lambda: not worker.current_worker()._active)
    go.set()
    if word_of_it == "comes later than the answer":
        await until(lambda: "no longer its own" in str(run_of(begun).notes))
        await asyncio.to_thread(cancellation.send_due_cancels)
    await until(lambda: agent.count("CancelTask") == 1 and OpenWork.objects.count() == 0)


async def test_work_is_found_again_though_its_agent_is_not_called_for_anything_new(agent, ada, echo):
    talk = Talk(ada, await db.run(remote_agent, agent.card(), fallbacks=["echo"]))
    agent.sent = working()
    agent.is_at("WORKING")
    sent = await talk.say()
    await until(lambda: run_of(sent).remote.get("taskId"))
    for _ in range(5):
        await db.run(circuit_breaker.record_failure, talk.agent, Unreachable("It does not answer."))
    agent.is_at("COMPLETED", "Done.")
    await asyncio.to_thread(worker.close_current_worker, 0.0)
    assert words(await talk.settled(sent)) == "Done."


async def test_nobody_stands_in_for_an_agent_that_may_have_got_the_message(agent, ada, echo):
    policies = {"fallbacks": ["echo"], "retry_safe": True}
    talk = Talk(ada, await db.run(lambda: remote_agent(agent.card(), **policies)))
    agent.sent = in_turn(events(CUT), refusing(-32000, status=429, headers={"Retry-After": "100"}))
    failed = await talk.ask()
    assert (len(agent.sends), failed.state) == (2, "failed")
    assert "lost after the message was sent" in words(failed)
