"""After a broken connection, a remote task is found again and recorded once."""

from __future__ import annotations

import asyncio
import base64
import re
import threading

import pytest
from django.db.models import F

from apps.agents.registration import register_hosted
from apps.conversations.forks.forking import fork
from apps.conversations.sessions import deletion
from apps.conversations.sessions.commands import switch_agent
from apps.engine import worker
from apps.record import models as rows
from apps.record.content.strict_json import digest_of
from apps.record.execution import Run
from apps.record.reading import notifications
from apps.remote import a2a_client, circuit_breaker
from apps.remote.agent_cards import cards
from apps.remote.authentication import credentials
from apps.remote.errors import Unreachable
from apps.remote.execution import cancellation, runs, task_follower
from apps.remote.federation import known
from apps.remote.models import AgentState, OpenWork, RemoteAgent
from parley import db
from tests.remote import peers
from tests.remote.conversing import INTERNALS, Talk, delivered, is_whole, remote_agent, run_of, said, until, words
from tests.remote.scripted import CUT, artifact, events, in_turn, made, now, refusing, serving, task
from tests.work.hand import work_off

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
def agent():
    with serving() as scripted:
        yield scripted


@pytest.fixture
def talk(agent, ada):
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


def clear_words(failed):
    assert not re.search(INTERNALS, words(failed))
    return words(failed)


async def test_what_the_agent_says_when_asked_counts(agent, talk):
    agent.tells("COMPLETED", "Done.", made("wrong"))
    agent.is_at("COMPLETED", artifacts=[artifact("right")])
    assert await db.run(delivered, await talk.ask()) == {"answer": "right"}
    agent.task = None  # it forgets ended tasks: the result counts, with a note
    done = await talk.ask()
    assert (done.state, words(done)) == ("completed", "Done.")
    assert "could not be confirmed" in str((await db.run(run_of, done)).notes)
    agent.tells("FAILED", "It broke after all.", made("work"), now("COMPLETED", "Done."))
    done = await talk.ask()
    assert (done.state, await db.run(delivered, done)) == ("completed", {"answer": "work"}), "it had completed"
    assert "TASK_STATE_FAILED" in str((await db.run(run_of, done)).notes)
    agent.tells("REJECTED")
    ended = await talk.ask()
    assert (ended.state, bool(words(ended))) == ("rejected", True), "an end without words gets a reason"


async def test_whole_streams_are_not_asked_about(agent, ada):
    agent.url = agent.url.replace("127.0.0.1", "localhost")
    state = {"uri": "https://a.example/ext/state/v1", "params": {"wholeStreams": True}}
    talk = Talk(ada, await db.run(remote_agent, agent.card(extensions=[state])))
    agent.tells("COMPLETED", "Done.", *PIECES)
    done = await talk.ask()
    assert (done.state, await db.run(delivered, done), agent.count("GetTask")) == ("completed", {"answer": "a b c"}, 0)
    assert (await db.run(run_of, done)).remote["taskId"] == agent.task["id"]
    assert not await db.run(OpenWork.objects.exists)
    assert await db.run(is_whole, done)
    agent.sent = events({"task": task()}, *PIECES[:2], CUT)
    agent.is_at("COMPLETED", "Done.", [artifact("a b c")])
    cut = await talk.ask()
    assert (cut.state, await db.run(delivered, cut)) == ("completed", {"answer": "a b c"}), "it was asked"


async def test_steps_are_stored_at_once(agent, ada, monkeypatch):
    monkeypatch.setattr(task_follower, "AT_ONCE_SECONDS", 60.0)
    uri, stored, waited = "https://a.example/ext/state/v1", threading.Event(), []
    agent.url = agent.url.replace("127.0.0.1", "localhost")
    talk = Talk(
        ada, await db.run(remote_agent, agent.card(extensions=[{"uri": uri, "params": {"wholeStreams": True}}]))
    )

    async def works(_):
        yield {"task": task()}
        yield now("WORKING", metadata={uri: {"steps": {"knead": {"name": "knead", "key": "1", "result": "dough"}}}})
        waited.append(await asyncio.to_thread(stored.wait, 10))
        yield now("COMPLETED", "Done.")

    agent.sent = works
    agent.is_at("COMPLETED", "Done.")
    asked = await talk.say()
    await until(lambda: AgentState.objects.filter(steps__has_key="knead").exists())
    stored.set()
    assert ((await talk.settled(asked)).state, waited) == ("completed", [True])


