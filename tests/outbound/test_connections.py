"""Connections for other protocols than HTTP go to checked addresses alone."""

import asyncio

import pytest
from websockets.asyncio.server import serve

from parley import outbound
from parley.outbound import Forbidden, Private, Unreachable, Untrusted
from tests.outbound import certificates
from tests.outbound.receiving import server


@pytest.fixture
def loopback():
    outbound.configure(["127.0.0.1", "mail.example.com"])
    yield
    outbound.configure([])


async def test_connection_needs_public_address():
    for begin in (outbound.connect("127.0.0.1", 993), outbound.websocket("ws://127.0.0.1:1/").__aenter__()):
        with pytest.raises(Private):
            await begin


async def test_websocket_carries_messages(loopback):
    async def echo(connection):
        await connection.send(await connection.recv())

    async with serve(echo, "127.0.0.1", 0) as there:
        port = there.sockets[0].getsockname()[1]
        async with outbound.websocket(f"ws://127.0.0.1:{port}/?v=10") as connection:
            await connection.send("hello")
            assert await connection.recv() == "hello"


async def test_what_is_no_websocket_is_unreachable(loopback):
    async with server(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n") as there:
        with pytest.raises(Unreachable):
            await outbound.websocket(there.url.replace("http", "ws")).__aenter__()
    with pytest.raises(Forbidden):
        await outbound.websocket("http://127.0.0.1/").__aenter__()


async def test_encryption_verifies_name(loopback, tmp_path, monkeypatch):
    theirs, ours = certificates.tls(tmp_path, "mail.example.com")
    monkeypatch.setattr("parley.outbound.connections.trusted", lambda: ours)
    async with server(b"", theirs) as there:
        connection = await outbound.connect("127.0.0.1", there.port)
        encrypted = await asyncio.to_thread(outbound.encrypted, connection, "mail.example.com")
        encrypted.close()
        connection = await outbound.connect("127.0.0.1", there.port)
        with pytest.raises(Untrusted):
            await asyncio.to_thread(outbound.encrypted, connection, "other.example.com")
