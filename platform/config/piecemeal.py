"""Requests whose body is taken in pieces, as it comes, instead of being read whole before anybody looks at it."""

from __future__ import annotations

import io
import re
from collections.abc import AsyncIterator
from urllib.parse import parse_qs

from django.conf import settings
from django.core.exceptions import RequestAborted, RequestDataTooBig
from django.core.handlers.asgi import get_script_prefix
from django.urls import set_script_prefix

from config.direct import DirectHandler, Receive, Scope, Send

UPLOADS = re.compile(r"/api/v1/uploads(/[^/]+)?/?")
AT_ONCE = 256 * 1024  # bytes of a piece, about


def comes_in_pieces(scope: Scope) -> bool:
    """Is it a piece of an upload, or a whole file at once?"""
    if not UPLOADS.fullmatch(scope["path"]):
        return False
    method = scope["method"].upper()  # as Django takes it
    return method == "PATCH" or (method == "POST" and b"filename" in parse_qs(scope["query_string"]))


class PiecemealHandler(DirectHandler):
    """Gives the view an empty body, and what comes of it as `scope["pieces"]`, to be iterated over once.

    Nobody watches whether the client leaves: who reads notices it.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        set_script_prefix(get_script_prefix(scope))
        await self.serve({**scope, "pieces": pieces(receive)}, io.BytesIO(), send)


async def pieces(receive: Receive) -> AsyncIterator[bytes]:
    """The body in pieces. Raises RequestDataTooBig, RequestAborted for a client that left, both after what came."""
    piece = bytearray()
    total, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            yield bytes(piece)
            raise RequestAborted
        content = message.get("body", b"")
        total += len(content)
        if total > settings.MAX_REQUEST_BYTES:
            raise RequestDataTooBig
        piece += content
        more = message.get("more_body", False)
        if len(piece) >= AT_ONCE or not more:
            yield bytes(piece)
            piece.clear()
