"""What a client may do to the server: send too much, read too slowly, or not at all. Over raw sockets."""

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

LIMIT = 20 * 1024 * 1024
LARGE = 30 * 1024 * 1024


@contextmanager
def line_to(server: Stack) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as line:
        yield line


def answer_on(line: socket.socket) -> tuple[int, Any]:
    """Status and JSON body of the answer."""
    answer = HTTPResponse(line)
    answer.begin()
    return answer.status, json.loads(answer.read())


def head(path: str, *lines: str) -> bytes:
    wanted = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *lines, "", ""]
    return "\r\n".join(wanted).encode()


@pytest.mark.parametrize("path", ["/a2a/echo", "/a2a/echo/", "/a2a"])
def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(server: Stack, path: str) -> None:
    with line_to(server) as line:
        line.sendall(head(path, f"Content-Length: {LARGE}", "Expect: 100-continue"))
        status, body = answer_on(line)
    assert status == 413
    assert body["jsonrpc"] == "2.0"
    assert body["error"]["code"] == 413


def test_elsewhere_the_refusal_is_plain_json(server: Stack) -> None:
    with line_to(server) as line:
        line.sendall(head("/sign-in?next=/", f"Content-Length: {LARGE}"))
        status, body = answer_on(line)
    assert (status, body["error"]["status"]) == (413, "INVALID_ARGUMENT")


@pytest.mark.parametrize("length", [17_000, 100_000])
def test_an_address_that_is_too_long_is_refused_in_words(server: Stack, length: int) -> None:
    with line_to(server) as line:
        line.sendall(f"GET /api/v1/events?since={'x' * length} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        status, problem = answer_on(line)
    assert (status, problem["status"]) == (414, 414)
    assert "too long" in problem["detail"]


def test_a_header_that_is_too_long_is_refused_in_words(server: Stack) -> None:
    with line_to(server) as line:
        line.sendall(head("/a2a/echo", f"Authorization: Bearer {'x' * 17_000}"))
        status, body = answer_on(line)
    assert status == 431
    assert "too long" in body["error"]["message"]


def test_a_client_that_sends_all_of_it_first_still_gets_the_answer(server: Stack) -> None:
    with line_to(server) as line:
        line.sendall(head("/a2a/echo", f"Content-Length: {LARGE}"))
        for _ in range(LARGE // 65536):
            line.sendall(b" " * 65536)
        assert answer_on(line)[0] == 413


def test_a_body_of_unknown_length_is_refused_when_it_has_become_too_large(server: Stack) -> None:
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    with line_to(server) as line:
        line.sendall(head("/a2a/echo", "Transfer-Encoding: chunked"))
        for _ in range(LIMIT // 65536 + 1):
            line.sendall(chunk)
        line.sendall(b"0\r\n\r\n")
        assert answer_on(line)[0] == 413


def test_memory_does_not_grow_with_what_is_refused(server: Stack) -> None:
    before = server.resident_bytes()
    lines = [socket.create_connection(("127.0.0.1", server.port), timeout=20) for _ in range(8)]
    for line in lines:
        line.sendall(head("/a2a/echo", f"Content-Length: {LARGE}"))
        for _ in range(LARGE // 65536):
            line.sendall(b" " * 65536)
    grown = server.resident_bytes() - before
    for line in lines:
        line.close()
    assert grown < LARGE


def test_who_only_sends_and_never_ends_is_cut_off(server: Stack) -> None:
    with line_to(server) as line:
        line.sendall(head("/a2a/echo", "Content-Length: 1000000000000"))
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < 15:
                line.sendall(b" " * 65536)
    assert time.monotonic() - began < 10
