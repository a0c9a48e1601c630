"""One request and its answer: to the address that was checked, in bounds, and never anywhere else."""

import asyncio
import gzip
import zlib

import httpcore2
import pytest

from outbound import (
    Exchange,
    Forbidden,
    Guard,
    Limits,
    Misleading,
    OutboundError,
    TooLarge,
    TooSlow,
    Unreachable,
    Untrusted,
)
from outbound.allowing import Allowed
from tests.outbound import certificates
from tests.outbound.receiving import answer, server

LOOPBACK = Allowed.read(["127.0.0.0/8"])


def open_exchange(limits=None, allow=LOOPBACK, resolve=None, trusted=None):
    guard = Guard(allow, resolve) if resolve else Guard(allow)
    return Exchange(guard, limits or Limits(), trusted=trusted)


async def fetched(url, way, headers=None, content=b"", method="GET"):
    async with way.send(method, url, headers or {}, content) as got:
        return got, await got.read()


async def fetched_once(url):
    async with open_exchange() as way:
        return await fetched(url, way)


async def test_a_request_arrives_and_its_answer_comes_back():
    async with server(answer(b"hi", "201 Created", "X-A: b")) as at, open_exchange() as way:
        got, body = await fetched(at.url + "hook?a=1", way, {"X-Sent": "yes"}, b"content", "POST")
    assert (got.status, got.reason, body) == (201, b"Created", b"hi")
    assert (b"X-A", b"b") in got.headers
    [request] = at.requests
    assert request.startswith(b"POST /hook?a=1 HTTP/1.1\r\n")
    assert f"Host: 127.0.0.1:{at.port}\r\n".encode() in request
    assert b"X-Sent: yes\r\n" in request
    assert request.endswith(b"\r\n\r\ncontent")


async def test_what_is_not_open_is_not_called():
    async with server(answer()) as at, open_exchange(allow=Allowed()) as way:
        with pytest.raises(Forbidden, match="OUTBOUND_ALLOW"):
            await fetched(at.url, way)
    assert at.requests == []


async def test_a_name_that_changes_its_address_between_look_up_and_connection_gains_nothing():
    looked_up = []

    async def rebinding(name, port):
        looked_up.append(name)
        return ["127.0.0.1"] if len(looked_up) == 1 else ["10.255.255.1"]

    async with server(answer()) as at, open_exchange(resolve=rebinding) as way:
        await fetched(f"http://hooks.example.com:{at.port}/", way)
        assert looked_up == ["hooks.example.com"]
    async with server(answer()) as at, open_exchange(resolve=rebinding) as way:
        with pytest.raises(Forbidden):
            await fetched(f"http://hooks.example.com:{at.port}/", way)
    assert at.requests == []


async def test_a_name_that_was_checked_and_leads_inside_later_is_refused():
    answers = [["8.8.8.8"], ["127.0.0.1"]]

    async def rebinding(name, port):
        return answers.pop(0)

    guard = Guard(Allowed(), rebinding)
    async with server(answer()) as at, Exchange(guard, Limits()) as way:
        url = f"http://hooks.example.com:{at.port}/"
        await guard.vet(url)
        with pytest.raises(Forbidden):
            await fetched(url, way)
    assert at.requests == []


async def test_the_next_address_is_tried_where_nobody_listens():
    async def two(name, port):
        return ["127.0.0.2", "127.0.0.1"]

    async with server(answer()) as at, open_exchange(resolve=two) as way:
        assert (await fetched(f"http://hooks.example.com:{at.port}/", way))[1] == b"hello"


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
async def test_no_redirect_is_followed(status):
    async with server(answer()) as other, server(answer(b"", status, f"Location: {other.url}")) as at:
        with pytest.raises(Misleading, match="redirect"):
            await fetched_once(at.url)
    assert other.requests == []


async def test_proxies_of_the_environment_are_not_used(monkeypatch):
    async with server(answer(b"proxy")) as proxy, server(answer(b"direct")) as at, open_exchange() as way:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert (await fetched(at.url, way))[1] == b"direct"
    assert proxy.requests == []


async def test_a_header_that_cannot_be_sent_is_not_repeated_in_the_error():
    async with server(answer()) as at, open_exchange() as way:
        with pytest.raises(Unreachable) as refused:
            await fetched(at.url, way, {"Authorization": "canary "})
    assert "canary" not in str(refused.value)
    assert not refused.value.was_sent


async def test_nobody_there_is_unreachable():
    async with server(answer()) as gone:
        pass
    with pytest.raises(Unreachable):
        await fetched_once(gone.url)


@pytest.mark.parametrize(
    "sent", [b"", b"not HTTP at all\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"]
)
async def test_what_does_not_speak_http_is_unreachable(sent):
    async with server(sent) as at, open_exchange() as way:
        with pytest.raises(Unreachable):
            await fetched(at.url, way)


# Sizes


def packed(body, how):
    return gzip.compress(body) if how == "gzip" else zlib.compress(body)


@pytest.mark.parametrize("how", ["gzip", "deflate"])
async def test_a_packed_answer_is_unpacked(how):
    async with server(answer(packed(b"hello" * 99, how), "200 OK", f"Content-Encoding: {how}")) as at:
        got, body = await fetched_once(at.url)
    assert body == b"hello" * 99
    assert not {b"content-encoding", b"content-length"} & {name.lower() for name, _ in got.headers}
    assert b"Accept-Encoding: gzip, deflate\r\n" in at.requests[0]


