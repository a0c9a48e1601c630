"""A request goes only to the checked address, within limits."""

import asyncio
import gzip
import tempfile
import zlib

import httpcore2
import httpx
import httpx2
import pytest

from parley.outbound import Exchange, Forbidden, Guard, Limits, Misleading, TooLarge, TooSlow, Unreachable, Untrusted
from parley.outbound.targets import Allowed
from parley.outbound.transports import Transport
from parley.outbound.trust import trusted
from tests.outbound import certificates
from tests.outbound.receiving import answer, server

LOOPBACK = Allowed.read(["127.0.0.0/8"])
NAMED = "http://hooks.example.com"
HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"


def open_exchange(limits=None, allow=LOOPBACK, resolve=None, trusted=None):
    guard = Guard(allow, resolve) if resolve else Guard(allow)
    return Exchange(guard, limits or Limits(), trusted=trusted)


def leading_to(*answers):
    """A resolver that returns these addresses in turn, then always the last."""
    left = list(answers)

    async def resolve(name, port):
        return left.pop(0) if len(left) > 1 else left[0]

    return resolve


async def fetched(url, way, headers=None, content=b"", method="GET"):
    async with way.send(method, url, headers or {}, content) as got:
        return got, await got.read()


async def fetched_of(answering, limits=None):
    """The parsed answer of a local server."""
    async with server(answering) as at, open_exchange(limits) as way:
        return await fetched(at.url, way)


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


async def test_addresses_are_checked_at_the_connection():
    inward = leading_to(["127.0.0.1"], ["10.255.255.1"])
    async with server(answer()) as at:
        async with open_exchange(allow=Allowed()) as way:
            with pytest.raises(Forbidden, match="OUTBOUND_ALLOW"):
                await fetched(at.url, way)
        assert at.requests == []
        url = f"{NAMED}:{at.port}/"
        async with open_exchange(resolve=inward) as way:
            await fetched(url, way)
            assert len(at.requests) == 1
        async with open_exchange(resolve=inward) as way:
            with pytest.raises(Forbidden):
                await fetched(url, way)
        guard = Guard(Allowed(), leading_to(["8.8.8.8"], ["127.0.0.1"]))
        async with Exchange(guard, Limits()) as way:
            await guard.vet(url)
            with pytest.raises(Forbidden):
                await fetched(url, way)
        assert len(at.requests) == 1
        async with open_exchange(resolve=leading_to(["127.0.0.2", "127.0.0.1"])) as way:
            assert (await fetched(url, way))[1] == b"hello", "the next address is tried where nobody listens"


@pytest.mark.parametrize("status", ["302 Found", "308 Permanent"])
async def test_no_redirect_is_followed(status):
    async with server(answer()) as other:
        with pytest.raises(Misleading, match="redirect"):
            await fetched_of(answer(b"", status, f"Location: {other.url}"))
    assert other.requests == []


async def test_proxies_of_the_environment_are_not_used(monkeypatch):
    async with server(answer(b"proxy")) as proxy, server(answer(b"direct")) as at, open_exchange() as way:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert (await fetched(at.url, way))[1] == b"direct"
    assert proxy.requests == []


# Sizes


