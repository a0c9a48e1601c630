"""Limits on slow, large and empty requests, over raw sockets."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from typing import Any

import pytest

from tests.stack import Stack

LARGE = 30 * 1024 * 1024


@contextmanager
def line_to(server: Stack) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as line:
        yield line


def answer_on(line: socket.socket) -> tuple[int, Any]:
    answer = HTTPResponse(line)
    answer.begin()
    return answer.status, json.loads(answer.read())


def answer_to(server: Stack, *sent: bytes) -> tuple[int, Any]:
    with line_to(server) as line:
        for piece in sent:
            line.sendall(piece)
        return answer_on(line)


def head(path: str, *lines: str) -> bytes:
    wanted = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *lines, "", ""]
    return "\r\n".join(wanted).encode()


def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(server: Stack) -> None:
    for path in ("/a2a/echo", "/a2a/echo/", "/a2a"):
        status, body = answer_to(server, head(path, f"Content-Length: {LARGE}", "Expect: 100-continue"))
        assert (status, body["jsonrpc"], body["error"]["code"]) == (413, "2.0", 413)
    status, body = answer_to(server, head("/sign-in?next=/", f"Content-Length: {LARGE}"))
    assert (status, body["error"]["status"]) == (413, "INVALID_ARGUMENT"), "elsewhere it is plain JSON"


def test_an_address_or_a_header_that_is_too_long_is_refused_in_words(server: Stack) -> None:
    for length in (17_000, 100_000):
        address = f"GET /api/v1/events?since={'x' * length} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        status, problem = answer_to(server, address)
        assert (status, problem["status"]) == (414, 414)
        assert "too long" in problem["detail"]
    status, body = answer_to(server, head("/a2a/echo", f"Authorization: Bearer {'x' * 17_000}"))
    assert status == 431
    assert "too long" in body["error"]["message"]


@pytest.mark.slow("sends until it is cut off, and measures memory")
def test_memory_does_not_grow_with_what_is_refused_and_who_never_ends_is_cut_off(server: Stack) -> None:
    before = server.resident_bytes()
    with contextlib.ExitStack() as lines:
        for line in [lines.enter_context(line_to(server)) for _ in range(8)]:
            line.sendall(head("/a2a/echo", f"Content-Length: {LARGE}"))
            for _ in range(LARGE // 65536):
                line.sendall(b" " * 65536)
        assert server.resident_bytes() - before < LARGE
    with line_to(server) as line:
        line.sendall(head("/a2a/echo", "Content-Length: 1000000000000"))
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < 120:
                line.sendall(b" " * 65536)
        assert time.monotonic() - began < 120
