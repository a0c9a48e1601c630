"""Client libraries also call through `outbound`."""

import asyncio
import gzip
from collections.abc import Iterator

import httpx
import httpx2
import pytest

import outbound
from outbound import Exchange, Forbidden, Limits, Misleading, TooLarge
from outbound.transports import Transport
from tests.outbound.receiving import answer, server

LIBRARIES = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
PACKED = answer(gzip.compress(b'{"a": 1}'), "200 Fine", "Content-Encoding: gzip")
REDIRECT = answer(b"", "302 Found", "Location: http://127.0.0.1:1/")


@pytest.fixture(autouse=True)
def _loopback_is_open() -> Iterator[None]:
    outbound.configure(["127.0.0.1"])
    yield
    outbound.configure([])


def client(library, limits=None, **options):
    return library.AsyncClient(transport=Transport(Exchange(outbound.guard(), limits or Limits())), **options)


@LIBRARIES
async def test_a_request_arrives_and_its_answer_comes_back_whole_or_as_a_stream(library):
    goes_on = asyncio.Event()

    async def streaming(request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await writer.drain()
        await goes_on.wait()
        writer.write(b"3\r\ntwo\r\n0\r\n\r\n")

    async with server(PACKED) as at, client(library) as http:
        response = await http.post(at.url + "x", json={"b": 2}, headers={"X-Sent": "yes"})
        assert (response.json(), response.reason_phrase) == ({"a": 1}, "Fine")
    [request] = at.requests
    assert b"X-Sent: yes" in request
    assert request.endswith(b'{"b":2}')
    endless = Limits(seconds=None)
    async with server(streaming) as at, client(library, endless) as http, http.stream("GET", at.url) as response:
        chunks = response.aiter_bytes()
        assert await anext(chunks) == b"one"
        goes_on.set()
        assert await anext(chunks) == b"two"


@LIBRARIES
async def test_what_is_refused_is_an_error_of_the_library(library):
    async with client(library) as http:
        with pytest.raises(library.ConnectError, match="OUTBOUND_ALLOW") as refused:
            await http.get("http://10.0.0.1/")
        assert isinstance(refused.value.__cause__, Forbidden)
    async with server(REDIRECT) as at, client(library, follow_redirects=True) as http:
        with pytest.raises(library.RemoteProtocolError) as refused:
            await http.get(at.url)
    assert isinstance(refused.value.__cause__, Misleading)
    async with server(answer(b"x" * 5000)) as at, client(library, Limits(bytes=100)) as http:
        with pytest.raises(library.ReadError) as refused:
            await http.get(at.url)
    assert isinstance(refused.value.__cause__, TooLarge)