async def test_an_answer_that_is_too_large_is_broken_off():
    async with server(answer(b"x" * 5000)) as at, open_exchange(Limits(bytes=4999)) as way:
        with pytest.raises(TooLarge, match="4999 bytes"):
            await fetched(at.url, way)


async def test_an_answer_that_never_ends_is_broken_off():
    async def endless(request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
            await writer.drain()

    async with server(endless) as at, open_exchange(Limits(bytes=50_000)) as way:
        with pytest.raises(TooLarge):
            await fetched(at.url, way)


async def test_a_bomb_is_refused_by_its_size_and_by_its_ratio():
    bomb = gzip.compress(b"\0" * 20_000_000)
    async with server(answer(bomb, "200 OK", "Content-Encoding: gzip")) as at:
        async with open_exchange(Limits(bytes=3_000_000, ratio=10**6)) as way:
            with pytest.raises(TooLarge, match="larger than 3000000 bytes"):
                await fetched(at.url, way)
        async with open_exchange(Limits(bytes=10**9, ratio=100)) as way:
            with pytest.raises(TooLarge, match="100 times"):
                await fetched(at.url, way)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress"])
async def test_a_packing_that_was_not_asked_for_is_refused(encoding):
    async with server(answer(b"x", "200 OK", f"Content-Encoding: {encoding}")) as at, open_exchange() as way:
        with pytest.raises(Misleading, match="packed"):
            await fetched(at.url, way)


@pytest.mark.parametrize(
    "body", [b"not packed", gzip.compress(b"x")[:-4], gzip.compress(b"x") + b"more"], ids=["not", "cut off", "more"]
)
async def test_a_broken_packing_is_refused(body):
    async with server(answer(body, "200 OK", "Content-Encoding: gzip")) as at, open_exchange() as way:
        with pytest.raises(Misleading):
            await fetched(at.url, way)


async def test_a_head_that_is_too_large_is_refused():
    async with server(answer(b"", "200 OK", *(f"X-{n}: {'x' * 1000}" for n in range(80)))) as at:
        with pytest.raises((TooLarge, Unreachable)):
            await fetched_once(at.url)
    async with server(answer(b"", "200 OK", "X: " + "x" * 900)) as at, open_exchange(Limits(header_bytes=900)) as way:
        with pytest.raises(TooLarge, match="head"):
            await fetched(at.url, way)


# Time


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"], ids=["head", "body"])
async def test_an_answer_that_does_not_come_is_given_up(sent):
    done = asyncio.Event()

    async def slow(request, writer):
        writer.write(sent)
        await writer.drain()
        await done.wait()

    async with server(slow) as at, open_exchange(Limits(seconds=0.1)) as way:
        with pytest.raises(TooSlow, match="in time"):
            await fetched(at.url, way)
        done.set()


async def test_an_answer_that_drips_is_given_up_all_the_same():
    async def dripping(request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with server(dripping) as at, open_exchange(Limits(seconds=0.2)) as way:
        with pytest.raises(TooSlow):
            await fetched(at.url, way)


async def test_an_error_says_whether_anything_was_sent():
    async def nothing(_, writer):
        return

    async def half(_, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")

    async def silence(_, writer):
        await asyncio.sleep(10)

    async with server(answer()) as at:
        closed = at.url
    with pytest.raises(Unreachable) as refused:
        await fetched_once(closed)
    assert not refused.value.was_sent
    for answering in (nothing, half, silence, answer(b"", "302 Found", "Location: http://127.0.0.1/")):
        async with server(answering) as at, open_exchange(Limits(seconds=0.3)) as way:
            with pytest.raises(OutboundError) as failed:
                await fetched(at.url, way)
        assert failed.value.was_sent


# TLS


@pytest.fixture
def serving(tmp_path):
    """Contexts of a server that shows a certificate for these names, and of a client that trusts it."""
    return lambda *names: certificates.tls(tmp_path, *names)


async def at_loopback(name, port):
    return ["127.0.0.1"]


async def test_tls_is_verified_and_asked_for_by_name_though_the_address_is_pinned(serving):
    theirs, ours = serving("hooks.example.com")
    async with server(answer(), theirs) as at, open_exchange(resolve=at_loopback, trusted=ours) as way:
        assert (await fetched(f"https://hooks.example.com:{at.port}/", way))[1] == b"hello"
        with pytest.raises(Untrusted, match="certificate"):
            await fetched(f"https://other.example.com:{at.port}/", way)
    assert theirs.asked == ["hooks.example.com", "other.example.com"]


async def test_a_certificate_that_nobody_vouches_for_is_refused(serving):
    theirs, _ = serving("hooks.example.com")
    async with server(answer(), theirs) as at, open_exchange(resolve=at_loopback) as way:
        with pytest.raises(Untrusted, match="certificate"):
            await fetched(f"https://hooks.example.com:{at.port}/", way)
    assert at.requests == []


def test_the_library_bounds_what_it_reads_of_a_head():
    """Our own bound is on the head as it was read; this one keeps an endless one from being read at all."""
    assert httpcore2.AsyncHTTP11Connection.MAX_INCOMPLETE_EVENT_SIZE <= 128 * 1024
