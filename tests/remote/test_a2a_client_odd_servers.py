"""Any answer of an agent becomes events of A2A 1.0 or one of our errors."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from apps.remote.a2a_client import Peer
from apps.remote.cards import choose_interface
from apps.remote.errors import RemoteError
from tests.remote.reaching import JSON, card_at, said

WAYS = [("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3"), ("HTTP+JSON", "0.3")]
EMPTY_INSTEAD = {
    "id": "t-1",
    "contextId": "c-1",
    "status": {"state": "TASK_STATE_WORKING"},
    "artifacts": [{"artifactId": "a-1", "parts": [[]]}],
    "history": [[]],
}
"""An empty list stands where an object should, which protobuf reads as one."""
KINDS = {"task", "message", "statusUpdate", "artifactUpdate"}
WORDS = [
    "task", "message", "statusUpdate", "artifactUpdate", "msg", "error", "result", "kind", "id", "taskId",
    "contextId", "status", "state", "artifact", "artifacts", "artifactId", "parts", "text", "data", "raw",
    "metadata", "history", "messageId", "role", "timestamp", "final",
]  # fmt: skip
VALUES = [
    "TASK_STATE_WORKING", "working", "task", "message", "status-update", "artifact-update", "ROLE_AGENT",
    "agent", "t-1",
]  # fmt: skip

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
anything = st.recursive(
    scalars | st.text(max_size=4) | st.sampled_from(VALUES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=20,
)


@st.composite
def nearly_right(draw: st.DrawFn) -> JSON:
    """A task of 1.0 or 0.3 with one odd value."""
    is_old = draw(st.booleans())
    part: JSON = {"kind": "text", "text": "x"} if is_old else {"text": "x"}
    artifact: JSON = {"artifactId": "a", "parts": [part], "metadata": {"n": 1}}
    task: JSON = {"id": "t-1", "contextId": "c-1", "status": {"state": "working"}, "artifacts": [artifact]}
    task |= {"kind": "task"} if is_old else {"status": {"state": "TASK_STATE_WORKING"}}
    odd: JSON = draw(st.sampled_from([task, task["status"], artifact, part]))
    odd[draw(st.sampled_from([*odd, *WORDS]))] = draw(anything)
    return task


@pytest.fixture(autouse=True)
def _answers_are_read_strictly() -> None:
    """Here the SDK's client is as people have it and ignores unknown fields."""


class Answering(httpx.AsyncBaseTransport):
    """Answers every request with this value: as JSON, or as an event of a stream."""

    def __init__(self, value: Any, *, streams: bool) -> None:
        self.value, self.streams = value, streams

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = json.dumps(self.value)
        if self.streams:
            return httpx.Response(200, text=f"data: {body}\n\n", headers={"Content-Type": "text/event-stream"})
        return httpx.Response(200, text=body, headers={"Content-Type": "application/json"})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(way=st.sampled_from(WAYS), streams=st.booleans(), value=anything | nearly_right())
@example(way=WAYS[0], streams=False, value=EMPTY_INSTEAD)
@example(way=WAYS[3], streams=True, value=EMPTY_INSTEAD)
def test_an_answer_is_read_or_refused_over_every_binding_and_version(way, streams, value):
    card = card_at("http://a.example/", *way, streams=streams)
    wrapped = value if way[1] == "0.3" else {"task": value}
    sent = {"jsonrpc": "2.0", "id": "1", "result": wrapped} if way[0] == "JSONRPC" else {"task": value}
    peer = Peer(card, choose_interface(card), Answering(sent, streams=streams), None, {})

    async def ask() -> list[JSON]:
        return [event async for event in peer.send(said("hello"))]

    events: list[JSON] = []
    with suppress(RemoteError):
        events = asyncio.run(ask())
    for event in events:
        assert len(KINDS & set(event)) == 1
        json.dumps(event, allow_nan=False).encode()