async def test_agents_that_call_back_are_looked_at_then(agent, ada, settings):
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
    assert words(await asyncio.wait_for(talk.settled(begun), 5)) == "Done at last."


async def test_work_over_its_limit_fails_and_is_canceled(agent, ada):
    talk = Talk(ada, await db.run(remote_agent, agent.card(), time_limit=1.0))
    agent.sent = working()
    agent.is_at("WORKING")
    failed = await talk.ask()
    assert failed.state == "failed"
    assert "longer than its limit" in words(failed)
    await until(lambda: agent.count("CancelTask") == 1 and OpenWork.objects.count() == 0)


async def test_lies_about_a_real_task_leave_it_alone(agent, talk, ada):
    """The agent works on one task while it reports on another, and mixes them up."""
    may_end = threading.Event()

    async def work(_):
        yield {"task": task()}
        yield PIECES[0]
        await asyncio.to_thread(may_end.wait, 10)
        for one in (*PIECES[1:], now("COMPLETED", "Done.")):
            yield one

    lie = events({"task": task(key="t2")}, made("mine", task="t2"), made("a lie", append=True))
    agent.sent = in_turn(work, lie)
    agent.is_at("COMPLETED", "Done.", [artifact("a b c")])
    agent.others = {"CancelTask": task("CANCELED", key="t2")}
    begun = await talk.say()
    await until(lambda: said(begun, "artifact_update"))
    lied = await Talk(ada, talk.agent).ask()
    may_end.set()
    done = await talk.settled(begun)
    assert (lied.state, "another task" in clear_words(lied), await db.run(delivered, lied)) == ("failed", True, {})
    assert (done.state, await db.run(delivered, done)) == ("completed", {"answer": "a b c"})
    assert "a lie" not in str([await db.run(said, one, "artifact_update") for one in (lied, done)])


async def test_chunks_without_an_end_are_too_large(agent, talk, settings):
    settings.REMOTE_STREAM_BYTES = 100_000
    agent.sent = events({"task": task()}, *[made("x" * 5_000, append=True)] * 100)
    agent.unknown = ("GetTask",)
    failed = await talk.ask()
    assert (failed.state, "larger than 100000 bytes" in clear_words(failed)) == ("failed", True)


async def test_cut_streams_are_taken_up_once(agent, talk):
    async def rest(_):
        yield {"task": agent.task}
        yield PIECES[2]
        agent.is_at("COMPLETED", "Done.", [artifact("a b c")])
        yield now("COMPLETED", "Done.")

    agent.is_at("WORKING", artifacts=[artifact("a b ")])
    agent.sent, agent.subscribed = events({"task": task()}, *PIECES[:2], CUT), rest
    followed = await talk.ask()
    agent.sent, agent.unknown = events({"task": task()}, PIECES[0], CUT), ("SubscribeToTask",)
    looked_at = await talk.ask()
    for done in (followed, looked_at):
        assert (done.state, await db.run(delivered, done)) == ("completed", {"answer": "a b c"})
        chunks = await db.run(said, done, "artifact_update")
        assert "".join(part["text"] for one in chunks for part in one["artifact"]["parts"]) == "a b c"


async def test_silent_and_absent_agents_are_given_up(agent, talk, settings):
    settings.REMOTE_IDLE_SECONDS = 0.3
    agent.sent = silence
    lost = await talk.ask()
    assert (lost.state, "lost after the message was sent" in clear_words(lost)) == ("failed", True)

    async def leaves(_):
        yield {"task": task()}
        agent.is_down = True
        yield CUT

    agent.sent = leaves
    away = await talk.ask()
    assert (away.state, "could not be reached for" in clear_words(away)) == ("failed", True)


@pytest.mark.services("turns that hang take no room from others")
async def test_hung_agents_hold_up_nobody(agent, talk, ada, echo, settings):
    settings.RUNS_PER_PROCESS = 5
    agent.sent = silence
    hung = [await Talk(ada, talk.agent).say() for _ in range(8)]
    await until(lambda: Run.objects.filter(remote__sent=True).count() == len(agent.sends) == 8)
    with serving() as good:
        good.tells("COMPLETED", "Done.")
        for other in (await db.run(remote_agent, good.card(), "healthy"), echo):
            assert (await Talk(ada, other).ask()).state == "completed"
    for one in hung:
        await talk.cancel(one)
    await until(lambda: not Run.objects.filter(state=Run.State.RUNNING).exists())


