"""The WebSocket of all sessions sends what `GET /events` sends."""

from contextlib import asynccontextmanager

import pytest
from channels.testing import WebsocketCommunicator

from apps.accounts.requests import quotas
from apps.accounts.requests.consumers import NOT_FOUND, REFUSED, SIGNED_OUT, TOO_MANY, TOO_SLOW
from apps.conversations.api import consumers
from apps.record.reading import sync
from parley import db
from parley.asgi import application
from tests.clients.calling import HOST
from tests.clients.delivering import rename

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("what happens comes by notifications between processes and from each database's log"),
]

ORIGIN = f"http://{HOST}"


@asynccontextmanager
async def line(caller, wanted=None, origin=ORIGIN):
    cookies = "; ".join(f"{name}={value}" for name, value in caller.cookies.items())
    headers = [(b"host", HOST.encode()), (b"origin", origin.encode()), (b"cookie", cookies.encode())]
    socket = WebsocketCommunicator(application, "/ws/events", headers=headers)
    socket.connected, _ = await socket.connect(timeout=60)
    if wanted is not None:
        await socket.send_json_to(wanted)
    try:
        yield socket
    finally:
        await socket.disconnect(timeout=10)


async def said_by(socket):
    return await socket.receive_json_from(timeout=60)


async def code_of(socket):
    while (output := await socket.receive_output(timeout=60))["type"] != "websocket.close":
        pass
    return output["code"]


async def test_page_hears_events_with_its_position(ada_browses, begun):
    session = await db.run(begun)
    async with line(ada_browses, {}) as socket:
        begun_at = await said_by(socket)
        assert begun_at["alive"] is True
        await db.run(rename, session)
        told = await said_by(socket)
    [event] = told["events"]
    assert (told["number"], event["id"], event["type"]) == (1, f"{session}:2", "session_renamed")
    async with line(ada_browses, {"since": begun_at["token"], "types": ["session_renamed"]}) as socket:
        assert (await said_by(socket))["events"] == [event]
        caught_up = await said_by(socket)
    assert caught_up["alive"] is True
    async with line(ada_browses, {"since": told["token"], "sessionIds": [str(session)]}) as socket:
        assert (await said_by(socket))["alive"] is True


async def test_what_is_asked_for_must_make_sense(ada_browses, ada, bob, begun):
    await db.run(begun)
    stranger = sync.position_token(bob.principal, await db.run(sync.current_position, bob.principal))
    for wanted, code in (
        ({"since": stranger}, REFUSED),
        ({"colour": "red"}, REFUSED),
        ([], REFUSED),
        ({"sessionIds": ["00000000-0000-0000-0000-000000000000"]}, NOT_FOUND),
    ):
        async with line(ada_browses, wanted) as socket:
            assert await code_of(socket) == code, wanted
    for text in ("[" * 100_000, '{"types": ["\\ud800"]}', '{"sessionIds": ["\\u0000"]}'):
        async with line(ada_browses) as socket:
            await socket.send_to(text_data=text)
            assert (await said_by(socket))["refused"], text[:20]
            assert await code_of(socket) == REFUSED


async def test_line_needs_sign_in_and_own_site(ada_calls, ada_browses):
    async with line(ada_calls) as socket:
        assert await code_of(socket) == SIGNED_OUT
    async with line(ada_browses, origin="http://evil.example") as socket:
        assert not socket.connected


async def test_signing_out_ends_the_line(ada_browses, ada, monkeypatch):
    monkeypatch.setattr(consumers.EventsConsumer, "RECHECK_SECONDS", 0.05)
    async with line(ada_browses, {}) as socket:
        assert (await said_by(socket))["alive"] is True
        ada.set_password("another one")
        await ada.asave()
        assert await code_of(socket) == SIGNED_OUT


async def test_page_that_reads_nothing_is_let_go(ada_browses, begun, monkeypatch):
    monkeypatch.setattr(consumers.EventsConsumer, "UNSEEN_EVENTS", 2)
    monkeypatch.setattr(consumers.EventsConsumer, "SLOW_SECONDS", 0.2)
    session = await db.run(begun)
    async with line(ada_browses, {}) as slow, line(ada_browses, {}) as quick:
        await said_by(slow)
        await said_by(quick)
        for number in range(1, 6):
            await db.run(rename, session)
            told = await said_by(quick)
            assert told["number"] == number
            await quick.send_json_to({"seen": number})
        assert await code_of(slow) == TOO_SLOW


async def test_lines_are_counted_while_open(ada_browses, settings):
    settings.STREAMS_PER_CALLER = 1
    async with line(ada_browses, {}) as socket:
        await said_by(socket)
        async with line(ada_browses) as other:
            assert await code_of(other) == TOO_MANY
    assert not quotas.stream_counter._open
