"""The HTTP handler of async views, the limits of requests, and the guard of WebSockets: what `config.asgi` is made of.

`handle_async` runs async views on the server's event loop. All other requests go to Django's own handler, behind the
same `RequestLimits`. `SameOrigin` guards WebSockets.
"""

from __future__ import annotations

import asyncio
import io
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from asgiref.sync import iscoroutinefunction
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.core.exceptions import BadRequest, DisallowedHost, RequestAborted, RequestDataTooBig
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.http.request import split_domain_port, validate_host
from django.http.response import HttpResponseBase
from django.urls import resolve, set_script_prefix

import db
from config import error_responses
from config.error_responses import ErrorResponse

log = logging.getLogger("parley.direct")

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_LINE_BYTES = 16 * 1024  # of the address, and of each header
LINGER_SECONDS = 5.0  # how long the rest of a refused body is read and discarded, so that the client reads the answer
ANY_HOST_PATHS = ("/healthz", "/readyz")  # machines ask these by address
UPLOAD_PATH = re.compile(r"/api/v1/uploads(/[^/]+)?/?")
CHUNK_BYTES = 256 * 1024  # about what an upload's view gets at a time


class RequestLimits:
    """ASGI middleware that refuses an address, a header or a body that is too large.

    A body of a known length is refused before it comes, any other as soon as it has become too large. How much of it
    is in memory by then depends on the server: uvicorn passes bodies on as they come, Daphne only when they are whole.
    """

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = _CountedBody(receive)
        if head_error := _head_error(scope):
            await _refuse(head_error, scope, body, send)
            return
        try:
            if _content_length(scope) > settings.MAX_REQUEST_BYTES:
                raise RequestDataTooBig
            await self.application(scope, body.receive, send)
        except RequestDataTooBig:
            await _refuse(error_responses.too_large(settings.MAX_REQUEST_BYTES), scope, body, send)


class _CountedBody:
    """Passes a request's body on as far as MAX_REQUEST_BYTES."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._size = 0
        self._is_complete = False

    async def receive(self) -> Message:
        """The next message. Raises RequestDataTooBig."""
        message = await self._next()
        self._size += len(message.get("body", b""))
        if self._size > settings.MAX_REQUEST_BYTES:
            raise RequestDataTooBig
        return message

    async def discard(self) -> None:
        """Read what is left, for at most LINGER_SECONDS."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while not self._is_complete:
                    await self._next()

    async def _next(self) -> Message:
        message = await self._receive()
        self._is_complete = not message.get("more_body", False)
        return message


def _head_error(scope: Scope) -> ErrorResponse | None:
    if len(scope["path"]) + len(scope["query_string"]) > MAX_LINE_BYTES:
        return error_responses.URI_TOO_LONG
    if any(len(name) + len(value) > MAX_LINE_BYTES for name, value in scope["headers"]):
        return error_responses.HEADER_TOO_LONG
    return None


def _content_length(scope: Scope) -> int:
    """The length that the request states; 0 where it states none."""
    stated: bytes = dict(scope["headers"]).get(b"content-length", b"")
    return int(stated) if stated.isdigit() else 0


async def _refuse(error: ErrorResponse, scope: Scope, body: _CountedBody, send: Send) -> None:
    """Answer at once. What still comes is discarded for a while; then the connection is closed."""
    response = error_response(error, scope["path"])
    response["Content-Length"] = len(response.content)
    response["Connection"] = "close"
    await send(_start_message(response))
    await send({"type": "http.response.body", "body": response.content, "more_body": True})
    await body.discard()
    await send({"type": "http.response.body"})


async def handle_async(scope: Scope, receive: Receive, send: Send) -> None:
    """Run the async view of this path on the server's event loop, without middleware.

    Django's own handler keeps a thread for each request, because middleware and signal receivers may need it; a caller
    that waits for minutes would keep that thread, and a database connection with it. The views behind this handler
    need neither: they reach the database through `db` and look at credentials themselves.
    """
    if is_streamed_upload(scope):  # its view reads the body, and so notices when the client leaves
        await _serve({**scope, "body_chunks": body_chunks(receive)}, io.BytesIO(), send)
        return
    try:
        body = await _read_body(receive)
    except RequestAborted:
        return
    await serve_until_disconnect(_serve(scope, body, send), receive)