async def test_a_withdrawn_question_is_canceled_at_the_agent(agent, talk):
    agent.tells("INPUT_REQUIRED", "Which?")
    asked = await talk.ask()
    assert asked.state == "input-required"
    await talk.cancel(asked)
    await work_off(cancellation.CANCELS)
    await until(lambda: agent.count("CancelTask") == 1 and OpenWork.objects.count() == 0)


async def test_question_in_open_stream_is_asked(agent, talk):
    async def asks(_):
        yield {"task": task("INPUT_REQUIRED", "Which?")}
        await asyncio.sleep(30)

    agent.sent = asks
    agent.is_at("INPUT_REQUIRED", "Which?")
    asked = await talk.ask()
    assert (asked.state, words(asked)) == ("input-required", "Which?")


async def test_worker_that_ends_at_first_event_gives_run_back(agent, talk, monkeypatch):
    saving, go, save = threading.Event(), threading.Event(), runs.save_remote_task

    def slowly(*given, **more):
        save(*given, **more)
        saving.set()
        go.wait(10)

    async def rest(_):
        agent.is_at("COMPLETED", "Done.")
        yield now("COMPLETED", "Done.")

    monkeypatch.setattr(runs, "save_remote_task", slowly)
    agent.sent, agent.subscribed = working(), rest
    agent.is_at("WORKING")
    sent = await talk.say()
    await asyncio.to_thread(saving.wait, 10)
    closing = asyncio.create_task(asyncio.to_thread(worker.close_current_worker, 0.0))
    await asyncio.wait({closing}, timeout=0.5)
    go.set()
    await closing
    done = await talk.settled(sent)
    assert (done.state, words(done)) == ("completed", "Done.")


async def test_no_message_goes_past_a_refused_one(agent, ada):
    uri, may_begin, may_end = "https://a.example/ext/steering/v1", threading.Event(), threading.Event()
    talk = Talk(ada, await db.run(remote_agent, agent.card(extensions=[{"uri": uri}])))

    async def works(_):
        await asyncio.to_thread(may_begin.wait, 10)
        yield {"task": task()}
        await asyncio.to_thread(may_end.wait, 10)
        agent.is_at("COMPLETED", "Done.")
        yield now("COMPLETED", "Done.")

    agent.sent = in_turn(works, refusing(-32004), events({"task": task("COMPLETED", "Done.")}))
    begun = await talk.say("first")
    await until(lambda: agent.sends)
    await talk.say("second", task=begun)
    await talk.say("third", task=begun)
    may_begin.set()
    await until(lambda: agent.count("SendMessage"))
    await asyncio.sleep(0.2)  # in which the third would have gone
    sent = [message["parts"][0]["text"] for message in agent.sends]
    may_end.set()
    assert sent == ["first", "second"]
    assert (await talk.settled(begun)).state == "completed"


async def test_the_next_worker_finds_the_work_again(agent, ada, echo):
    """An open breaker and a fallback are for new calls: a running task is followed anyway."""
    talk = Talk(ada, await db.run(lambda: remote_agent(agent.card(), fallbacks=["echo"])))

    async def rest(_):
        yield {"task": agent.task}
        yield PIECES[2]
        agent.is_at("COMPLETED", "Done.", [artifact("a b c")])
        yield now("COMPLETED", "Done.")

    agent.sent, agent.subscribed = working(*PIECES[:2]), rest
    agent.is_at("WORKING", artifacts=[artifact("a b ")])
    sent = await talk.say()
    await until(lambda: len(said(sent, "artifact_update")) == 2)
    for _ in range(5):
        await db.run(circuit_breaker.record_failure, talk.agent, Unreachable("It does not answer."))
    await asyncio.to_thread(worker.close_current_worker, 0.0)  # as SIGTERM does; the run is given back
    done = await talk.settled(sent)
    assert await db.run(delivered, done) == {"answer": "a b c"}
    assert (agent.count("SendStreamingMessage"), agent.count("CancelTask")) == (1, 0)
    assert (await db.run(run_of, done)).attempt == 1
    assert await db.run(is_whole, done)


