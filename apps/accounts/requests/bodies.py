"""Bodies of requests: none is received before its caller is known, and large ones leave the event loop to others.

Addresses below `parley.asgi.ASYNC_PATH` get a request whose body is still at the client. A view finds its caller by the
headers, and then calls `read`. Code that wants the body before that fails, so that no address can forget it. The
exception is `arrived`: what is in memory anyway, and small, may say what to look up together with the caller.
"""

from __future__ import annotations

import asyncio
import io
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, cast

from django.conf import settings
from django.core.exceptions import RequestAborted, RequestDataTooBig
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest

from apps.accounts.principals import Principal
from parley import db
from parley.telemetry.requests import BODY_ARRIVED

SMALL_BYTES = 16 * 1024  # of a body that `arrived`
LARGE_BYTES = 64 * 1024  # of a body: a larger one is parsed and checked in a thread
WITH_A_KEY = "Send an API key with the request to send more."
CHUNK_BYTES = 256 * 1024  # for who reads a body in chunks, about
LARGE_AT_ONCE = 4
LARGE_OF_CALLER = 2


class BodyNotReceived(RuntimeError):
    """A view wants a body before it awaited `bodies.read`."""


class BodyTooSlow(RequestAborted):
    """A body does not come on."""


class BodyTooLarge(RequestDataTooBig):
    """A body has more bytes than this caller may send; `str()` is a sentence for them."""


class IncomingBody(io.BytesIO):
    """A body that is received when `receive_whole` or `chunks` is awaited. Reading it before raises BodyNotReceived.

    `when_complete` is called, without arguments, once all of it is there. `verify` gets the whole body before a view
    does.
    """

    def __init__(self, receive: Callable[[], Awaitable[Mapping[str, Any]]]) -> None:
        super().__init__()
        self._receive = receive
        self.is_complete = False
        self.when_complete: Callable[[], None] = lambda: None
        self.verify: Callable[[bytes], None] | None = None

    def read(self, size: int | None = -1, /) -> bytes:
        if not self.is_complete:
            raise BodyNotReceived
        return super().read(size)

    async def receive_whole(self, limit: int) -> None:
        """Raises BodyTooLarge beyond `limit` bytes, RequestAborted if the client leaves, and what `verify` raises."""
        if not self.is_complete:
            while not self.is_complete:
                self.write(await self._next())
                if self.tell() > limit:
                    raise BodyTooLarge(f"The body is larger than {limit // 1024} kB.")
            self.seek(0)
        if self.verify is not None:
            content = self.getvalue()
            await work_on(len(content), self.verify, content)
            self.verify = None

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body in chunks, once. Raises RequestAborted after the last chunk if the client left."""
        chunk = bytearray()
        while not self.is_complete:
            try:
                chunk += await self._next()
            except RequestAborted:
                yield bytes(chunk)
                raise
            if len(chunk) >= CHUNK_BYTES or self.is_complete:
                yield bytes(chunk)
                chunk.clear()

    async def discard(self) -> None:
        """Receive what is left of it, and forget it. Raises RequestAborted if the client leaves."""
        while not self.is_complete:
            await self._next()

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise RequestAborted
        if not message.get("more_body", False):
            self.is_complete = True
            self.when_complete()
        return bytes(message.get("body", b""))


def incoming(request: HttpRequest) -> IncomingBody | None:
    """The body of a request, if it may still be at the client."""
    body = getattr(request, "scope", {}).get("body")
    return body if isinstance(body, IncomingBody) else None


async def arrived(request: HttpRequest) -> bytes | None:
    """A small body that came with its head; None if it is not here, or large. It is not verified: `read` does that."""
    body = incoming(request)
    length = request.META.get("CONTENT_LENGTH", "")
    is_small = length.isdigit() and int(length) <= SMALL_BYTES
    if body is None or not is_small or not cast(ASGIRequest, request).scope.get(BODY_ARRIVED):
        return None
    await body.receive_whole(SMALL_BYTES)
    return body.getvalue()


def has_body(request: HttpRequest) -> bool:
    """Does the request have a body, by its headers?"""
    return request.headers.get("Content-Length", "") not in ("", "0") or "Transfer-Encoding" in request.headers


def head_of(request: HttpRequest) -> HttpRequest:
    """The request without its body, for code that would read a form in it."""
    if incoming(request) is None:
        return request
    scope = cast(ASGIRequest, request).scope
    headers = [(name, value) for name, value in scope["headers"] if name != b"content-type"]
    return ASGIRequest({**scope, "headers": headers}, io.BytesIO())


async def read(request: HttpRequest, principal: Principal, limit: int = 0) -> bytes:
    """The whole body of a request of this caller. `limit`: in bytes, by default what the caller may send.

    Raises BodyTooLarge, RequestAborted, and NotSigned if the signature covers another body.
    """
    body = getattr(request, "scope", {}).get("body")
    if isinstance(body, IncomingBody):
        most = settings.MAX_REQUEST_BYTES if principal.is_known else settings.ANONYMOUS_REQUEST_BYTES
        try:
            await body.receive_whole(limit or most)
        except BodyTooLarge as error:
            raise error if limit or principal.is_known else BodyTooLarge(f"{error} {WITH_A_KEY}") from None
    return request.body


def limit_of(principal: Principal) -> int:
    """How large a body of this caller may be, in bytes."""
    return int(settings.MAX_REQUEST_BYTES if principal.is_known else settings.ANONYMOUS_REQUEST_BYTES)


_threads = ThreadPoolExecutor(LARGE_AT_ONCE, thread_name_prefix="bodies")
_turns: weakref.WeakValueDictionary[tuple[int, str], asyncio.Semaphore] = weakref.WeakValueDictionary()


async def work_on[**P, T](size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`work(*args, **kwargs)` about a body of `size` bytes: here, or of a large one in a thread.

    LARGE_OF_CALLER large ones of a caller, and LARGE_AT_ONCE in all, are worked on at a time; others wait.
    """
    if size <= LARGE_BYTES:
        return work(*args, **kwargs)
    loop = asyncio.get_running_loop()
    turns = _turns.setdefault((id(loop), db.caller.get()), asyncio.Semaphore(LARGE_OF_CALLER))
    await turns.acquire()
    at_work = loop.run_in_executor(_threads, partial(copy_context().run, work, *args, **kwargs))
    at_work.add_done_callback(lambda _: turns.release())  # not before: the thread goes on if the caller leaves
    return await asyncio.shield(at_work)