@pytest.mark.parametrize(("how", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_a_packed_answer_is_unpacked(how, pack):
    async with server(answer(pack(b"hello" * 99), "200 OK", f"Content-Encoding: {how}")) as at, open_exchange() as way:
        got, body = await fetched(at.url, way)
    assert body == b"hello" * 99
    assert not {b"content-encoding", b"content-length"} & {name.lower() for name, _ in got.headers}
    assert b"Accept-Encoding: gzip, deflate\r\n" in at.requests[0]


async def test_answers_too_large_are_broken_off():
    async def endless(request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
            await writer.drain()

    assert len((await fetched_of(answer(b"x" * 5000), Limits(bytes=5000)))[1]) == 5000
    with pytest.raises(TooLarge, match="4999 bytes"):
        await fetched_of(answer(b"x" * 5000), Limits(bytes=4999))
    with pytest.raises(TooLarge):
        await fetched_of(endless, Limits(bytes=50_000))


def stream(*pieces):
    async def act(request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)

    return act


@pytest.mark.parametrize(
    "pieces", [[b"data: " + b"x" * 995 + b"\n\n"], [b"data: x\r", b"\n"] * 200, [b"data: x\n: x\n"] * 200]
)
async def test_an_event_is_limited_while_it_comes(pieces):
    with pytest.raises(TooLarge, match="event of more than 1000 bytes"):
        await fetched_of(stream(*pieces), Limits(bytes=1000))


async def test_nobody_may_send_more_than_10_mib():
    assert Limits().bytes == 10 * 1024**2
    event = b"data: " + b"x" * 10 * 1024**2
    for answering in (stream(event), answer(event)):
        with pytest.raises(TooLarge):
            await fetched_of(answering)


async def test_bombs_are_refused_by_size_and_ratio():
    bomb = answer(gzip.compress(b"\0" * 20_000_000), "200 OK", "Content-Encoding: gzip")
    with pytest.raises(TooLarge, match="larger than 3000000 bytes"):
        await fetched_of(bomb, Limits(bytes=3_000_000, ratio=10**6))
    with pytest.raises(TooLarge, match="100 times"):
        await fetched_of(bomb, Limits(bytes=10**9, ratio=100))


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("br", b"x"),
        ("gzip", b"not packed"),
        ("gzip", gzip.compress(b"x", mtime=0)[:-4]),
        ("gzip", gzip.compress(b"x", mtime=0) + b"more"),
    ],
)
async def test_unknown_or_broken_packings_are_refused(encoding, body):
    with pytest.raises(Misleading):
        await fetched_of(answer(body, "200 OK", f"Content-Encoding: {encoding}"))


async def test_a_head_that_is_too_large_is_refused():
    with pytest.raises((TooLarge, Unreachable)):
        await fetched_of(answer(b"", "200 OK", *(f"X-{n}: {'x' * 1000}" for n in range(80))))
    with pytest.raises(TooLarge, match="head"):
        await fetched_of(answer(b"", "200 OK", "X: " + "x" * 900), Limits(header_bytes=900))
    # Our own limit applies to the read head; this one stops an endless head.
    assert httpcore2.AsyncHTTP11Connection.MAX_INCOMPLETE_EVENT_SIZE <= 128 * 1024


# Time


@pytest.mark.parametrize("drop", [b"x", b""])
async def test_silent_and_dripping_answers_are_given_up(drop):
    async def dripping(request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(0.01)

    with pytest.raises(TooSlow, match="in time"):
        await fetched_of(dripping, Limits(seconds=0.1))


async def test_an_error_says_whether_anything_was_sent():
    async with server(answer()) as gone:
        pass
    async with open_exchange() as way:
        with pytest.raises(Unreachable) as refused:
            await fetched(gone.url, way)
    assert not refused.value.was_sent
    redirect = answer(b"", "302 Found", "Location: http://127.0.0.1/")
    for answering, error in (
        (b"", Unreachable),
        (b"not HTTP at all\r\n\r\n", Unreachable),
        (HALF, Unreachable),
        (lambda *_: asyncio.sleep(10), TooSlow),
        (redirect, Misleading),
    ):
        with pytest.raises(error) as failed:
            await fetched_of(answering, Limits(seconds=0.3))
        assert failed.value.was_sent


# TLS


async def test_tls_is_verified_by_name(tmp_path):
    theirs, ours = certificates.tls(tmp_path, "hooks.example.com")
    there = leading_to(["127.0.0.1"])
    async with server(answer(), theirs) as at:
        url = f"https://hooks.example.com:{at.port}/"
        async with open_exchange(resolve=there) as way:
            with pytest.raises(Untrusted, match="certificate"):  # no system authority signed it
                await fetched(url, way)
        assert at.requests == []
        async with open_exchange(resolve=there, trusted=ours) as way:
            assert (await fetched(url, way))[1] == b"hello"
            with pytest.raises(Untrusted, match="certificate"):
                await fetched(url.replace("hooks", "other"), way)
    assert theirs.asked[1:] == ["hooks.example.com", "other.example.com"]


@pytest.fixture
def environment(monkeypatch):
    """What calls trust is read again."""
    trusted.cache_clear()
    yield monkeypatch
    trusted.cache_clear()


async def test_calls_trust_the_authorities_of_ssl_cert_file(environment, tmp_path):
    company = certificates.certificate()  # without the extension for its key's use that strict checks want
    file, url = tmp_path / "company.pem", "https://hooks.example.com"
    file.write_bytes(certificates.pem(company[0]))
    theirs = certificates.serving(tmp_path, certificates.certificate("hooks.example.com", by=company))
    environment.setenv("SSL_CERT_FILE", str(file))
    async with server(answer(), theirs) as at, open_exchange(resolve=leading_to(["127.0.0.1"])) as way:
        assert (await fetched(f"{url}:{at.port}/", way))[1] == b"hello"
    environment.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    trusted.cache_clear()
    async with open_exchange() as way:
        with pytest.raises(Untrusted, match="SSL_CERT_FILE"):
            await fetched(url, way)


# Client libraries

LIBRARIES = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
PACKED = answer(gzip.compress(b'{"a": 1}'), "200 Fine", "Content-Encoding: gzip")
REDIRECT = answer(b"", "302 Found", "Location: http://127.0.0.1:1/")


def client(library, limits=None, **options):
    return library.AsyncClient(transport=Transport(open_exchange(limits)), **options)


@LIBRARIES
async def test_answers_come_whole_or_as_a_stream(library):
    goes_on = asyncio.Event()

    async def streaming(request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await goes_on.wait()
        writer.write(b"3\r\ntwo\r\n0\r\n\r\n")

    async with server(PACKED) as at, client(library) as http:
        response = await http.post(at.url, json={"b": 2}, headers={"X-Sent": "yes"})
        assert (response.json(), response.reason_phrase) == ({"a": 1}, "Fine")
    assert (b"X-Sent: yes" in at.requests[0], at.requests[0].endswith(b'{"b":2}')) == (True, True)
    endless = Limits(seconds=None)
    async with server(streaming) as at, client(library, endless) as http, http.stream("GET", at.url) as response:
        chunks = response.aiter_bytes()
        assert await anext(chunks) == b"one"
        goes_on.set()
        assert await anext(chunks) == b"two"


@LIBRARIES
async def test_refusals_are_errors_of_the_library(library):
    async with server(REDIRECT) as leading, server(answer(b"x" * 5000)) as large:
        for url, error, cause in (
            ("http://10.0.0.1/", library.ConnectError, Forbidden),
            (leading.url, library.RemoteProtocolError, Misleading),
            (large.url, library.ReadError, TooLarge),
        ):
            async with client(library, Limits(bytes=100), follow_redirects=True) as http:
                with pytest.raises(error) as refused:
                    await http.get(url)
            assert isinstance(refused.value.__cause__, cause)


@pytest.mark.parametrize("piece", [b"data: x\n\n", b"data: x\r\n\r\n", b": still here\n"])
async def test_a_stream_of_small_events_is_longer(piece):
    assert (await fetched_of(stream(piece * 1000), Limits(bytes=100)))[1] == piece * 1000
    with pytest.raises(TooLarge):
        await fetched_of(stream(piece * 1000), Limits(bytes=100, stream_bytes=500))


async def test_unsendable_headers_are_not_repeated():
    async with server(answer()) as at, open_exchange() as way:
        with pytest.raises(Unreachable) as refused:
            await fetched(at.url, way, {"Authorization": "canary "})
    assert "canary" not in str(refused.value)
    assert not refused.value.was_sent


@pytest.mark.parametrize(
    "start",
    [b"HTTP/1.1 200 OK\r\nX-A: ", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-A: "],
    ids=["header", "trailer"],
)
async def test_socket_refuses_endless_lines(start):
    """A process of this machine, which the parser would keep a line of whatever length."""
    sent = 0

    async def serve(reader, writer):
        nonlocal sent
        writer.write(start)
        try:
            while sent < 8 * 1024**2:
                writer.write(b"a" * 32 * 1024)
                await writer.drain()
                sent += 32 * 1024
        except ConnectionError:
            pass
        writer.close()

    with tempfile.TemporaryDirectory(prefix="parley-") as folder:
        path = f"{folder}/s"
        async with (
            await asyncio.start_unix_server(serve, path),
            Exchange(Guard(LOOPBACK), Limits(), socket=path) as way,
        ):
            with pytest.raises(Unreachable):
                await fetched("http://its.agent.invalid/", way)
    assert sent < 8 * 1024**2