@pytest.mark.parametrize(
    ("remembers", "knows_caller"),
    [(False, True), (True, True), (True, False)],
    ids=["forgetful", "remembers", "remembers callers it knows, and this one only signs"],
)
async def test_lost_messages_are_repeated_only_where_safe(agent, ada, remembers, knows_caller):
    extensions = [{"uri": "https://peer.invalid/ext/message-ids/v1"}] if remembers else []
    talk = Talk(ada, await db.run(remote_agent, agent.card(extensions=extensions) | (WANTS if knows_caller else {})))
    if knows_caller:
        await db.run(credentials.save, talk.agent, None, "key", {"key": "0123456789"}, ada)
    else:
        await db.run(RemoteAgent.objects.filter(agent=talk.agent).update, signs_requests=True)
        known.forget()
    agent.tells("COMPLETED", "Done.")
    agent.sent = in_turn(silence, agent.sent)
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


async def test_a_worker_without_its_run_cancels_nothing(agent, talk, monkeypatch):
    monkeypatch.setattr(worker.WorkerProcess, "_stop_lost", lambda *_: None)
    go = threading.Event()

    async def work(_):
        yield {"task": task()}
        await asyncio.to_thread(go.wait, 10)
        for number in range(50):
            yield made(f"{number}", append=number > 0)
            await asyncio.sleep(0.1)

    agent.sent = work
    agent.is_at("WORKING")
    begun = await talk.say()
    run = await until(lambda: (found := run_of(begun)).remote.get("taskId") and found)
    await db.run(lambda: Run.objects.filter(pk=run.pk).update(fence=F("fence") + 1))  # another has claimed it
    go.set()
    await until(lambda: "no longer its own" in str(run_of(begun).notes))
    work_there = await db.run(OpenWork.objects.get)
    assert not work_there.is_unwanted
    assert agent.count("CancelTask") == 0


async def test_cancels_before_the_first_answer_are_passed_on(agent, talk, monkeypatch):
    monkeypatch.setattr(worker.WorkerProcess, "_stop", lambda *_: None)  # it hears of it after the answer
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
    go.set()
    await until(lambda: "no longer its own" in str(run_of(begun).notes))
    await work_off(cancellation.CANCELS)
    await until(lambda: agent.count("CancelTask") == 1 and OpenWork.objects.count() == 0)


async def test_no_fallback_where_the_message_may_have_arrived(agent, ada, echo):
    policies = {"fallbacks": ["echo"], "retry_safe": True}
    talk = Talk(ada, await db.run(lambda: remote_agent(agent.card(), **policies)))
    agent.sent = in_turn(events(CUT), refusing(-32000, status=429, headers={"Retry-After": "100"}))
    failed = await talk.ask()
    assert (len(agent.sends), failed.state) == (2, "failed")
    assert "lost after the message was sent" in words(failed)


# With the SDK's server: words, files and questions are in the record, like a hosted agent's


@pytest.fixture
def sdk(ada):
    return Talk(ada, remote_agent(peers.peer().card))


async def seen_by(talk: Talk, text: str, **fields) -> dict:
    task = await talk.ask(text, **fields)
    assert task.state == "completed", words(task)
    [part] = (await db.run(delivered, task))["seen"]
    return part["data"]


SLOWLY = pytest.mark.slow("one binding, with streams, is enough")
PEERS = [
    "SDK 1.3 JSON-RPC",
    *(pytest.param(f"SDK 1.3 {one}", marks=SLOWLY) for one in ("without streams", "HTTP+JSON")),
]


@pytest.mark.parametrize("peer", PEERS)
async def test_it_delivers_asks_and_fails_like_the_agent(ada, peer):
    sdk = Talk(ada, await db.run(remote_agent, peers.peer(peer).card))
    counted = await sdk.ask("count 3")
    assert counted.state == "completed"
    assert await db.run(delivered, counted) == {"count": "1 2 3 "}
    [streamed] = [row.parts async for row in rows.Artifact.objects.filter(task=counted)]
    assert "without" in peer or len(streamed) == 1, "a stream is one text, as of a local agent"
    plain = await sdk.ask("message Hello back")
    assert (plain.state, words(plain)) == ("completed", "Hello back")
    assert await db.run(delivered, plain) == {"answer": "Hello back"}
    asked = await sdk.ask("ask")
    assert (asked.state, words(asked)) == ("input-required", "Which word?")
    first = await db.run(run_of, asked)
    answered = await sdk.ask("green", task=asked)
    assert (answered.state, await db.run(delivered, answered)) == ("completed", {"answer": "It was green."})
    second = await db.run(run_of, answered)
    assert second.pk != first.pk
    assert second.remote["taskId"] == first.remote["taskId"]
    failed = await sdk.ask("fail")
    assert (failed.state, words(failed)) == ("failed", "This went wrong, as was asked.")
    await until(lambda: OpenWork.objects.count() == 0)
    assert await db.run(is_whole, failed)


