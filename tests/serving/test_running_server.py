"""A server that runs: alive and ready, its static files, and limits on large requests, over raw sockets.

One file, so that a parallel run starts this server once.
"""

import json
import re
import socket
from http.client import HTTPResponse
from typing import Any

import httpx
from django.conf import settings

from tests.stack import Stack

LARGE = 30 * 1024 * 1024


def test_running_server_is_alive_and_ready(server):
    with httpx.Client(base_url=server.url, timeout=20) as client:
        alive = client.get("/healthz")
        assert (alive.status_code, alive.json()) == (200, {"status": "ok"})
        server.wait_until(lambda: client.get("/readyz").json()["beat"] == "ok")  # written after its first tick
        answer = client.get("/readyz")
    parts = answer.json()
    assert answer.status_code == 200
    assert parts["database"] == "ok"
    assert {parts[name] for name in ("migrations", "workers", "beat", "static_files", "disk")} == {"ok"}
    assert ("broker" in parts) == ("channel_layer" in parts) == (not settings.EMBEDDED)


def test_files_are_compressed_cached_and_sent_in_part(server):
    with httpx.Client(base_url=server.url) as client:
        found = re.search(r"/static/css/base\.[0-9a-f]+\.css", client.get("/sign-in").text)
        assert found
        style = found[0]
        for accepted in ("br, gzip", "gzip", "identity"):
            answer = client.get(style, headers={"Accept-Encoding": accepted})
            assert answer.status_code == 200
            assert answer.headers.get("Content-Encoding", "identity") in accepted
            assert "immutable" in answer.headers["Cache-Control"]
            assert {"content-security-policy", "referrer-policy", "x-content-type-options"} <= answer.headers.keys()
        whole = client.get(style, headers={"Accept-Encoding": "identity"})
        assert client.get(style, headers={"If-None-Match": whole.headers["ETag"]}).status_code == 304
        part = client.get(style, headers={"Range": "bytes=0-9", "Accept-Encoding": "identity"})
        assert (part.status_code, part.content) == (206, whole.content[:10])
        head = client.head(style)
        assert (head.status_code, head.content) == (200, b"")
        assert client.post(style).status_code == 405
        assert client.get("/static/css/none.css").status_code == 404


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
