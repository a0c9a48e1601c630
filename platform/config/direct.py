"""The way to views that wait or stream: Django's requests, URLs and responses, without threads and middleware."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import closing, suppress
from typing import Any, cast

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.core.exceptions import BadRequest, DisallowedHost, RequestAborted
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import resolve, set_script_prefix

import db
from config import refusals
from config.refusals import Refusal

log = logging.getLogger("parley.direct")

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

ANY_HOST = ("/healthz", "/readyz")  # machines ask these by address


class TooLarge(Exception):
    """More than MAX_REQUEST_BYTES came in."""


class DirectHandler(ASGIHandler):
    """Runs async views on the server's event loop and nothing else.

    Django's own handler gives every request a thread, because middleware and signal receivers may need it; a caller
    that waits for minutes would keep that thread, and a database connection with it. The views behind this handler
    need neither: they reach the database through `db` and look at credentials themselves.
    """

    def load_middleware(self, is_async: bool = False) -> None:
        """There is none."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        except TooLarge:
            await self.send_response(refuse(refusals.too_large(settings.MAX_REQUEST_BYTES), scope["path"]), send)
            return
        with closing(body):
            set_script_prefix(get_script_prefix(scope))
            await until_gone(self.serve(scope, body, send), receive)

    async def read_body(self, receive: Receive) -> io.BytesIO:
        """The whole body. Raises TooLarge as soon as it is, RequestAborted for a client that left."""
        body = io.BytesIO()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise RequestAborted
            body.write(message.get("body", b""))
            if body.tell() > settings.MAX_REQUEST_BYTES:
                raise TooLarge
            if not message.get("more_body", False):
                body.seek(0)
                return body

    async def serve(self, scope: Scope, body: io.BytesIO, send: Send) -> None:
        """Find the view, let it answer, and send that."""
        try:
            request = self.request_class(scope, body)
        except (UnicodeDecodeError, BadRequest):
            await self.send_response(refuse(refusals.MALFORMED, scope["path"]), send)
            return
        response = await answer(request)
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        try:
            if request.method == "HEAD":
                await send_head(response, send)
            else:
                await self.send_response(response, send)
        except Exception:
            # The status has gone out, so the only way left to say that something failed is to end abruptly.
            log.exception("%s %s broke off", request.method, request.path)
            raise
        finally:
            await close(response)


async def answer(request: ASGIRequest) -> HttpResponseBase:
    """What the view for this path answers; a refusal where there is none or where it fails."""
    try:
        if request.path_info not in ANY_HOST:
            request.get_host()
        match = request.resolver_match = resolve(request.path_info)
        if iscoroutinefunction(match.func):
            return cast(HttpResponseBase, await match.func(request, *match.args, **match.kwargs))
        return cast(HttpResponseBase, await db.run(match.func, request, *match.args, **match.kwargs))
    except DisallowedHost:
        return refuse(refusals.WRONG_HOST, request.path)
    except Http404:
        return refuse(refusals.NOT_FOUND, request.path)
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return refuse(refusals.INTERNAL, request.path)


async def until_gone(serving: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Serve for as long as the client is there: when it leaves, the view or its stream is canceled."""
    work = asyncio.eager_task_factory(asyncio.get_running_loop(), serving)
    gone = asyncio.ensure_future(receive())
    try:
        if not work.done():
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
    finally:
        gone.cancel()
        if work.cancel():
            with suppress(asyncio.CancelledError):
                await work


async def send_head(response: HttpResponseBase, send: Send) -> None:
    """Send the status and the headers alone."""
    headers = [(name.encode("ascii"), value.encode("latin1")) for name, value in response.items()]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body"})


async def close(response: HttpResponseBase) -> None:
    """Free what the response holds; a stream ends now, not when its generator happens to be collected."""
    # streaming_content would be a wrapper, whose end does not end what it wraps
    stream = getattr(response, "_iterator", None)
    if isinstance(stream, AsyncGenerator):
        await stream.aclose()
    response.close()


def refuse(refusal: Refusal, path: str) -> HttpResponse:
    """The refusal as a response for that path."""
    return HttpResponse(refusal.body(path), status=refusal.status, content_type=refusal.media_type(path))