async def test_a_cancel_is_passed_on(sdk):
    task = await sdk.say("wait")
    await until(lambda: run_of(task).remote.get("taskId"))
    remote = (await db.run(run_of, task)).remote
    assert await db.run(OpenWork.objects.count) == 1
    await sdk.cancel(task)
    await until(lambda: OpenWork.objects.count() == 0)
    async with a2a_client.connect(cards.card_of(sdk.agent.current_version)) as peer:
        assert (await peer.get(remote["taskId"]))["status"]["state"] == "TASK_STATE_CANCELED"
    assert await db.run(is_whole, task)


async def test_what_was_sent_is_kept_and_not_repeated(sdk):
    seen = await seen_by(sdk, "look at this", metadata={"mine": 1})
    run = await Run.objects.aget()
    sent = run.input["sent"]["message"]
    assert digest_of(run.input) == run.input_hash
    assert {name: seen[name] for name in sent} == sent
    assert (sent["parts"], sent["metadata"]) == ([{"text": "look at this"}], {"mine": 1})
    later = await seen_by(sdk, "look")
    assert (later["contextId"], later["referenceTaskIds"]) == (run.remote["contextId"], [run.remote["taskId"]])
    assert later["parts"] == [{"text": "look"}]


async def test_a_fork_begins_a_remote_conversation_with_history(sdk, ada):
    first = await sdk.ask("the colour is green")
    second = await sdk.ask("the colour is red")
    before = (await db.run(run_of, first)).remote["contextId"]
    child = await db.run(fork, ada.principal, first.context, second.first_event - 1, reason="fork")
    other = Talk(ada, sdk.agent, child.context_id)
    seen = await seen_by(other, "look here")
    told = " ".join(part.get("text", "") for part in seen["parts"])
    assert seen.get("contextId") != before
    assert "the colour is green" in told
    assert "the colour is red" not in told
    await db.run(deletion.delete_context, ada.principal, sdk.agent, sdk.context_id)
    later = await seen_by(other, "look again")
    begun = (await db.run(run_of, await other.ask("look once more"))).remote["contextId"]
    assert later["contextId"] == begun != before
    assert later["parts"] == [{"text": "look again"}]


async def test_files_refused_inline_are_sent_as_links(agent, talk, client):
    agent.tells("COMPLETED", "Thanks.")
    agent.sent = in_turn(refusing(-32005), agent.sent)
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


async def test_a_lost_answer_is_sought_in_its_task(agent, talk):
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


async def test_what_other_agents_said_meanwhile_is_told_along(sdk, ada, echo):
    counted = await sdk.ask("count 1")
    other = Talk(ada, echo, sdk.context_id)
    await db.run(switch_agent, ada.principal, counted.context_id, echo)
    green = await other.ask("the colour is green")
    await db.run(switch_agent, ada.principal, green.context_id, sdk.agent)
    own, history = (await seen_by(sdk, "look again"))["parts"]
    assert own == {"text": "look again"}
    assert "User: the colour is green" in history["text"]
    assert "count 1" not in history["text"]
    assert (await seen_by(sdk, "look once more"))["parts"] == [{"text": "look once more"}], "nothing is told twice"


async def test_files_of_another_agents_task_are_told_along(sdk, ada):
    maker = await db.run(register_hosted, "maker", "tests.remote.peers.hosted:Acting")
    made = await Talk(ada, maker).ask("file")
    own, about, part = (await seen_by(sdk, "look here", referenceTaskIds=[str(made.pk)]))["parts"]
    assert own == {"text": "look here"}
    assert "delivered all.bin" in about["text"]
    assert "It was: file" in about["text"]
    assert (part["filename"], base64.b64decode(part["raw"])) == ("all.bin", peers.FILE)
