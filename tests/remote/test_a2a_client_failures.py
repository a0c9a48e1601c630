"""Wrong, slow, oversized or missing answers end in bounded time with a clear error."""

import asyncio
import gzip
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import hypothesis
import pytest
from hypothesis import strategies as st

from apps.remote import a2a_client, errors
from apps.remote.a2a_client import Peer
from apps.remote.agent_cards.cards import choose_interface
from tests.outbound.receiving import Answering, Server, server
from tests.remote.conversing import INTERNALS
from tests.remote.reaching import JSON, answer, card_at, event, head, said, stream, task

IDLE = 0.3
TASK = {"task": task()}
WORKING = {"statusUpdate": {"taskId": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_WORKING"}}}
DONE = {"statusUpdate": {"taskId": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_COMPLETED"}}}
CHUNK = {"artifactUpdate": {"taskId": "t-1", "contextId": "c-1", "artifact": {"artifactId": "a", "parts": []}}}


@pytest.fixture(autouse=True)
def _impatient(settings, outward):
    settings.REMOTE_IDLE_SECONDS = IDLE
    settings.REMOTE_CONNECT_SECONDS = 1.0


@asynccontextmanager
async def reached(answering: bytes | Answering, **options: Any) -> AsyncIterator[tuple[Peer, Server]]:
    async with server(answering) as serving, a2a_client.connect(card_at(serving.url, **options)) as peer:
        yield peer, serving


async def outcome_of(answering: bytes | Answering, **options: Any) -> tuple[list[JSON], errors.RemoteError | None]:
    """The result of a message, and its error, within bounded time."""
    came: list[JSON] = []
    begun = time.monotonic()
    try:
        async with reached(answering, **options) as (peer, _):
            async for one in peer.send(said("hello")):
                came.append(one)
    except errors.RemoteError as error:
        return came, error
    finally:
        assert time.monotonic() - begun < 5
    return came, None


def then(*steps: bytes | float | None) -> Answering:
    """Writes bytes, waits, and at None stays silent until the client leaves."""

    async def act(_: bytes, writer: asyncio.StreamWriter) -> None:
        for step in steps:
            if step is None:
                await asyncio.sleep(10)
            elif isinstance(step, float):
                await asyncio.sleep(step)
            else:
                writer.write(step)
                await writer.drain()

    return act


def dripped(start: bytes, drop: bytes, every: float = 0.05) -> Answering:
    """An endless answer, a little at a time."""

    async def act(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while not writer.is_closing():
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(every)

    return act


SSE = head("text/event-stream")
SILENT = "fell silent"
WRONG = {
    # answer: (bytes, error message)
    "not JSON": (head() + b"<html>", "not JSON"),
    "NaN": (head() + b'{"jsonrpc": "2.0", "result": {"task": NaN}}', "NaN"),
    "deep nesting": (head() + b"[" * 5000 + b"]" * 5000, "nested"),
    "neither result nor error": (head() + b'{"jsonrpc": "2.0", "id": 1}', "neither"),
    "a result of another shape": (answer({"task": "t-1"}), "form|without an id"),
    "nothing of the four": (answer({}), "exactly one"),
    "a task without a state": (answer({"task": {"id": "t-1"}}), "without a state"),
    "two of the four": (answer({"task": task(), "message": {"messageId": "m", "parts": []}}), "form|exactly one"),
    "a task without an id": (answer({"task": {"status": {"state": "TASK_STATE_WORKING"}}}), "without an id"),
    "a huge id": (answer({"task": task() | {"id": "t" * 10_000}}), "cannot be kept"),
    "an event of garbage": (SSE + event(TASK) + b"data: {{{\n\n", "not JSON"),
    "another task": (stream(TASK, {"task": task() | {"id": "t-2"}}), "another task"),
    "a redirect": (head("text/plain", "Location: http://10.0.0.1/", status="307 Temporary Redirect"), "redirect"),
    "a bomb": (head("application/json", "Content-Encoding: gzip") + gzip.compress(b"0" * 50_000_000), "unpack|larger"),
    "a head without end": (b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 20_000, "head|cannot be reached|broke off"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
async def test_wrong_answers_are_told(name):
    answering, words = WRONG[name]
    came, error = await outcome_of(answering)
    assert isinstance(error, errors.Misbehaved | errors.CutOff), (came, error)
    assert re.search(words, str(error)), error
    assert not re.search(INTERNALS, str(error))
    assert error.was_sent is not False


HANGING = {
    "before an answer": then(None),
    "after the head of a stream": then(SSE, None),
    "within an event": then(SSE, event(TASK), event(WORKING)[:-10], None),
    "a body that drips": dripped(head(length=10_000), b" "),
    "an event that drips in lines": dripped(SSE + event(TASK) + b"data: {\n", b"data:\n: on\n"),
}


async def test_silence_and_drips_are_cut_off():
    outcomes = await asyncio.gather(*map(outcome_of, HANGING.values()))
    for stage, (_, error) in zip(HANGING, outcomes, strict=True):
        assert isinstance(error, errors.CutOff), stage
        assert SILENT in str(error) or "in time" in str(error), stage
        assert (error.was_sent, error.is_transient) == (None, True), stage


async def test_lines_answers_and_streams_have_a_largest_size(settings):
    settings.REMOTE_ANSWER_BYTES, settings.REMOTE_STREAM_BYTES = 10_000, 30_000
    for answering in (dripped(SSE + b"data: ", b"x" * 5_000, every=0), head() + b" " * 20_000):
        _, error = await outcome_of(answering)
        assert isinstance(error, errors.Misbehaved)
        assert "10000 bytes" in str(error)
    came, error = await outcome_of(dripped(SSE + event(TASK), event(CHUNK), every=0))
    assert isinstance(error, errors.Misbehaved)
    assert len(came) > 10


async def test_answers_of_many_values_are_refused(settings):
    settings.REMOTE_ANSWER_VALUES = 1000
    _, error = await outcome_of(answer({"task": task(metadata={"x": [[]] * 1000})}))
    assert isinstance(error, errors.Misbehaved)
    assert "1000 values" in str(error)


def at_time(timestamp: str) -> JSON:
    return {"status": {"state": "TASK_STATE_WORKING", "timestamp": timestamp}}


READ = {
    # name: (what is sent, how it is read)
    "no zone": (at_time("2026-11-21T16:38:10.123456"), at_time("2026-11-21T16:38:10.123456Z")),
    "a time beyond all": (at_time("9999-12-31T23:59:59-10:00"), {"status": {"state": "TASK_STATE_WORKING"}}),
    "numbers": ({"metadata": {"x": [2**60 + 1, 1, 0.5]}},) * 2,
    "unstorable text": ({"metadata": {"x": "\0\ud800"}}, {"metadata": {"x": "\ufffd\ufffd"}}),
    "unknown fields": ({"hologram": {"x": 1}, "context_id": "c"}, {"hologram": {"x": 1}, "contextId": "c"}),
}


@pytest.mark.parametrize("name", READ)
async def test_answers_are_read_as_they_are_meant(name):
    sent, meant = READ[name]
    named = {key: value for key, value in task().items() if "context_id" not in sent or key != "contextId"}
    [came], error = await outcome_of(SSE + f"data: {json.dumps({'result': {'task': named | sent}})}\n\n".encode())
    assert (error, came, repr(came["task"].get("metadata"))) == (
        None, {"task": task() | meant}, repr(meant.get("metadata")),
    )  # fmt: skip


OLD_TASK = {
    "kind": "task", "id": "t-1", "contextId": "c-1", "status": {"state": "completed"},
    "artifacts": [{"artifactId": "a", "parts": [{"kind": "data", "data": {"id": 2**60 + 1, "half": 0.5, "one": 1}}]}],
}  # fmt: skip


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_messages_go_out_unchanged_with_large_numbers(version):
    data = {"id": 2**60 + 1, "others": [-(2**53) - 1, 1, 1.5]}
    message = said("hello", parts=[{"data": data}])
    answers = answer(TASK if version == "1.0" else OLD_TASK)
    async with reached(answers, version=version, streams=False, tenant="acme") as (peer, serving):
        [came] = [one async for one in peer.send(message, metadata={"n": 2**61 + 1})]
    params = json.loads(serving.requests[0].partition(b"\r\n\r\n")[2])["params"]
    assert params["message"]["parts"][0]["data"] == data
    assert params["metadata"]["n"] == 2**61 + 1
    if version == "1.0":
        assert (json.dumps(params["message"]), params["tenant"]) == (json.dumps(message), "acme")
    else:
        assert came["task"]["artifacts"][0]["parts"][0]["data"] == {"id": 2**60 + 1, "half": 0.5, "one": 1}


def refused(status: str, *headers: str, body: bytes = b"") -> bytes:
    return head("text/plain", *headers, status=status, length=len(body)) + body


def rpc_error(**error: Any) -> bytes:
    return head() + json.dumps({"error": error}).encode()


def event_of_error(**error: Any) -> bytes:
    return b"event: error\ndata: %b\n\n" % json.dumps({"error": error}).encode()


REASON = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "OUT_OF_CHEESE"}
OLD_REFUSAL = head(status="404 Not Found") + b'{"type": "TaskNotFoundError", "message": "gone"}'
LOST_BY_PROXY = b"upstream: reset reason: connection termination"
ASKS = 'Bearer realm="x"'
CHALLENGE = f"WWW-Authenticate: {ASKS}"
LATER = {"retry_after": 7, "was_sent": False, "is_transient": True}
HIDDEN = f"a b c{'x' * 295}…"
PAST = "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT"
ERRORS: dict[str, tuple[bytes | Answering, str, dict[str, Any]]] = {
    # answer: (bytes, error, its attributes)
    "a code of A2A": (rpc_error(code=-32001, message="gone"), "Refused", {"reason": "TASK_NOT_FOUND", "said": "gone"}),
    "a reason": (rpc_error(code=-32050, message="no", data=[REASON]), "Refused", {"reason": "OUT_OF_CHEESE"}),
    "an error in a stream": (SSE + event_of_error(code=-32603, message="x"), "Refused", {"reason": "INTERNAL_ERROR"}),
    "a server that broke": (refused("502 Bad Gateway"), "Refused", {"is_transient": True, "was_sent": None}),
    "no credential": (refused("401 No", CHALLENGE), "Unauthorized", {"challenge": ASKS, "was_sent": False}),
    "too many": (refused("429 No", "Retry-After: 7"), "Overloaded", LATER),
    "until the past": (refused("503 No", PAST), "Overloaded", {"retry_after": 0}),
    "unavailable": (refused("503 No", "Retry-After: soon"), "Overloaded", {"retry_after": None, "was_sent": False}),
    "a proxy that lost the agent": (refused("503 No", body=LOST_BY_PROXY), "Overloaded", {"was_sent": None}),
    "no words": (then(head(status="400 No", length=100), None), "Refused", {"reason": "HTTP_400", "said": ""}),
    "0.3 over HTTP": (OLD_REFUSAL, "Refused", {"reason": "TASK_NOT_FOUND", "said": "gone"}),
    "hidden characters": (rpc_error(code=-32000, message="a\u202eb\n\x1bc" + "x" * 900), "Refused", {"said": HIDDEN}),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
async def test_errors_are_told_apart(name):
    answering, kind, attributes = ERRORS[name]
    _, error = await outcome_of(answering)
    assert type(error).__name__ == kind, error
    assert not re.search(INTERNALS, str(error))
    assert {name: getattr(error, name) for name in attributes} == attributes


async def test_streams_go_on_after_the_last_event():
    async with reached(SSE + b"id: 41\n" + event(TASK) + b"id: 42\n" + event(DONE)) as (peer, serving):
        [_, _] = [one async for one in peer.send(said("hello"))]
        assert peer.event_id == "42"
        [_, _] = [one async for one in peer.subscribe("t-1", after=peer.event_id)]
    assert b"last-event-id: 42" in serving.requests[1].lower()


async def test_answers_about_another_task_are_refused():
    async with reached(answer(task() | {"id": "t-2"})) as (peer, _):
        for asking in (peer.get, peer.cancel):
            with pytest.raises(errors.Misbehaved, match="another task"):
                await asking("t-1")
    config = {"url": "http://127.0.0.1/", "taskId": "t-2"}
    async with reached(answer(config)) as (peer, _):
        with pytest.raises(errors.Misbehaved, match="another task"):
            await peer.set_webhook("t-1", {"url": "http://127.0.0.1/"})


@pytest.mark.parametrize("data", [{"a": 2**60 + 1, "b": 2**60 + 2}, {"a": 10**399}])
async def test_numbers_that_would_change_are_not_sent(data):
    async with reached(answer(OLD_TASK), version="0.3", streams=False) as (peer, serving):
        with pytest.raises(errors.Unsendable):
            [one async for one in peer.send(said("hello", parts=[{"data": data}]))]
    assert serving.requests == []


async def test_subscriptions_by_get_are_tried_too():
    async def only_get(request: bytes, writer: asyncio.StreamWriter) -> None:
        bare = SSE + b"data: %b\n\n" % json.dumps(TASK).encode()
        writer.write(bare if request.startswith(b"GET") else refused("405 Method Not Allowed"))

    async with reached(only_get, binding="HTTP+JSON") as (peer, serving):
        assert [one async for one in peer.subscribe("t-1")] == [TASK]
    assert [request.split()[0] for request in serving.requests] == [b"POST", b"GET"]


# Any answer at all

KINDS = ["task", "message", "statusUpdate", "artifactUpdate"]
WAYS = [("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3"), ("HTTP+JSON", "0.3")]
WORDS = [
    *KINDS, "msg", "error", "result", "kind", "id", "taskId", "contextId", "status", "state", "artifact", "artifacts",
    "artifactId", "parts", "text", "data", "raw", "metadata", "history", "messageId", "role", "timestamp", "final",
]  # fmt: skip
VALUES = ["TASK_STATE_WORKING", "working", "task", "message", "status-update", "artifact-update", "ROLE_AGENT", "t-1"]
# Where an object should be stands an empty list, which protobuf reads as one.
EMPTY_INSTEAD = task(artifacts=[{"artifactId": "a-1", "parts": [[]]}], history=[[]])
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
anything = st.recursive(
    scalars | st.text(max_size=4) | st.sampled_from(VALUES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=20,
)


@st.composite
def nearly_right(draw):
    """A task of 1.0 or 0.3 with one odd value."""
    part: JSON = {"text": "x"}
    artifact: JSON = {"artifactId": "a", "parts": [part], "metadata": {"n": 1}}
    made = task(artifacts=[artifact])
    if draw(st.booleans()):
        made |= {"kind": "task", "status": {"state": "working"}}
        part["kind"] = "text"
    odd: JSON = draw(st.sampled_from([made, made["status"], artifact, part]))
    odd[draw(st.sampled_from([*odd, *WORDS]))] = draw(anything)
    return made


@hypothesis.given(way=st.sampled_from(WAYS), streams=st.booleans(), value=anything | nearly_right())
@hypothesis.example(way=WAYS[0], streams=False, value=EMPTY_INSTEAD)
@hypothesis.example(way=WAYS[3], streams=True, value=EMPTY_INSTEAD)
@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_any_answer_is_read_or_refused(way, streams, value):
    card = card_at("http://a.example/", *way, streams=streams)
    wrapped = value if way[1] == "0.3" else {"task": value}
    sent = json.dumps({"jsonrpc": "2.0", "id": "1", "result": wrapped} if way[0] == "JSONRPC" else {"task": value})
    headers = {"Content-Type": "text/event-stream" if streams else "application/json"}
    text = f"data: {sent}\n\n" if streams else sent
    always = httpx.MockTransport(lambda _: httpx.Response(200, text=text, headers=headers))
    peer = Peer(card, choose_interface(card), always, None, {})

    async def ask():
        return [one async for one in peer.send(said("hello"))]

    with suppress(errors.RemoteError):
        for came in asyncio.run(ask()):
            assert len(set(KINDS) & set(came)) == 1
            json.dumps(came, allow_nan=False).encode()
