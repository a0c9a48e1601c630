"""Wrong, slow, oversized or missing answers end in bounded time with a clear error."""

import asyncio
import gzip
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import outbound
from apps.remote import a2a_client
from apps.remote.a2a_client import Peer
from apps.remote.errors import (
    CutOff,
    Misbehaved,
    Overloaded,
    Refused,
    RemoteError,
    Unauthorized,
    Unreachable,
    Unsendable,
)
from tests.outbound.receiving import Answering, Server, server
from tests.remote.reaching import JSON, answer, card_at, event, head, said, stream, task

IDLE = 0.3
TASK = {"task": task()}
WORKING = {"statusUpdate": {"taskId": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_WORKING"}}}
DONE = {"statusUpdate": {"taskId": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_COMPLETED"}}}
OTHER_TASK = {"statusUpdate": DONE["statusUpdate"] | {"taskId": "t-2"}}
CHUNK = {"artifactUpdate": {"taskId": "t-1", "contextId": "c-1", "artifact": {"artifactId": "a", "parts": []}}}


@pytest.fixture(autouse=True)
def _impatient(settings: Any, outward: None) -> None:
    settings.REMOTE_IDLE_SECONDS = IDLE
    settings.REMOTE_CONNECT_SECONDS = 1.0


@pytest.fixture(autouse=True)
def _answers_are_read_strictly() -> None:
    """Here the SDK's client is as people have it and ignores unknown fields."""


@asynccontextmanager
async def reached(answering: bytes | Answering, **options: Any) -> AsyncIterator[tuple[Peer, Server]]:
    async with server(answering) as serving, a2a_client.connect(card_at(serving.url, **options)) as peer:
        yield peer, serving


async def outcome_of(answering: bytes | Answering, **options: Any) -> tuple[list[JSON], RemoteError | None]:
    """The result of a message, and its error, within bounded time."""
    came: list[JSON] = []
    begun = time.monotonic()
    try:
        async with reached(answering, **options) as (peer, _):
            async for one in peer.send(said("hello")):
                came.append(one)
    except RemoteError as error:
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
    "no UTF-8": (head() + b'"\xff\xfe"', "not UTF-8"),
    "NaN": (head() + b'{"jsonrpc": "2.0", "result": {"task": NaN}}', "NaN"),
    "a key twice": (head() + b'{"result": 1, "result": 2}', "twice"),
    "deep nesting": (head() + b"[" * 5000 + b"]" * 5000, "nested"),
    "very deep nesting": (head() + b"[" * 200_000 + b"]" * 200_000, "values|nested"),
    "a number without end": (head() + b'{"result": ' + b"9" * 5000 + b"}", "digits"),
    "neither result nor error": (head() + b'{"jsonrpc": "2.0", "id": 1}', "neither"),
    "a result of another shape": (answer({"task": "t-1"}), "form|without an id"),
    "nothing of the four": (answer({}), "exactly one"),
    "two of the four": (answer({"task": task(), "message": {"messageId": "m", "parts": []}}), "form|exactly one"),
    "a task without an id": (answer({"task": {"status": {"state": "TASK_STATE_WORKING"}}}), "without an id"),
    "a huge id": (answer({"task": task() | {"id": "t" * 10_000}}), "cannot be kept"),
    "an id with control characters": (answer({"task": task() | {"id": "t\n"}}), "cannot be kept"),
    "an event of garbage": (SSE + event(TASK) + b"data: {{{\n\n", "not JSON"),
    "another task": (stream(TASK, {"task": task() | {"id": "t-2"}}), "another task"),
    "a redirect": (head("text/plain", "Location: http://10.0.0.1/", status="307 Temporary Redirect"), "redirect"),
    "a bomb": (head("application/json", "Content-Encoding: gzip") + gzip.compress(b"0" * 50_000_000), "unpack|larger"),
    "a bomb in a stream": (
        head("text/event-stream", "Content-Encoding: gzip") + gzip.compress(b"data: " + b"0" * 50_000_000),
        "unpack|more than",
    ),
    "a head without end": (b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 20_000, "head|cannot be reached|broke off"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
async def test_what_is_wrong_is_told(name):
    answering, words = WRONG[name]
    came, error = await outcome_of(answering)
    assert isinstance(error, Misbehaved | CutOff), (came, error)
    assert re.search(words, str(error)), error
    assert error.was_sent is not False


HANGING = {
    "before an answer": then(None),
    "within a body": then(head(length=100), b'{"json', None),
    "after the head of a stream": then(SSE, None),
    "within an event": then(SSE, event(TASK), event(WORKING)[:-10], None),
    "between events": then(SSE, event(TASK), None),
    "a body that drips": dripped(head(length=10_000), b" "),
    "an event that drips in lines": dripped(SSE + event(TASK) + b"data: {\n", b"data:\n: on\n"),
    "a comment that drips": dripped(SSE + event(TASK) + b": ", b"x"),
}


async def test_who_falls_silent_or_drips_is_cut_off():
    outcomes = await asyncio.gather(*map(outcome_of, HANGING.values()))
    for stage, (_, error) in zip(HANGING, outcomes, strict=True):
        assert isinstance(error, CutOff), stage
        assert SILENT in str(error) or "in time" in str(error), stage
        assert (error.was_sent, error.is_transient) == (None, True), stage
    _, error = await outcome_of(dripped(b"HTTP/1.1 200 OK\r\nX-A: ", b"x"))
    assert isinstance(error, CutOff)


async def test_comments_keep_a_quiet_stream_open():
    events = then(SSE, event(TASK), *[0.05, b": still there\n\n"] * 16, event(DONE))
    came, error = await outcome_of(events)
    assert (came, error) == ([TASK, DONE], None)


async def test_a_stream_may_be_cut_after_each_event():
    events = [TASK, WORKING, CHUNK, DONE]
    for kept in range(4):
        came, error = await outcome_of(stream(*events[:kept]))
        assert [next(iter(one)) for one in came] == [next(iter(one)) for one in events[:kept]]
        assert error is None  # the agent is asked whether the task ended


async def test_a_stream_that_breaks_off_is_told_from_one_that_ends():
    head_of_chunks = head("text/event-stream", "Transfer-Encoding: chunked")
    first = event(TASK)
    came, error = await outcome_of(head_of_chunks + b"%x\r\n%b\r\n" % (len(first), first) + b"40\r\ndata: ")
    assert came == [TASK]
    assert isinstance(error, CutOff)
    assert "broke off" in str(error)


async def test_a_line_an_answer_and_a_stream_may_be_only_so_large(settings):
    settings.REMOTE_ANSWER_BYTES, settings.REMOTE_STREAM_BYTES = 10_000, 30_000
    for answering in (dripped(SSE + b"data: ", b"x" * 5_000, every=0), head() + b" " * 20_000):
        _, error = await outcome_of(answering)
        assert isinstance(error, Misbehaved)
        assert "10000 bytes" in str(error)
    came, error = await outcome_of(dripped(SSE + event(TASK), event(CHUNK), every=0))
    assert isinstance(error, Misbehaved)
    assert len(came) > 10


async def test_many_small_values_are_not_held_but_a_long_text_of_commas_is(settings):
    settings.REMOTE_ANSWER_VALUES = 1000
    _, error = await outcome_of(answer({"task": task(metadata={"x": [[]] * 1000})}))
    assert isinstance(error, Misbehaved)
    assert "1000 values" in str(error)
    [came], error = await outcome_of(answer({"task": task(metadata={"x": ',[{"' * 5000})}))
    assert error is None
    assert came["task"]["metadata"]["x"] == ',[{"' * 5000


async def test_one_answer_is_taken_for_a_stream_and_a_stream_for_one_answer_is_not():
    done = {"task": task("TASK_STATE_COMPLETED")}
    assert await outcome_of(answer(done)) == ([done], None)
    _, error = await outcome_of(stream(TASK), streams=False)
    assert isinstance(error, Misbehaved)
    came, error = await outcome_of(stream(TASK, DONE, WORKING))  # events after the end are passed on
    assert (len(came), error) == (3, None)


async def test_unescaped_line_separators_do_not_break_events():
    text = json.dumps({"result": {"task": task(metadata={"x": "a\u2028b\x85c"})}}, ensure_ascii=False)
    [came], error = await outcome_of(SSE + f"data: {text}\n\n".encode())
    assert error is None
    assert came["task"]["metadata"]["x"] == "a\u2028b\x85c"


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
async def test_an_event_may_have_any_line_ends_several_lines_and_bytes_that_come_singly(end):
    pretty = json.dumps({"result": TASK}, indent=1).encode().split(b"\n")
    sent = b"".join(b"data: " + line + end for line in pretty) + b"event:x" + end + b"id:7" + end + end

    async def bytewise(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(SSE)
        for at in range(len(sent)):
            writer.write(sent[at : at + 1])
            await writer.drain()
            await asyncio.sleep(0)

    assert await outcome_of(bytewise) == ([TASK], None)


async def test_times_are_read_with_or_without_a_zone_and_left_out_where_they_are_none():
    for sent, meant in (
        ("2026-11-21T16:38:10.123456", "2026-11-21T16:38:10.123456Z"),
        ("2026-11-21T18:38:10+02:00", "2026-11-21T16:38:10Z"),
        ("yesterday", None),
        (12345, None),
        ("9999-12-31T23:59:59-10:00", None),
    ):
        status = {"state": "TASK_STATE_WORKING", "timestamp": sent}
        [came], error = await outcome_of(answer({"task": task() | {"status": status}}))
        assert (error, came["task"]["status"].get("timestamp")) == (None, meant)


async def test_what_is_unknown_and_numbers_are_kept_as_they_came_and_what_no_database_takes_is_mended():
    part = {"hologram": {"x": 1}, "media_type": "x/y"}
    told = {
        **task("TASK_STATE_PAUSED", task_progress=0.5, metadata={"big": 2**60 + 1, "one": 1, "odd": "\0\ud800"}),
        "artifacts": [{"artifactId": "a", "colour": "blue", "parts": [part]}],
    }
    [came], error = await outcome_of(answer({"task": told, "hint": [1]}))
    assert error is None
    parts = [{"hologram": {"x": 1}, "mediaType": "x/y"}]
    assert came["task"]["status"]["state"] == "TASK_STATE_PAUSED"
    metadata = {"big": 2**60 + 1, "one": 1, "odd": "\ufffd\ufffd"}
    assert json.dumps(came["task"]["metadata"]) == json.dumps(metadata)
    assert came["task"]["artifacts"] == [{"artifactId": "a", "colour": "blue", "parts": parts}]
    assert (came["task"]["task_progress"], came["hint"]) == (0.5, [1])


async def test_a_message_goes_out_exactly_as_it_is_with_the_tenant_of_the_interface():
    message = said("hello", metadata={"big": 2**60 + 1, "one": 1, "float": 1.5})
    async with reached(answer(TASK), tenant="acme") as (peer, serving):
        [_] = [one async for one in peer.send(message)]
    params = json.loads(serving.requests[0].partition(b"\r\n\r\n")[2])["params"]
    assert json.dumps(params["message"]) == json.dumps(message)
    assert params["tenant"] == "acme"


OLD_TASK = {
    "kind": "task", "id": "t-1", "contextId": "c-1", "status": {"state": "completed"},
    "artifacts": [{"artifactId": "a", "parts": [{"kind": "data", "data": {"id": 2**60 + 1, "half": 0.5, "one": 1}}]}],
}  # fmt: skip


async def test_large_numbers_reach_old_agents_and_come_back():
    data = {"id": 2**60 + 1, "others": [-(2**53) - 1, 1, 1.5]}
    message = said("hello", parts=[{"data": data}])
    async with reached(answer(OLD_TASK), version="0.3", streams=False) as (peer, serving):
        [came] = [one async for one in peer.send(message, metadata={"n": 2**61 + 1})]
    params = json.loads(serving.requests[0].partition(b"\r\n\r\n")[2])["params"]
    assert params["message"]["parts"][0]["data"] == data
    assert params["metadata"]["n"] == 2**61 + 1
    assert came["task"]["artifacts"][0]["parts"][0]["data"] == {"id": 2**60 + 1, "half": 0.5, "one": 1}


@pytest.mark.parametrize("data", [{"a": 2**60 + 1, "b": 2**60 + 2}, {"a": 10**399}])
async def test_numbers_that_would_change_are_not_sent(data):
    async with reached(answer(OLD_TASK), version="0.3", streams=False) as (peer, serving):
        with pytest.raises(Unsendable):
            [one async for one in peer.send(said("hello", parts=[{"data": data}]))]
    assert serving.requests == []


ERRORS: dict[str, tuple[bytes | Answering, type[RemoteError], Callable[[Any], bool]]] = {
    "a JSON-RPC code of A2A": (
        head() + b'{"error": {"code": -32001, "message": "gone"}}', Refused,
        lambda error: error.reason == "TASK_NOT_FOUND" and error.said == "gone" and "gone" in str(error),
    ),
    "a reason that its details give": (
        head() + json.dumps({"error": {"code": -32050, "message": "no", "data": [
            {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "OUT_OF_CHEESE"}]}}).encode(), Refused,
        lambda error: error.reason == "OUT_OF_CHEESE",
    ),
    "a code that nobody knows": (
        head() + b'{"error": {"code": -32050}}', Refused, lambda error: error.reason == "JSONRPC_-32050",
    ),
    "an error in a stream": (
        SSE + b'event: error\ndata: {"error": {"code": -32603, "message": "x"}}\n\n', Refused,
        lambda error: error.reason == "INTERNAL_ERROR",
    ),
    "a bare status": (
        head("text/html", status="418 Teapot", length=3) + b"<p>", Refused,
        lambda error: (error.reason, error.status, error.was_sent) == ("HTTP_418", 418, True),
    ),
    "a server that broke": (
        head("text/html", status="502 Bad Gateway", length=3) + b"<p>", Refused,
        lambda error: error.is_transient and error.was_sent is None,
    ),
    "no credential": (
        head("text/plain", 'WWW-Authenticate: Bearer realm="x"', status="401 Unauthorized", length=0), Unauthorized,
        lambda error: error.challenge == 'Bearer realm="x"' and error.was_sent is False,
    ),
    "a credential that is too little": (
        head("text/plain", status="403 Forbidden", length=0), Unauthorized, lambda error: error.status == 403,
    ),
    "too many": (
        head("text/plain", "Retry-After: 7", status="429 Too Many", length=0), Overloaded,
        lambda error: error.retry_after == 7 and error.was_sent is False and error.is_transient,
    ),
    "too many for years": (
        head("text/plain", "Retry-After: 99999999999999999999", status="429 Too Many", length=0), Overloaded,
        lambda error: error.retry_after == 24 * 3600,
    ),
    "unavailable until a date that has passed": (
        head("text/plain", "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT", status="503 No", length=0), Overloaded,
        lambda error: error.retry_after == 0,
    ),
    "unavailable": (
        head("text/plain", "Retry-After: soon", status="503 No", length=0), Overloaded,
        lambda error: error.retry_after is None and error.was_sent is False,
    ),
    "a proxy whose connection to the agent broke": (
        head("text/plain", status="503 No", length=46) + b"upstream: reset reason: connection termination", Overloaded,
        lambda error: error.was_sent is None,
    ),
    "a refusal whose words never come": (
        then(head("application/json", status="400 Bad Request", length=100), None), Refused,
        lambda error: (error.reason, error.said) == ("HTTP_400", ""),
    ),
    "a refusal of 0.3 over HTTP": (
        head(status="404 Not Found") + b'{"type": "TaskNotFoundError", "message": "gone"}', Refused,
        lambda error: (error.reason, error.said) == ("TASK_NOT_FOUND", "gone"),
    ),
    "words that hide something": (
        head() + json.dumps({"error": {"code": -32000, "message": "a\u202eb\n\x1bc" + "x" * 900}}).encode(), Refused,
        lambda error: error.said.startswith("a b c") and len(error.said) < 310,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
async def test_errors_are_told_apart(name):
    answering, kind, is_right = ERRORS[name]
    _, error = await outcome_of(answering)
    assert type(error) is kind, error
    assert is_right(error), vars(error)


async def test_whether_anything_was_sent_is_known():
    async with server(answer(TASK)) as serving:
        outbound.configure([])
        with pytest.raises(Unreachable, match="private network") as refused:
            async with a2a_client.connect(card_at(serving.url)) as peer:
                await peer.get("t-1")
        outbound.configure(["127.0.0.1"])
    assert (refused.value.was_sent, refused.value.is_transient) == (False, False)
    assert not serving.requests
    with pytest.raises(Unreachable) as refused:  # nobody listens any more
        async with a2a_client.connect(card_at(serving.url)) as peer:
            await peer.get("t-1")
    assert (refused.value.was_sent, refused.value.is_transient) == (False, True)
    _, error = await outcome_of(b"")  # it hangs up without an answer
    assert isinstance(error, CutOff)
    assert (error.was_sent, error.is_transient) == (None, True)


async def test_a_stream_goes_on_after_the_event_that_came_last():
    async with reached(SSE + b"id: 41\n" + event(TASK) + b"id: 42\n" + event(DONE)) as (peer, serving):
        [_, _] = [one async for one in peer.send(said("hello"))]
        assert peer.event_id == "42"
        [_, _] = [one async for one in peer.subscribe("t-1", after=peer.event_id)]
    assert b"last-event-id: 42" in serving.requests[1].lower()


async def test_a_subscription_that_is_only_to_be_had_by_get_is_asked_for_so():
    async def only_get(request: bytes, writer: asyncio.StreamWriter) -> None:
        bare = SSE + b"data: %b\n\n" % json.dumps(TASK).encode()
        writer.write(bare if request.startswith(b"GET") else head(status="405 Method Not Allowed", length=0))

    async with reached(only_get, binding="HTTP+JSON") as (peer, serving):
        assert [one async for one in peer.subscribe("t-1")] == [TASK]
    assert [request.split()[0] for request in serving.requests] == [b"POST", b"GET"]


async def test_the_answer_to_a_question_about_one_task_is_not_another():
    async with reached(answer(task() | {"id": "t-2"})) as (peer, _):
        for asking in (peer.get, peer.cancel):
            with pytest.raises(Misbehaved, match="another task"):
                await asking("t-1")
    config = {"url": "http://127.0.0.1/", "taskId": "t-2"}
    async with reached(answer(config)) as (peer, _):
        with pytest.raises(Misbehaved, match="another task"):
            await peer.set_webhook("t-1", {"url": "http://127.0.0.1/"})
