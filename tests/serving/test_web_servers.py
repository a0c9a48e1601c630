"""What every web server does at the edge: limits, clients that leave or do not read, WebSockets, stopping."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest
from uvicorn.server import ServerState
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from parley import uvicorn_http
from parley.serving.server import configuration
from tests.stack import ROOT, START_SECONDS, free_port, web_command

MB = 1024 * 1024
SOON = 20.0  # seconds, on a busy machine
ON_SERVICES = pytest.mark.services("the web servers of that profile", only=True)
UVICORN = pytest.param("uvicorn", marks=ON_SERVICES)
H2C = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk")
DAPHNE = pytest.param("daphne", marks=ON_SERVICES)


class Server:
    """A web server with the application of `tests.serving.edge`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = free_port()
        command = ["-m", "tests.serving.edge", str(self.port)]
        if name != "serve":
            command = web_command(name, self.port, "tests.serving.edge:application")
        self.process = subprocess.Popen(
            [sys.executable, *command], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until(self.is_up, START_SECONDS)

    def is_up(self) -> bool:
        assert self.process.poll() is None
        with contextlib.suppress(OSError):
            return bool(self.counts())
        return False

    def counts(self) -> dict[str, int]:
        """What `tests.serving.edge` counted."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/counts", timeout=SOON) as answer:
            return dict(json.load(answer))

    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def line(self, path: str, *headers: str, method: str = "GET", version: str = "1.1") -> socket.socket:
        """A connection on which a request's head was sent."""
        line = socket.create_connection(("127.0.0.1", self.port), timeout=SOON)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        line.sendall("\r\n".join([f"{method} {path} HTTP/{version}", "Host: localhost", *headers, "", ""]).encode())
        return line

    def websocket(self, origin: str = "") -> ClientConnection:
        own = f"http://127.0.0.1:{self.port}"
        return connect(own.replace("http", "ws"), origin=Origin(origin or own))


def until(is_so: Callable[[], bool], within: float = SOON) -> None:
    deadline = time.monotonic() + within
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def answer_on(line: socket.socket) -> tuple[int, Any]:
    answer = HTTPResponse(line)
    answer.begin()
    return answer.status, json.loads(answer.read())


@pytest.fixture(scope="module", params=["serve", UVICORN, DAPHNE])
def edge(request):
    server = Server(request.param)
    yield server
    server.process.kill()
    server.process.wait()


def test_bodies_are_taken_up_to_the_limit(edge):
    for size, status in ((20 * MB, 200), (30 * MB, 413)):
        with edge.line("/size", f"Content-Length: {size}", method="POST") as line:
            for _ in range(size // MB):
                line.sendall(b" " * MB)
            assert answer_on(line)[0] == status
    with edge.line("/size", "Transfer-Encoding: chunked", method="POST") as line:
        for _ in range(21):
            line.sendall(b"100000\r\n" + b" " * MB + b"\r\n")
        line.sendall(b"0\r\n\r\n")
        assert answer_on(line)[0] == 413


@pytest.mark.parametrize(
    ("after", "piece"),
    [("", "x" * 65536), ("Transfer-Encoding: chunked\r\n\r\n0\r\n", f"x: {'x' * 1000}\r\n" * 64)],
    ids=["one header of the head", "many trailers"],
)
def test_endless_headers_are_cut_off(edge, after, piece):
    before, sent = edge.resident_bytes(), 0
    with socket.create_connection(("127.0.0.1", edge.port), timeout=SOON) as line:
        line.sendall(f"POST /size HTTP/1.1\r\nHost: localhost\r\n{after}X: ".encode())
        with contextlib.suppress(ConnectionError):
            while sent < 64 * MB:
                line.sendall(piece.encode())
                sent += len(piece)
    assert sent < 64 * MB
    assert edge.resident_bytes() - before < 16 * MB


NOT_DAPHNE = pytest.mark.parametrize("edge", ["serve", UVICORN], indirect=True)
"""Daphne hands on whole bodies alone, and makes what nobody reads."""
HEAD = b"GET /size HTTP/1.1\r\nX: "


@NOT_DAPHNE
def test_stalled_requests_are_closed(edge):
    for sent in (b"", HEAD, HEAD.replace(b"1.1", b"1.0")):
        with socket.create_connection(("127.0.0.1", edge.port), timeout=SOON) as line:
            line.sendall(sent)
            assert line.recv(1024) == b"", sent
    for first, sent in (((), b"\r\n"), ((), HEAD), (H2C, HEAD)):  # the last goes to h11
        with edge.line("/late", *first) as line:
            assert answer_on(line)[0] == 200
            line.sendall(sent)
            assert line.recv(1024) == b"", sent
    with edge.line("/size", "Content-Length: 100", method="POST") as line:
        line.sendall(b"some of it")
        assert answer_on(line)[0] == 408
    with edge.line("/api/v1/uploads?filename=x", "Content-Length: 100000", method="POST") as line:
        answer = HTTPResponse(line)
        answer.begin()
        answer.read()
        assert answer.status == 404, "it is answered early"
        line.sendall(b"abc")
        assert line.recv(1024) == b""


@NOT_DAPHNE
@pytest.mark.parametrize(
    "open_one",
    [
        lambda edge: edge.line("/wait"),
        lambda edge: edge.line("/wait", version="1.0"),
        lambda edge: edge.line("/wait", *H2C),
        lambda edge: edge.websocket(),
    ],
    ids=["HTTP/1.1", "HTTP/1.0", "upgrade", "WebSocket"],
)
def test_addresses_have_limited_connections(edge, open_one):
    with contextlib.ExitStack() as lines:
        for _ in range(60):
            lines.enter_context(open_one(edge))
        until(lambda: answer_of_one_more(edge) == 503)
    until(lambda: answer_of_one_more(edge) == 200)


class From(asyncio.Transport):
    """A connection from this address."""

    def __init__(self, address: str) -> None:
        super().__init__({"peername": (address, 50000)})


async def test_ipv6_network_counts_as_one_address():
    lines = list[asyncio.Protocol]()
    for address in ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "::ffff:192.0.2.1", "192.0.2.1", "::1"):
        lines.append(uvicorn_http.HTTP(configuration(None), ServerState(), {}))  # type: ignore[call-arg]
        lines[-1].connection_made(From(address))
    assert sorted(uvicorn_http.connections_of.values()) == [1, 2, 2]
    for line in lines:
        line.connection_lost(OSError())
    assert not uvicorn_http.connections_of


def answer_of_one_more(edge: Server) -> int:
    with edge.line("/counts") as line, contextlib.suppress(OSError):
        answer = HTTPResponse(line)
        answer.begin()
        return answer.status
    return 0


def test_a_websocket_that_sends_too_much_is_closed(edge):
    with edge.websocket() as line:
        for _ in range(6):
            line.send("hello")
        with contextlib.suppress(ConnectionClosed):
            while line.recv(SOON):
                pass
        assert line.close_code == (4008 if edge.name == "daphne" else 1008), "Daphne sends no such code"
    until(lambda: edge.counts()["talking"] == 0)


def test_body_is_read_despite_an_upgrade(edge):
    for how, body in (("Content-Length: 5", b"hello"), ("Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n")):
        with edge.line("/size", *H2C, how, method="POST") as line:
            line.sendall(body)
            assert answer_on(line) == (200, {"bytes": 5})


def test_a_body_is_never_the_next_request(edge):
    body = b"GET /counts HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = f"POST /size HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n".encode()
    answered = b""
    with socket.create_connection(("127.0.0.1", edge.port), timeout=0.2) as line, contextlib.suppress(OSError):
        for piece in (head, b"Upgrade: h2c\r\nConnection: Upgrade\r\n\r\n", body):
            line.sendall(piece)
            with contextlib.suppress(TimeoutError):
                while more := line.recv(65536):
                    answered += more
    assert b"waiting" not in answered


@pytest.mark.parametrize(("path", "what"), [("/wait", "waiting"), ("/ticks", "streaming")])
def test_a_view_ends_when_its_client_leaves(edge, path, what):
    with edge.line(path):
        until(lambda: edge.counts()[what] == 1)
    until(lambda: edge.counts()[what] == 0)


def test_sending_consumer_learns_that_its_client_left(edge):
    with edge.websocket() as line:
        line.send("hello")
        assert line.recv(SOON) == "hello"
        assert edge.counts()["talking"] == 1
        line.socket.close()
    until(lambda: edge.counts()["talking"] == 0)


def test_websocket_refuses_large_messages_and_foreign_pages(edge):
    with edge.websocket() as line:
        with contextlib.suppress(ConnectionClosed):
            line.send("x" * 2 * MB)
        with pytest.raises(ConnectionClosed):
            line.recv(SOON)
    with pytest.raises(InvalidStatus, match="403"):
        edge.websocket("http://evil.example")


@NOT_DAPHNE
def test_what_nobody_reads_is_not_made(edge):
    before = edge.counts()["sent"]
    with edge.line("/flood") as line:
        line.recv(1024)
        if edge.name == "serve":
            assert is_cut(line)
        else:
            time.sleep(1)
        assert edge.counts()["sent"] - before < 16 * MB
    before, read = edge.counts()["sent"], 0
    with edge.line("/flood") as line:
        while read < 64 * MB:
            read += len(line.recv(MB))
        assert edge.counts()["sent"] - before >= 64 * MB - MB


def is_cut(line: socket.socket) -> bool:
    """Wait, without reading, until the other side's connection is gone."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(0.5)
        try:
            line.send(b"x")
        except ConnectionError:
            return True
    return False


def test_it_stops_in_order_while_clients_wait(edge):
    with edge.line("/wait"), edge.line("/ticks") as stream, edge.websocket():
        until(lambda: edge.counts()["waiting"] == edge.counts()["talking"] == 1)
        stream.recv(1024)
        edge.process.terminate()
        assert edge.process.wait(SOON) in (0, -15)
