"""What agents of other makers send in unusual forms reaches the record: all that was said, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit.outcomes import NO_ANSWER
from apps.conversations.pages.session import entries
from apps.record import wire
from apps.record.models import Event
from parley import db
from tests.remote.card_server import card, old_card
from tests.remote.conversing import JSON, Talk, delivered, is_whole, remote_agent, run_of, words
from tests.remote.scripted import Scripted, serving

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("worker", "outward"),
    pytest.mark.services("turns of remote agents, by a worker"),
]
IDS = {"taskId": "t", "contextId": "c"}
OLD_DONE = {"kind": "status-update", **IDS, "final": True, "status": {"state": "completed"}}
OLD_WORKING = {"kind": "status-update", **IDS, "final": False, "status": {"state": "working"}}


@pytest.fixture(autouse=True)
def quick(settings):
    settings.REMOTE_POLL_SECONDS = (0.02, 0.1)
    settings.REMOTE_CONFIRM_SECONDS = 0.3
    settings.REMOTE_RETRY_SECONDS = 0.5


@pytest.fixture
def agent():
    with serving() as odd:
        yield odd


def task(state: Any = "TASK_STATE_WORKING", **more: Any) -> JSON:
    return {"task": {"id": "t", "contextId": "c", "status": {"state": state}, **more}}


def update(state: Any = "TASK_STATE_COMPLETED", **more: Any) -> JSON:
    return {"statusUpdate": {**IDS, "status": {"state": state, **more}}}


def piece(text: str, key: str = "a", ids: JSON = IDS, **more: Any) -> JSON:
    return {"artifactUpdate": {**ids, "artifact": {"artifactId": key, "parts": [{"text": text}]}, **more}}


def spoken(text: str, role: Any = "ROLE_AGENT", key: str = "m", **more: Any) -> JSON:
    return {"messageId": key, "role": role, "parts": [{"text": text}], **more}


def old(text: str, key: str = "m", role: str = "agent", **more: Any) -> JSON:
    parts = [{"kind": "text", "text": text}]
    return {"kind": "message", "messageId": key, "role": role, "parts": parts, **IDS, **more}


def old_task(*history: JSON) -> JSON:
    return {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "completed"}, "history": list(history)}


def stream(*events: JSON, then: JSON | None = None) -> JSON:
    return {"SendStreamingMessage": list(events)} | ({"GetTask": then["task"]} if then else {})


NULLS = {"status": {"state": "TASK_STATE_WORKING", "message": None, "timestamp": None}, "artifacts": None}
FLAT_PIECE = {"kind": "artifact-update", **piece("flat")["artifactUpdate"], "lastChunk": True}
FLAT_END = {"kind": "status-update", **update()["statusUpdate"], "final": True}
MIXED = {"state": "completed", "message": {"kind": "message", **spoken("mixed", role="agent")}}
DONE = "TASK_STATE_COMPLETED"
TOLD_AGAIN = task(DONE, artifacts=[{"artifactId": "a", "parts": [{"text": "one two"}]}])
OLD_PIECES = {"message/stream": [OLD_WORKING, old("The answer "), old("is 42."), OLD_DONE]}
POLLED = {
    **task(artifacts=[{"artifactId": "a", "parts": [{"text": "42"}]}], history=[spoken("42")])["task"],
    "status": {"state": DONE, "message": spoken("42")},
}
LAST = task(DONE, artifacts=[{"artifactId": "a", "parts": [{"text": "all"}]}])
SAYS_42 = {"message": spoken("42", **IDS)}

ANSWERS: dict[str, tuple[JSON, str]] = {
    # what the agent sends; its words, which are its artifact's text
    "append first, told again": (
        stream(task(), piece("one ", append=True), piece("two", append=True), update(), then=TOLD_AGAIN), "one two",
    ),
    "message in a task's stream": (stream(task(), SAYS_42, update()), "42"),
    "a message and the last word": (stream(task(), SAYS_42, update(message=spoken("Done.", key="n"))), "42Done."),
    "0.3: message in pieces": (OLD_PIECES, "The answer is 42."),
    "0.3: message in pieces, told again": (
        OLD_PIECES | {"tasks/get": old_task(old("The answer is 42."))}, "The answer is 42.",
    ),
    "0.3: history only": ({"message/send": old_task(old("q", "u", role="user"), old("42"))}, "42"),
    "polled, told as message and as artifact": ({"SendMessage": task(), "GetTask": POLLED}, "42"),
    "null fields": (
        stream({"task": task()["task"] | NULLS}, piece("one ", metadata=None), piece("two", append=True), update()),
        "one two",
    ),
    "flat events": (stream(task(), FLAT_PIECE, FLAT_END), "flat"),
    "mixed dialects": (stream(task(progress=1), {"statusUpdate": {**IDS, "status": MIXED}}), "mixed"),
    "replaced artifact": (stream(task(), piece("draft"), piece("final", append=False), update()), "final"),
    "another context": (stream(task(), piece("x", ids={"taskId": "t", "contextId": "d"}), update()), "x"),
    "unreadable frame": (
        stream(task(), {"artifactUpdate": {**IDS}}, then=task(DONE, history=[spoken("42")])), "42",
    ),
}  # fmt: skip


def talk_with(agent: Scripted, ada: Any, answers: JSON, slug: str = "remote") -> Talk:
    agent.others, agent.unknown = answers, ("SubscribeToTask", *({"GetTask", "tasks/get"} - set(answers)))
    make = old_card if any("/" in name for name in answers) else card
    streams = any("tream" in name for name in answers)
    return Talk(ada, remote_agent(make(agent.url, capabilities={"streaming": streams}), slug))


async def test_all_that_an_agent_said_is_kept(ada, subtests):
    for number, (kind, (answers, said)) in enumerate(ANSWERS.items()):
        with subtests.test(kind), serving() as agent:
            done = await (await db.run(talk_with, agent, ada, answers, f"odd-{number}")).ask()
            assert (done.state, words(done)) == ("completed", said), (await db.run(run_of, done)).notes
            assert list((await db.run(delivered, done)).values()) == [said]
            assert await db.run(is_whole, done)


@pytest.mark.parametrize(
    ("first", "state"),
    [(task(), "TASK_STATE_AUTH_REQUIRED"), (update("TASK_STATE_WORKING"), "TASK_STATE_INPUT_REQUIRED")],
)
async def test_a_question_survives_a_closed_stream(agent, ada, first, state):
    talk = await db.run(talk_with, agent, ada, stream(first, update(state, message=spoken("Sign in"))))
    asked = await talk.ask()
    assert (f"TASK_STATE_{asked.state.upper().replace('-', '_')}", words(asked)) == (state, "Sign in")


SILENT = {"messageId": "m", "role": "ROLE_AGENT", "parts": [], "metadata": {"cost": 3}}
TWO = [piece("one"), piece("two", key="b")]


@pytest.mark.parametrize(
    ("answers", "shown", "made"),
    [
        ({"SendMessage": task(DONE)}, NO_ANSWER, []),
        (stream(task(), *TWO, update(message=SILENT)), "", ["one", "two"]),
    ],
    ids=["nothing", "both"],
)
async def test_nobody_puts_words_into_silence(agent, ada, answers, shown, made):
    talk = await db.run(talk_with, agent, ada, answers)
    done = await talk.ask()
    sent = await db.run(wire.load_task, done)
    if "cost" in str(answers):
        assert (sent["history"][-1]["parts"], sent["history"][-1]["metadata"]["cost"]) == ([], 3)
    else:
        assert "message" not in sent["status"]
        assert [one["role"] for one in sent["history"]] == ["ROLE_USER"]
    assert [one["parts"][0]["text"] for one in sent["artifacts"]] == made
    events = await db.run(lambda: list(Event.objects.filter(context=done.context_id).order_by("index")))
    entry = (await db.run(entries.entries_of, done.context, events))[-1]
    assert entry["message"]["text"] == shown
    assert await db.run(is_whole, done)
