"""One stream has all events of a person's sessions, and resumes."""

import asyncio
import gc
import json
import sys
from contextlib import asynccontextmanager

import pytest
from asgiref.testing import ApplicationCommunicator
from django.core.handlers.asgi import ASGIRequest
from rest_framework.request import Request

from apps.accounts import revocation
from apps.accounts.models import ApiKey
from apps.conversations.sessions import deletion
from apps.record import wire
from apps.record.models import Event
from apps.record.reading import sync
from parley import db
from parley.asgi import application
from tests.clients.calling import scope_of
from tests.clients.delivering import rename
from tests.emptying import remove

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("what happens comes by notifications between processes and from each database's log"),
]


class Line:
    def __init__(self, caller, query="", path="/events", **headers):
        self.scope = scope_of("GET", f"/api/v1{path}?{query}", {**caller.credentials, **headers})
        self.place, self.heard, self._kept = "", [], b""

    async def open(self):
        self.line = ApplicationCommunicator(application, self.scope)
        await self.line.send_input({"type": "http.request", "body": b""})
        start = await self.line.receive_output(60)
        self.status = start["status"]
        self.headers = {name.decode().lower(): value.decode() for name, value in start["headers"]}
        return self

    async def more(self):
        """One chunk; False at the end."""
        chunk = await self.line.receive_output(60)
        *frames, self._kept = (self._kept + chunk.get("body", b"")).split(b"\n\n")
        for frame in frames:
            fields = dict(one.split(": ", 1) for one in frame.decode().split("\n") if not one.startswith(":"))
            self.place = fields.get("id", self.place)
            if "data" in fields:
                self.heard.append((fields["event"], json.loads(fields["data"]), self.place))
        return chunk.get("more_body", False)

    async def hear(self, number):
        while len(self.heard) < number:
            assert await self.more()
        return self.heard

    async def close(self):
        await self.line.send_input({"type": "http.disconnect"})
        await self.line.wait(60)


@asynccontextmanager
async def line(caller, query="", **headers):
    one = await Line(caller, query, **headers).open()
    try:
        yield one
    finally:
        await one.close()


async def test_stream_brings_events_as_they_happen(ada_calls, begun):
    session = await db.run(begun)
    async with line(ada_calls) as stream:
        assert stream.status == 200
        assert stream.headers["content-type"] == "text/event-stream"
        assert (stream.headers["cache-control"], stream.headers["x-accel-buffering"]) == ("no-store", "no")
        await db.run(rename, session)
        [(name, event, place)] = await stream.hear(1)
    assert name == event["type"] == "session_renamed"
    assert event | {"timestamp": ""} == {
        "id": f"{session}:2", "sessionId": str(session), "index": 2, "type": "session_renamed", "timestamp": "",
        "payload": {"title": "1"}, "taskId": None, "runId": None,
    }  # fmt: skip
    assert place


@pytest.mark.parametrize("way", ["query", "header"])
async def test_stream_goes_on_after_the_last_event(ada_calls, begun, way):
    one, other = await db.run(begun), await db.run(begun)
    async with line(ada_calls) as stream:
        await db.run(rename, one, other)
        heard = (await stream.hear(1))[:1]
    await db.run(rename, one)
    for _ in range(2):  # the connection breaks after one event each time
        place = heard[-1][2]
        asked = {"query": f"since={place}"} if way == "query" else {"Last_Event_ID": place}
        async with line(ada_calls, **asked) as stream:
            heard += (await stream.hear(1))[:1]
    assert sorted(event["id"] for _, event, _ in heard) == sorted([f"{one}:2", f"{one}:3", f"{other}:2"])


async def test_stream_has_named_sessions_and_types_only(ada_calls, begun):
    one, two, other = [await db.run(begun) for _ in range(3)]
    async with line(ada_calls, f"session_ids={one}&session_ids[]={two}") as stream:
        await db.run(rename, other, one, two)
        heard = await stream.hear(2)
    assert {event["sessionId"] for _, event, _ in heard} == {str(one), str(two)}
    async with line(ada_calls, f"session_ids[]={one}&since=1") as stream:  # an index works for one session
        assert [event["index"] for _, event, _ in await stream.hear(1)] == [2]
    async with line(ada_calls, "types=session_renamed") as stream:
        session = await db.run(begun)
        await db.run(rename, session, one)
        heard = await stream.hear(2)
    assert [name for name, _, _ in heard] == ["session_renamed"] * 2
    async with line(ada_calls, f"since={heard[-1][2]}") as stream:  # the position moved past filtered events
        await db.run(rename, one)
        [(_, event, _)] = await stream.hear(1)
    assert event["index"] == 4


