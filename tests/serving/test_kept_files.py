"""Files that never change are answered from memory, as they were the first time."""

from __future__ import annotations

import re

import httpx

from config.kept_files import KeptInMemory
from tests.stack import Stack

FOR_GOOD = [(b"Cache-Control", b"max-age=315360000, public, immutable")]
FOR_NOW = [(b"Cache-Control", b"max-age=60, public")]


def test_a_file_is_said_again_as_it_was_said_and_who_has_it_or_wants_a_part_gets_no_more(server: Stack) -> None:
    with httpx.Client(base_url=server.url) as client:
        found = re.search(r"/static/css/base\.[0-9a-f]+\.css", client.get("/sign-in").text)
        assert found
        style = found[0]
        for accepted in ("br, gzip", "gzip", "identity"):
            first, again = (client.get(style, headers={"Accept-Encoding": accepted}) for _ in range(2))
            assert first.headers.get("Content-Encoding", "identity") in accepted
            assert "immutable" in first.headers["Cache-Control"]
            assert first.headers["X-Content-Type-Options"] == "nosniff"
            assert (first.status_code, again.status_code, again.content) == (200, 200, first.content)
            assert dict(again.headers) == dict(first.headers)
        whole = client.get(style, headers={"Accept-Encoding": "identity"})
        assert client.get(style, headers={"If-None-Match": whole.headers["ETag"]}).status_code == 304
        part = client.get(style, headers={"Range": "bytes=0-9", "Accept-Encoding": "identity"})
        assert (part.status_code, part.content) == (206, whole.content[:10])
        head = client.head(style)
        assert (head.status_code, head.content) == (200, b"")
        assert client.post(style).status_code == 405
        assert client.get("/static/css/none.css").status_code == 404


class Answering:
    """An ASGI application whose answers are 100 bytes in two pieces, and that notes what is asked for.

    Whoever asks for something with "gone" in its name leaves before the first piece, or after it.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, scope, receive, send):
        self.asked.append(scope["path"])
        is_good = scope["path"].startswith("/good")
        await send({"type": "http.response.start", "status": 200, "headers": FOR_GOOD if is_good else FOR_NOW})
        if scope["path"] == "/good/gone-at-once":
            return
        await send({"type": "http.response.body", "body": b"x" * 50, "more_body": True})
        if scope["path"] != "/good/gone":
            await send({"type": "http.response.body", "body": b"y" * 50})


async def get(application: KeptInMemory, path: str) -> bytes:
    said = []

    async def send(message):
        said.append(message)

    await application({"type": "http", "method": "GET", "path": path, "headers": []}, None, send)
    assert said[0]["status"] == 200
    return b"".join(message["body"] for message in said[1:])


async def test_only_what_never_changes_is_kept_and_only_whole() -> None:
    asked = Answering()
    kept = KeptInMemory(asked)
    for path in ("/good", "/now", "/good/gone", "/good/gone-at-once"):
        assert await get(kept, path) == await get(kept, path)
    assert asked.asked == ["/good", *["/now"] * 2, *["/good/gone"] * 2, *["/good/gone-at-once"] * 2]


async def test_what_was_asked_for_least_lately_goes_first() -> None:
    asked = Answering()
    kept = KeptInMemory(asked, most=250)
    for path in ("/good/1", "/good/2", "/good/1", "/good/3", "/good/1", "/good/2"):
        assert await get(kept, path) == b"x" * 50 + b"y" * 50
    assert asked.asked == ["/good/1", "/good/2", "/good/3", "/good/2"]
