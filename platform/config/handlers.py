"""The parts of `config.asgi`: the handler of async views, request limits, and the origin check of WebSockets."""

from __future__ import annotations

import asyncio
import io
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
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
from config.middleware import other_form

log = logging.getLogger("parley.direct")

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_LINE_BYTES = 16 * 1024  # of the URL, and of each header
LINGER_SECONDS = 5.0  # to discard the rest of a refused body, so that the client reads the answer
ANY_HOST_PATHS = ("/healthz", "/readyz")  # probes use IP addresses
UPLOAD_PATH = re.compile(r"/api/v1/uploads(/[^/]+)?/?")
CHUNK_BYTES = 256 * 1024  # for an upload's view, about


class RequestLimits:
    """ASGI middleware that refuses too long URLs, headers and bodies.

    A body is refused by its Content-Length, or once too much has arrived.
    """

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = 0
        is_complete = False

        async def receive_limited() -> Message:
            """Raises RequestDataTooBig."""
            nonlocal size, is_complete
            message = await receive()
            is_complete = not message.get("more_body", False)
            size += len(message.get("body", b""))
            if size > settings.MAX_REQUEST_BYTES:
                raise RequestDataTooBig
            return message

        error: ErrorResponse | None = None
        if len(scope["path"]) + len(scope["query_string"]) > MAX_LINE_BYTES:
            error = error_responses.URI_TOO_LONG
        elif any(len(name) + len(value) > MAX_LINE_BYTES for name, value in scope["headers"]):
            error = error_responses.HEADER_TOO_LONG
        else:
            stated: bytes = dict(scope["headers"]).get(b"content-length", b"")
            try:
                if stated.isdigit() and int(stated) > settings.MAX_REQUEST_BYTES:
                    raise RequestDataTooBig
                await self.application(scope, receive_limited, send)
            except RequestDataTooBig:
                error = error_responses.too_large(settings.MAX_REQUEST_BYTES)
        if error is None:
            return
        response = error_response(error, scope["path"])
        response["Content-Length"] = len(response.content)
        response["Connection"] = "close"
        await send_response(response, send, more_body=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while not is_complete:
                    with suppress(RequestDataTooBig):
                        await receive_limited()
        await send({"type": "http.response.body"})


async def handle_async(scope: Scope, receive: Receive, send: Send) -> None:
    """Run the path's async view on the server's event loop, without middleware, until the client leaves.

    Django's handler keeps a thread and a database connection for each request, even one that waits for minutes. These
    views need neither: they use `db`, and check credentials themselves.
    """
    if UPLOAD_PATH.fullmatch(scope["path"]) and _is_streamed_upload(scope):
        # The view reads the body, so it notices when the client leaves.
        await _respond({**scope, "body_chunks": body_chunks(receive)}, io.BytesIO(), send)
        return
    body = io.BytesIO()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body.write(message.get("body", b""))
        more = message.get("more_body", False)
    body.seek(0)
    work = asyncio.eager_task_factory(asyncio.get_running_loop(), _respond(scope, body, send))
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


def _is_streamed_upload(scope: Scope) -> bool:
    """Is the body a file or a piece of one?"""
    method = scope["method"].upper()  # as Django takes it
    return method == "PATCH" or (method == "POST" and b"filename" in parse_qs(scope["query_string"]))


async def body_chunks(receive: Receive) -> AsyncIterator[bytes]:
    """The body in chunks, once. Raises RequestAborted after the last chunk if the client left."""
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


async def _respond(scope: Scope, body: io.BytesIO, send: Send) -> None:
    """Send the response of the path's view, or an error."""
    try:
        request = ASGIRequest(scope, body)
    except (UnicodeDecodeError, BadRequest):
        await send_response(error_response(error_responses.MALFORMED, scope["path"]), send)
        return
    set_script_prefix(request.META["SCRIPT_NAME"])
    response: HttpResponseBase
    try:
        if request.path_info not in ANY_HOST_PATHS:
            request.get_host()
        match = request.resolver_match = resolve(request.path_info)
        if iscoroutinefunction(match.func):
            response = await match.func(request, *match.args, **match.kwargs)
        else:
            response = await db.run(match.func, request, *match.args, **match.kwargs)
    except DisallowedHost:
        response = error_response(error_responses.WRONG_HOST, request.path)
    except Http404:
        response = other_form(request) or error_response(error_responses.NOT_FOUND, request.path)
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        response = error_response(error_responses.INTERNAL, request.path)
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    try:
        await send_response(response, send, head_only=request.method == "HEAD")
    except Exception:
        # The status has been sent: a failure can only be reported by breaking off.
        log.exception("%s %s broke off", request.method, request.path)
        raise
    finally:
        response.close()


async def send_response(
    response: HttpResponseBase, send: Send, *, head_only: bool = False, more_body: bool = False
) -> None:
    """Send a response or a stream as ASGI messages; with `more_body` the caller ends the body."""
    headers = [(name.encode("ascii"), value.encode("latin1")) for name, value in response.items()]
    headers += [(b"Set-Cookie", cookie.OutputString().encode("ascii")) for cookie in response.cookies.values()]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    if isinstance(response, StreamingHttpResponse) and not head_only:
        async with aclosing(cast(AsyncGenerator[bytes], aiter(response))) as chunks:
            async for chunk in chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
    whole = response.content if isinstance(response, HttpResponse) and not head_only else b""
    await send({"type": "http.response.body", "body": whole, "more_body": more_body})


def error_response(error: ErrorResponse, path: str) -> HttpResponse:
    return HttpResponse(error.body(path), status=error.status, content_type=error.media_type(path))


class SameOrigin:
    """Refuses WebSockets whose `Origin` is neither `PUBLIC_BASE_URL` nor the request's own allowed host and port."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        is_ours = is_same_origin(headers.get(b"origin", ""), headers.get(b"host", ""))
        application = self.application if is_ours else WebsocketDenier()
        await application(scope, receive, send)


def is_same_origin(origin: str, host: str) -> bool:
    """Is the origin this server, by PUBLIC_BASE_URL or an allowed `Host` header?"""
    if origin == settings.PUBLIC_BASE_URL:
        return True
    parts = urlsplit(origin)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.netloc.lower() != host.lower():
        return False
    return validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS)