async def test_wrong_stream_is_refused_before_it_begins(ada_calls, bob_calls, ada, begun, settings):
    session = await db.run(begun)
    place = sync.position_token(ada.principal, await db.run(sync.current_position, ada.principal))
    for caller, query, status, code in (
        (bob_calls, f"since={place}", 422, "invalid"),
        (ada_calls, "since=nonsense", 422, "invalid"),
        (ada_calls, "since=1", 422, "invalid"),
        (ada_calls, f"session_ids={session}&since=2", 422, "invalid"),
        (ada_calls, "types=nonsense", 422, "invalid"),
        (ada_calls, "colour=red", 422, "invalid"),
    ):
        answer = await caller.get(f"/events?{query}")
        assert (answer.status, answer.code) == (status, code), query
    settings.STREAMS_PER_CALLER = 0
    assert (await ada_calls.get("/events")).status == 429


async def test_client_away_too_long_is_reset(ada_calls, ada, begun, settings):
    session = await db.run(begun)
    place = sync.position_token(ada.principal, await db.run(sync.current_position, ada.principal))
    settings.SYNC_DAYS = 0
    async with line(ada_calls, f"since={place}") as stream:
        [(name, reset, _)] = await stream.hear(1)
        assert (name, reset) == ("reset", {"sessionId": None, "reason": "too_old"})
        await db.run(rename, session)
        assert (await stream.hear(2))[1][1]["index"] == 2


async def test_deletion_is_an_event_lost_log_a_reset(ada_calls, ada, echo, begun):
    gone, away = await db.run(lambda: begun(contextId="gone")), await db.run(begun)
    place = sync.position_token(ada.principal, await db.run(sync.current_position, ada.principal))
    await db.run(deletion.delete_context, ada.principal, echo, "gone")
    await db.run(rename, away)
    await db.run(remove, Event.objects.filter(context=away))
    async with line(ada_calls, f"since={place}") as stream:
        heard = {told["sessionId"]: (name, told) for name, told, _ in await stream.hear(2)}
    assert heard[str(gone)][0] == "session_deleted"
    assert heard[str(away)] == ("reset", {"sessionId": str(away), "reason": "archived"})


async def test_quiet_stream_sends_signs_of_life(ada_calls, begun, settings, monkeypatch):
    settings.FEED_POLL_SECONDS = 0.02
    monkeypatch.setattr("apps.record.wire.HEARTBEAT_SECONDS", 0.05)
    await db.run(begun)
    async with line(ada_calls) as stream:
        places = set()
        async with asyncio.timeout(60):
            while len(places) < 3:
                await stream.more()
                places.add(stream.place)
        assert stream.heard == []


async def test_quiet_stream_keeps_nothing_of_its_request(ada_calls):
    def requests():
        gc.collect()
        return sum(type(one) in (ASGIRequest, Request, wire.EventStream) for one in gc.get_objects())

    before = requests()
    async with line(ada_calls) as stream:
        await stream.more()
        assert requests() <= before


async def test_quiet_stream_keeps_nothing_it_sent():
    async def batches():
        yield frames
        await asyncio.Event().wait()

    frames = [bytes(100)]
    references = sys.getrefcount(frames[0])
    stream = wire.with_heartbeats(batches(), iter)
    await anext(stream)
    waiting = asyncio.ensure_future(anext(stream))
    for _ in range(9):
        await asyncio.sleep(0)
    kept = sys.getrefcount(frames[0]) - references
    waiting.cancel()
    await asyncio.wait([waiting])
    assert kept == 0


@pytest.mark.parametrize("who", ["a key that is revoked", "a browser whose password is another"])
async def test_revoked_caller_hears_nothing_after_five_seconds(ada_calls, ada_browses, ada, who, monkeypatch):
    monkeypatch.setattr(revocation, "POLL_SECONDS", 0.05)
    async with line(ada_calls if "key" in who else ada_browses) as stream:
        assert await stream.more()
        await db.run(ApiKey.objects.all().delete)
        ada.set_password("another one")
        await ada.asave()
        async with asyncio.timeout(5):
            while await stream.more():
                pass
