"""Limits on slow, large and empty requests, over raw sockets."""

import json
import socket
from http.client import HTTPResponse
from typing import Any

from tests.stack import Stack

LARGE = 30 * 1024 * 1024


def answer_to(server: Stack, sent: bytes) -> tuple[int, Any]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as line:
        line.sendall(sent)
        answer = HTTPResponse(line)
        answer.begin()
        return answer.status, json.loads(answer.read())


def head(path: str, *lines: str) -> bytes:
    wanted = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *lines, "", ""]
    return "\r\n".join(wanted).encode()


def test_too_large_body_is_refused_before_it_comes(server):
    for path in ("/a2a/echo", "/a2a/echo/", "/a2a"):
        status, body = answer_to(server, head(path, f"Content-Length: {LARGE}", "Expect: 100-continue"))
        assert (status, body["jsonrpc"], body["error"]["code"]) == (413, "2.0", 413)
    status, body = answer_to(server, head("/sign-in?next=/", f"Content-Length: {LARGE}"))
    assert (status, body["error"]["status"]) == (413, "INVALID_ARGUMENT"), "elsewhere it is plain JSON"


def test_too_long_addresses_and_headers_are_refused(server):
    for length in (17_000, 100_000):
        address = f"GET /api/v1/events?since={'x' * length} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        status, problem = answer_to(server, address)
        assert (status, problem["status"]) == (414, 414)
        assert "too long" in problem["detail"]
    status, body = answer_to(server, head("/a2a/echo", f"Authorization: Bearer {'x' * 17_000}"))
    assert status == 431
    assert "too long" in body["error"]["message"]
