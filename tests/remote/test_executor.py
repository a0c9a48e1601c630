"""A remote agent's words, files and questions are in the record, like a hosted agent's."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import httpx
import pytest

import db
from agentkit import Artifact, SkillHandler
from apps.agents.registration import register_hosted
from apps.features.forks.forking import fork
from apps.features.sessions import deletion
from apps.features.sessions.commands import switch_agent
from apps.record import models as rows
from apps.record.content.strict_json import digest_of
from apps.record.execution import Run
from apps.remote import a2a_client, cards
from apps.remote.models import OpenWork
from tests.remote.conversing import Talk, delivered, is_whole, remote_agent, run_of, until, words
from tests.remote.peers import acting
from tests.remote.peers.starting import running

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("worker", "outward"),
    pytest.mark.services("turns of remote agents, by a worker"),
]


def served(*options: str) -> Iterator[dict]:
    with running("tests.remote.peers.sdk_server", *options) as url:
        yield httpx.get(f"{url}.well-known/agent-card.json", trust_env=False).json()


@pytest.fixture(scope="module")
def card() -> Iterator[dict]:
    yield from served()


@pytest.fixture(scope="module")
def quiet_card() -> Iterator[dict]:
    yield from served("--no-streaming")


@pytest.fixture
def talk(card, ada) -> Talk:
    return Talk(ada, remote_agent(card))


async def seen_by(talk: Talk, text: str, **fields) -> dict:
    task = await talk.ask(text, **fields)
    assert task.state == "completed", words(task)
    [part] = (await db.run(delivered, task))["seen"]
    return part["data"]


@pytest.mark.parametrize("kind", ["card", "quiet_card"])
async def test_it_delivers_asks_and_fails_as_the_agent_does_whether_it_streams_or_is_polled(ada, kind, request):
    talk = Talk(ada, await db.run(remote_agent, request.getfixturevalue(kind)))
    counted = await talk.ask("count 3")
    assert counted.state == "completed"
    assert await db.run(delivered, counted) == {"count": "1 2 3 "}
    [streamed] = [row.parts async for row in rows.Artifact.objects.filter(task=counted)]
    assert len(streamed) == (1 if kind == "card" else 3), "a stream is one text, as of a local agent"
    plain = await talk.ask("message Hello back")
    assert (plain.state, words(plain)) == ("completed", "Hello back")
    assert await db.run(delivered, plain) == {"answer": "Hello back"}
    asked = await talk.ask("ask")
    assert (asked.state, words(asked)) == ("input-required", "Which word?")
    first = await db.run(run_of, asked)
    answered = await talk.ask("green", task=asked)
    assert answered.state == "completed"
    assert await db.run(delivered, answered) == {"answer": "It was green."}
    second = await db.run(run_of, answered)
    assert second.pk != first.pk
    assert second.remote["taskId"] == first.remote["taskId"]
    failed = await talk.ask("fail")
    assert (failed.state, words(failed)) == ("failed", "This went wrong, as was asked.")
    await until(lambda: OpenWork.objects.count() == 0)
    assert await db.run(is_whole, failed)


async def test_a_cancel_is_passed_on(talk):
    task = await talk.say("wait")
    await until(lambda: run_of(task).remote.get("taskId"))
    remote = (await db.run(run_of, task)).remote
    assert await db.run(OpenWork.objects.count) == 1
    await talk.cancel(task)
    await until(lambda: OpenWork.objects.count() == 0)
    async with a2a_client.connect(cards.card_of(talk.agent.current_version)) as peer:
        assert (await peer.get(remote["taskId"]))["status"]["state"] == "TASK_STATE_CANCELED"
    assert await db.run(is_whole, task)


async def test_files_go_both_ways(talk):
    raw = base64.b64encode(b"x,y\n").decode()
    sheet = {"raw": raw, "filename": "in.csv", "mediaType": "text/csv"}
    took = await talk.ask(parts=[{"text": "take"}, sheet])
    assert await db.run(delivered, took) == {"received-0": acting.described("in.csv", b"x,y\n")}
    made = await talk.ask("file")
    [part] = (await db.run(delivered, made))["all.bin"]
    assert base64.b64decode(part["raw"]) == acting.FILE
    assert (part["filename"], part["mediaType"]) == ("all.bin", "application/octet-stream")


async def test_what_was_sent_is_kept_with_its_hash_and_a_later_task_repeats_nothing_that_is_known(talk):
    seen = await seen_by(talk, "look at this", metadata={"mine": 1})
    run = await Run.objects.aget()
    sent = run.input["sent"]["message"]
    assert digest_of(run.input) == run.input_hash
    assert {name: seen[name] for name in sent} == sent
    assert (sent["parts"], sent["metadata"]) == ([{"text": "look at this"}], {"mine": 1})
    later = await seen_by(talk, "look")
    assert (later["contextId"], later["referenceTaskIds"]) == (run.remote["contextId"], [run.remote["taskId"]])
    assert later["parts"] == [{"text": "look"}]


async def test_in_a_fork_the_remote_conversation_begins_anew_and_is_told_what_was_before(talk, ada):
    first = await talk.ask("the colour is green")
    second = await talk.ask("the colour is red")
    before = (await db.run(run_of, first)).remote["contextId"]
    child = await db.run(fork, ada.principal, first.context, second.first_event - 1, reason="fork")
    other = Talk(ada, talk.agent, child.context_id)
    seen = await seen_by(other, "look here")
    told = " ".join(part.get("text", "") for part in seen["parts"])
    assert seen.get("contextId") != before
    assert "the colour is green" in told
    assert "the colour is red" not in told
    await db.run(deletion.delete_context, ada.principal, talk.agent, talk.context_id)
    later = await seen_by(other, "look again")
    begun = (await db.run(run_of, await other.ask("look once more"))).remote["contextId"]
    assert later["contextId"] == begun != before
    assert later["parts"] == [{"text": "look again"}]


async def test_what_other_agents_said_meanwhile_is_told_along(talk, ada, echo):
    counted = await talk.ask("count 1")
    other = Talk(ada, echo, talk.context_id)
    await db.run(switch_agent, ada.principal, counted.context_id, echo)
    green = await other.ask("the colour is green")
    await db.run(switch_agent, ada.principal, green.context_id, talk.agent)
    own, history = (await seen_by(talk, "look again"))["parts"]
    assert own == {"text": "look again"}
    assert "User: the colour is green" in history["text"]
    assert "count 1" not in history["text"]
    assert (await seen_by(talk, "look once more"))["parts"] == [{"text": "look once more"}], "nothing is told twice"


async def test_files_of_a_task_that_another_agent_did_are_told_along(talk, ada):
    file = await db.run(register_hosted, "maker", "tests.remote.test_executor:Maker")
    made = await Talk(ada, file).ask("make it")
    assert made.state == "completed", words(made)
    own, about, part = (await seen_by(talk, "look here", referenceTaskIds=[str(made.pk)]))["parts"]
    assert own == {"text": "look here"}
    assert "delivered table.csv" in about["text"]
    assert "It was: make it" in about["text"]
    assert (part["filename"], base64.b64decode(part["raw"])) == ("table.csv", b"1,2")


class Maker(SkillHandler):
    async def on_request(self, task):
        return Artifact.bytes("table.csv", b"1,2", "text/csv")