async def _read_body(receive: Receive) -> io.BytesIO:
    """The whole body. Raises RequestAborted for a client that left."""
    body = io.BytesIO()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestAborted
        body.write(message.get("body", b""))
        if not message.get("more_body", False):
            body.seek(0)
            return body


def is_streamed_upload(scope: Scope) -> bool:
    """Is it a piece of an upload, or a whole file at once?"""
    if not UPLOAD_PATH.fullmatch(scope["path"]):
        return False
    method = scope["method"].upper()  # as Django takes it
    return method == "PATCH" or (method == "POST" and b"filename" in parse_qs(scope["query_string"]))


async def body_chunks(receive: Receive) -> AsyncIterator[bytes]:
    """The body in chunks, to be read once. Raises RequestAborted for a client that left, after what came."""
    chunk = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            yield bytes(chunk)
            raise RequestAborted
        chunk += message.get("body", b"")
        more = message.get("more_body", False)
        if len(chunk) >= CHUNK_BYTES or not more:
            yield bytes(chunk)
            chunk.clear()


async def serve_until_disconnect(serving: Coroutine[Any, Any, None], receive: Receive) -> None:
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


async def _serve(scope: Scope, body: io.BytesIO, send: Send) -> None:
    """Find the view, let it answer, and send that."""
    try:
        request = ASGIRequest(scope, body)
    except (UnicodeDecodeError, BadRequest):
        await send_response(error_response(error_responses.MALFORMED, scope["path"]), send)
        return
    set_script_prefix(request.META["SCRIPT_NAME"])
    response = await _call_view(request)
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    try:
        await send_response(response, send, head_only=request.method == "HEAD")
    except Exception:
        # The status has gone out, so the only way left to say that something failed is to end abruptly.
        log.exception("%s %s broke off", request.method, request.path)
        raise
    finally:
        response.close()


async def _call_view(request: ASGIRequest) -> HttpResponseBase:
    """What the view for this path answers; an error where there is none or where it fails."""
    try:
        if request.path_info not in ANY_HOST_PATHS:
            request.get_host()
        match = request.resolver_match = resolve(request.path_info)
        if iscoroutinefunction(match.func):
            return cast(HttpResponseBase, await match.func(request, *match.args, **match.kwargs))
        return cast(HttpResponseBase, await db.run(match.func, request, *match.args, **match.kwargs))
    except DisallowedHost:
        return error_response(error_responses.WRONG_HOST, request.path)
    except Http404:
        return error_response(error_responses.NOT_FOUND, request.path)
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return error_response(error_responses.INTERNAL, request.path)


async def send_response(response: HttpResponseBase, send: Send, *, head_only: bool = False) -> None:
    """Send the response as ASGI's messages; a stream as it comes, and it ends when sending does."""
    await send(_start_message(response))
    if isinstance(response, StreamingHttpResponse) and not head_only:
        async with aclosing(cast(AsyncGenerator[bytes], aiter(response))) as chunks:
            async for chunk in chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
    whole = response.content if isinstance(response, HttpResponse) and not head_only else b""
    await send({"type": "http.response.body", "body": whole})


def _start_message(response: HttpResponseBase) -> Message:
    headers = [(name.encode("ascii"), value.encode("latin1")) for name, value in response.items()]
    headers += [(b"Set-Cookie", cookie.OutputString().encode("ascii")) for cookie in response.cookies.values()]
    return {"type": "http.response.start", "status": response.status_code, "headers": headers}


def error_response(error: ErrorResponse, path: str) -> HttpResponse:
    """The error as a response for that path."""
    return HttpResponse(error.body(path), status=error.status, content_type=error.media_type(path))


class SameOrigin:
    """Refuses a WebSocket whose `Origin` is neither `PUBLIC_BASE_URL` nor the host and port that the request names.

    The host must be one of ALLOWED_HOSTS, as for any other request. A client that sends no Origin is no browser, and
    is refused too: pages' sockets are for pages.
    """

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        is_ours = is_same_origin(headers.get(b"origin", ""), headers.get(b"host", ""))
        application = self.application if is_ours else WebsocketDenier()
        await application(scope, receive, send)


def is_same_origin(origin: str, host: str) -> bool:
    """Does a page of this origin come from the server that the `Host` header names?"""
    if origin == settings.PUBLIC_BASE_URL:
        return True
    parts = urlsplit(origin)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.netloc.lower() != host.lower():
        return False
    return validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS)
