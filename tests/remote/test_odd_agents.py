"""What agents of other makers send in unusual forms reaches the record: all that was said, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import db
from agentkit.outcomes import NO_ANSWER
from apps.record import wire
from apps.record.models import Event
from apps.web.sessions import entries
from tests.remote.card_server import card
from tests.remote.conversing import JSON, Talk, delivered, is_whole, remote_agent, run_of, words
from tests.remote.scripted import serving_app

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


class OddAgent:
    """Answers each JSON-RPC method from a table: a list is a stream; a method that is missing is refused."""

    def __init__(self) -> None:
        self.url, self.answers = "", {}

    async def answer(self, request: Request) -> Response:
        body = json.loads(await request.body())
        if (given := self.answers.get(body["method"])) is None:
            return JSONResponse({"jsonrpc": "2.0", "id": body["id"], "error": {"code": -32601, "message": "no"}})
        frames = [{"jsonrpc": "2.0", "id": body["id"], "result": one} for one in _as_list(given)]
        if not isinstance(given, list):
            return JSONResponse(frames[0])
        text = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames)
        return Response(text, media_type="text/event-stream")


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@pytest.fixture
def agent() -> Iterator[OddAgent]:
    odd = OddAgent()
    with serving_app(Starlette(routes=[Route("/", odd.answer, methods=["POST"])])) as odd.url:
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

ANSWERS: dict[str, tuple[JSON, str, list[str]]] = {
    # what the agent sends, its words, the text of its artifacts
    "nothing": ({"SendMessage": task("TASK_STATE_COMPLETED")}, "", []),
    "append first": (
        stream(task(), piece("one ", append=True), piece("two", append=True, lastChunk=True), update()),
        "one two",
        ["one two"],
    ),
    "append first, told again": (
        stream(
            task(),
            piece("one ", append=True),
            piece("two", append=True),
            update(),
            then=task("TASK_STATE_COMPLETED", artifacts=[{"artifactId": "a", "parts": [{"text": "one two"}]}]),
        ),
        "one two",
        ["one two"],
    ),
    "the end of an artifact, told again": (
        stream(
            task(),
            piece("two", append=True),
            update(),
            then=task("TASK_STATE_COMPLETED", artifacts=[{"artifactId": "a", "parts": [{"text": "one two"}]}]),
        ),
        "one two",
        ["one two"],
    ),
    "message in a task's stream": (stream(task(), {"message": spoken("42", **IDS)}, update()), "42", ["42"]),
    "a message and the last word": (
        stream(task(), {"message": spoken("42", **IDS)}, update(message=spoken("Done.", key="n"))),
        "42Done.",
        ["42Done."],
    ),
    "message repeated as the last word": (
        stream(task(), {"message": spoken("42", **IDS)}, update(message=spoken("42"))),
        "42",
        ["42"],
    ),
    "0.3: message in pieces": (
        {"message/stream": [OLD_WORKING, old("The answer "), old("is 42."), OLD_DONE]},
        "The answer is 42.",
        ["The answer is 42."],
    ),
    "0.3: message in pieces, told again": (
        {
            "message/stream": [OLD_WORKING, old("The answer "), old("is 42."), OLD_DONE],
            "tasks/get": old_task(old("The answer is 42.")),
        },
        "The answer is 42.",
        ["The answer is 42."],
    ),
    "0.3: history only": ({"message/send": old_task(old("q", "u", role="user"), old("42"))}, "42", ["42"]),
    "polled, told as message and as artifact": (
        {
            "SendMessage": task(),
            "GetTask": task(
                "TASK_STATE_COMPLETED",
                artifacts=[{"artifactId": "a", "name": "result", "parts": [{"text": "42"}]}],
                history=[spoken("42")],
            )["task"]
            | {"status": {"state": "TASK_STATE_COMPLETED", "message": spoken("42")}},
        },
        "42",
        ["42"],
    ),
    "message first": (stream({"message": spoken("just words")}), "just words", ["just words"]),
    "null fields": (
        stream(
            {"task": {**task()["task"], **NULLS}}, piece("one ", metadata=None), piece("two", append=True), update()
        ),
        "one two",
        ["one two"],
    ),
    "numbers for names": (stream(task(1), update(3, message=spoken("numeric", role=2))), "numeric", ["numeric"]),
    "flat events": (stream(task(), FLAT_PIECE, FLAT_END), "flat", ["flat"]),
    "mixed dialects": (stream(task(progress=1), {"statusUpdate": {**IDS, "status": MIXED}}), "mixed", ["mixed"]),
    "replaced artifact": (stream(task(), piece("draft"), piece("final", append=False), update()), "final", ["final"]),
    "snapshot last": (
        stream(task(), task("TASK_STATE_COMPLETED", artifacts=[{"artifactId": "a", "parts": [{"text": "all"}]}])),
        "all",
        ["all"],
    ),
    "empty context": (stream(task(), piece("x", ids={"taskId": "t", "contextId": ""}), update()), "x", ["x"]),
    "another context": (stream(task(), piece("x", ids={"taskId": "t", "contextId": "d"}), update()), "x", ["x"]),
    "unreadable frame": (
        stream(task(), {"artifactUpdate": {**IDS}}, then=task("TASK_STATE_COMPLETED", history=[spoken("42")])),
        "42",
        ["42"],
    ),
}
QUESTIONS = {
    "sign-in": (stream(task(), update("TASK_STATE_AUTH_REQUIRED", message=spoken("Sign in"))), "auth-required"),
    "question": (
        stream(update("TASK_STATE_WORKING"), update("TASK_STATE_INPUT_REQUIRED", message=spoken("Sign in"))),
        "input-required",
    ),
}


def talk_with(agent: OddAgent, ada: Any, answers: JSON) -> Talk:
    agent.answers = answers
    streams = any("tream" in name for name in answers)
    is_old = any("/" in name for name in answers)
    described = card(agent.url, capabilities={"streaming": streams})
    if is_old:
        described = {name: value for name, value in described.items() if name != "supportedInterfaces"}
        described |= {"url": agent.url, "protocolVersion": "0.3.0", "preferredTransport": "JSONRPC"}
    return Talk(ada, remote_agent(described))


@pytest.mark.parametrize("kind", ANSWERS)
async def test_all_that_an_agent_said_is_kept(agent, ada, kind):
    answers, said, made = ANSWERS[kind]
    talk = await db.run(talk_with, agent, ada, answers)
    done = await talk.ask()
    assert (done.state, words(done)) == ("completed", said), (await db.run(run_of, done)).notes
    assert list((await db.run(delivered, done)).values()) == made
    assert await db.run(is_whole, done)


@pytest.mark.parametrize("kind", QUESTIONS)
async def test_a_question_survives_a_closed_stream(agent, ada, kind):
    answers, state = QUESTIONS[kind]
    talk = await db.run(talk_with, agent, ada, answers)
    asked = await talk.ask()
    assert (asked.state, words(asked)) == (state, "Sign in")


async def test_a_silent_completion_is_shown_as_such(agent, ada):
    talk = await db.run(talk_with, agent, ada, {"SendMessage": task("TASK_STATE_COMPLETED")})
    done = await talk.ask()
    sent = await db.run(wire.load_task, done)
    assert "message" not in sent["status"]
    assert sent["artifacts"] == []
    assert [one["role"] for one in sent["history"]] == ["ROLE_USER"]
    events = await db.run(lambda: list(Event.objects.filter(context=done.context_id).order_by("index")))
    shown = await db.run(entries.entries_of, done.context, events)
    assert shown[-1]["message"]["text"] == NO_ANSWER


async def test_artifacts_without_words_are_an_answer(agent, ada):
    named = {"artifactId": "b", "name": "two.txt", "parts": [{"text": "two"}]}
    events = [task(), piece("one"), {"artifactUpdate": {**IDS, "artifact": named}}, update()]
    talk = await db.run(talk_with, agent, ada, stream(*events))
    done = await talk.ask()
    sent = await db.run(wire.load_task, done)
    assert "message" not in sent["status"]
    assert [one["parts"][0]["text"] for one in sent["artifacts"]] == ["one", "two"]
    kept = await db.run(lambda: list(Event.objects.filter(context=done.context_id).order_by("index")))
    shown = await db.run(entries.entries_of, done.context, kept)
    assert shown[-1]["message"]["text"] == ""
    assert await db.run(is_whole, done)


@pytest.mark.parametrize("made", [[], [piece("one"), piece("two", key="b")]])
async def test_metadata_without_words_is_no_sentence(agent, ada, made):
    empty = {"messageId": "m", "role": "ROLE_AGENT", "parts": [], "metadata": {"cost": 3}}
    talk = await db.run(talk_with, agent, ada, stream(task(), *made, update(message=empty)))
    done = await talk.ask()
    sent = await db.run(wire.load_task, done)
    assert (sent["history"][-1]["parts"], sent["history"][-1]["metadata"]["cost"]) == ([], 3)
    assert len(sent["artifacts"]) == len(made)
    assert await db.run(is_whole, done)
