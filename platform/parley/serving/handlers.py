"""The parts of `parley.asgi`: the handler of async views, request limits, and the origin check of WebSockets."""

from __future__ import annotations

import asyncio
import io
import logging
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import urlsplit

from asgiref.sync import iscoroutinefunction
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.core.exceptions import BadRequest, DisallowedHost, RequestAborted, RequestDataTooBig
from django.core.handlers.asgi import ASGIRequest
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.http.request import split_domain_port, validate_host
from django.http.response import HttpResponseBase
from django.urls import ResolverMatch, resolve, set_script_prefix

from apps.accounts.principals import ANONYMOUS, Principal, address_key
from apps.accounts.requests import bodies
from apps.accounts.requests.authentication import session_user
from apps.accounts.requests.bodies import BodyTooSlow, IncomingBody
from apps.record.wire import EventStream
from parley import db
from parley.serving import error_responses
from parley.serving.error_responses import ErrorResponse
from parley.serving.middleware import other_form
from parley.telemetry.requests import BODY_ARRIVED, SCOPE_KEY, template

log = logging.getLogger("parley.direct")

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_LINE_BYTES = 16 * 1024  # of the URL, and of each header
BODY_SECONDS = 30.0  # without a byte of a body, and for a body besides its bytes' time
BODY_BYTES_A_SECOND = 1_000  # slower bodies are refused
ASYNC_PATH = re.compile(
    r"/(a2a|v1|mcp|agui|langgraph|hooks|api/v1(?!/docs(/|\Z))|\.well-known(?!/o(penid|auth)-)|gateway/notifications|static|healthz|readyz|metrics)(/|\Z)"
)
"""Addresses of async views; others are pages, which Django's own handler serves."""
EVENT_PATH = re.compile(r"/hooks/(?!chats/)")
"""Addresses of incoming webhooks. Those of chat channels, which take letters with files, say what is less."""
SOCKET_MESSAGES, SOCKET_MESSAGES_A_SECOND = 200.0, 20.0  # that a WebSocket may send at once, and in the long run
LINGER_SECONDS = 5.0  # to discard the rest of a refused body, so that the client reads the answer
WATCH_AFTER_SECONDS = 0.05  # for a client that leaves: most have their response by then
ANY_HOST_PATHS = ("/healthz", "/healthz/request", "/readyz", "/metrics")  # probes use IP addresses
POLICY_VIOLATION = 1008  # RFC 6455 §7.4.1
BODILESS = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)


FORBIDDEN = ("camera", "display-capture", "geolocation", "hid", "midi", "payment", "serial", "usb")
PERMISSIONS = ", ".join((*(f"{name}=()" for name in FORBIDDEN), "microphone=(self)"))
"""What browsers give to pages: the microphone for dictation, which people must allow, and nothing else."""


class RequestGuard:
    """ASGI middleware around all that answers HTTP requests.

    - It refuses too long URLs, headers and bodies, and bodies that come too slowly. A body is refused by its
      Content-Length, or once too much has arrived. Whatever the application answers then, the refusal is sent.
      `largest` says how large a body that is not for an async view may be, in bytes, by the head of its request.
    - It adds to every response the security headers that it lacks, whoever made it. A response of an API runs and loads
      nothing, and nobody frames it. Pages and files have policies of their own.
    - It lets clients repeat a request which the stop of the server has cut off: 503, not 500. A response that has begun
      breaks off.
    """

    def __init__(self, application: Application, largest: Callable[[Scope], Awaitable[int]]) -> None:
        self.application, self.largest = application, largest
        self._headers = [
            (b"x-content-type-options", b"nosniff"),
            (b"x-frame-options", b"DENY"),
            (b"referrer-policy", settings.SECURE_REFERRER_POLICY.encode()),
            (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"permissions-policy", PERMISSIONS.encode()),
        ]
        if settings.SECURE_HSTS_SECONDS:
            subdomains = "; includeSubDomains" if settings.SECURE_HSTS_INCLUDE_SUBDOMAINS else ""
            value = f"max-age={settings.SECURE_HSTS_SECONDS}{subdomains}"
            self._headers.append((b"strict-transport-security", value.encode()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(receive, send, self._headers, scope.get(BODY_ARRIVED, False))
        try:
            is_view = ASYNC_PATH.match(scope["path"]) and not EVENT_PATH.match(scope["path"])
            exchange.limit = int(settings.MAX_REQUEST_BYTES) if is_view else await self.largest(scope)
            exchange.error = _refused_head(scope, exchange.limit)
            if exchange.error is None:
                with suppress(RequestDataTooBig, BodyTooSlow):
                    await self.application(scope, exchange.receive, exchange.send)
            if exchange.error is not None and not exchange.has_begun:
                await exchange.refuse(exchange.error.response(scope["path"]))
        except asyncio.CancelledError:
            if not exchange.has_begun:
                exchange.error, response = None, error_responses.STOPPING.response(scope["path"])
                response["Retry-After"] = "1"
                await send_response(response, exchange.send)


@dataclass(slots=True)
class Exchange:
    """One request within its limits, and its response.

    Attributes:
        limit: how large the body may be, in bytes.
        error: what is answered instead of the application's response, unless that `has_begun`.
    """

    receive_next: Receive
    send_on: Send
    headers: Sequence[tuple[bytes, bytes]]
    has_arrived: bool  # the body
    limit: int = 0
    error: ErrorResponse | None = None
    has_begun: bool = False
    size: int = 0
    waited: float = 0.0
    is_complete: bool = False  # the body

    async def receive(self) -> Message:
        """Raises RequestDataTooBig, BodyTooSlow."""
        if self.is_complete:
            return await self.receive_next()  # until the client leaves
        message = await (self.receive_next() if self.has_arrived else self._receive_in_time())
        self.is_complete = not message.get("more_body", False)
        self.size += len(message.get("body", b""))
        if self.size > self.limit:
            self.error = error_responses.too_large(self.limit)
            raise RequestDataTooBig
        return message

    async def _receive_in_time(self) -> Message:
        """Raises BodyTooSlow."""
        began = time.monotonic()
        try:
            left = BODY_SECONDS + self.size / BODY_BYTES_A_SECOND - self.waited
            async with asyncio.timeout(min(BODY_SECONDS, left)):
                return await self.receive_next()
        except TimeoutError:
            self.error = error_responses.TOO_SLOW
            raise BodyTooSlow from None
        finally:
            self.waited += time.monotonic() - began

    async def send(self, message: Message) -> None:
        if self.error is not None and not self.has_begun:
            return
        self.has_begun = True
        if message["type"] == "http.response.start":
            there = [*message["headers"]]
            names = {name.lower() for name, _ in there}
            message = {**message, "headers": there + [pair for pair in self.headers if pair[0] not in names]}
        await self.send_on(message)

    async def refuse(self, response: HttpResponse) -> None:
        """Send the refusal, then discard the rest of the body, so that the client reads the answer."""
        response["Connection"] = "close"
        self.has_begun = True
        await send_response(response, self.send, more_body=True)
        with suppress(TimeoutError, BodyTooSlow):
            async with asyncio.timeout(LINGER_SECONDS):
                while not self.is_complete:
                    with suppress(RequestDataTooBig):
                        await self.receive()
        await self.send_on({"type": "http.response.body"})


async def largest_body(scope: Scope) -> int:
    """How large the body of a request to a page or a webhook may be, in bytes.

    Async views say what is less, once they know their caller. Pages receive a body first, so for a large one the
    session is looked up here.
    """
    path, most = scope["path"], int(settings.MAX_REQUEST_BYTES)
    if EVENT_PATH.match(path):
        return int(settings.INCOMING_EVENT_BYTES)
    if not _says_more(scope, settings.ANONYMOUS_REQUEST_BYTES) or _refused_head(scope, most):
        return most
    db.caller.set(address_key((scope.get("client") or ("",))[0]))
    return bodies.limit_of(await db.run(_session_principal, scope))


def _says_more(scope: Scope, size: int) -> bool:
    """Does the head announce a body of more bytes, or one of unknown length?"""
    headers = dict(scope["headers"])
    length = headers.get(b"content-length", b"")
    return b"transfer-encoding" in headers or (length.isdigit() and int(length) > size)


def _session_principal(scope: Scope) -> Principal:
    try:
        user = session_user(ASGIRequest(scope, io.BytesIO()))
    except (UnicodeDecodeError, BadRequest, OperationalError, InterfaceError):
        return ANONYMOUS
    return user.principal if user else ANONYMOUS


def _refused_head(scope: Scope, limit: int) -> ErrorResponse | None:
    if len(scope["path"]) + len(scope["query_string"]) > MAX_LINE_BYTES:
        return error_responses.URI_TOO_LONG
    for name, value in scope["headers"]:
        if len(name) + len(value) > MAX_LINE_BYTES:
            return error_responses.HEADER_TOO_LONG
        if name == b"content-length" and value.isdigit() and int(value) > limit:
            return error_responses.too_large(limit)
    return None


async def handle_async(scope: Scope, receive: Receive, send: Send, *, pages: Application | None = None) -> None:
    """Run the path's async view on the server's event loop, without middleware, until the client leaves.

    `pages` handles the paths of other views.
    Django's handler keeps a thread and a database connection for each request, even one that waits for minutes. These
    views need neither: they use `db`, and check credentials themselves before they receive a body
    (`accounts.requests.bodies`).
    """
    if pages is not None and not ASYNC_PATH.match(scope["path"]):
        await pages(scope, receive, send)
        return
    client = Client(receive, body := IncomingBody(receive))
    try:
        response, route = await _find_response(scope, body, client)
        del body
        client.watch()
        ended = response.ended if isinstance(response, EventStream) else response.close if response.streaming else None
        try:
            if isinstance(response, EventStream) and scope["method"] != "HEAD":
                head, frames = _head(response), response.frames
                del response  # a stream may be open for hours: nothing of the request is kept
                await send(head)
                del head
                await _send_chunks(frames, send)
                await send({"type": "http.response.body"})
            else:
                await send_response(response, send, head_only=scope["method"] == "HEAD")
        except Exception:
            # The status has been sent: a failure can only be reported by breaking off.
            log.exception("%s /%s broke off", scope["method"], route)
            raise
        finally:
            if ended is not None:
                ended()
    except asyncio.CancelledError:
        if not client.has_left or client.work.uncancel():  # then the server stops
            raise
    finally:
        client.forget()


class Client:
    """Who waits for the response. If they leave, once the body is there, the current task is canceled."""

    __slots__ = ("_body", "_receive", "_watching", "work")

    def __init__(self, receive: Receive, body: IncomingBody) -> None:
        self._receive = receive
        self._body: IncomingBody | None = body
        body.when_complete = self.watch
        work = asyncio.current_task()
        assert work is not None
        self.work: asyncio.Task[Any] = work
        self._watching: asyncio.TimerHandle | asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Soon receive what is left of the body, and forget it. Then notice when they leave."""
        loop = asyncio.get_running_loop()
        self._watching = self._watching or loop.call_later(WATCH_AFTER_SECONDS, self._watch_now)

    def _watch_now(self) -> None:
        self._watching = asyncio.create_task(self._wait_until_left())

    async def _wait_until_left(self) -> None:
        try:
            await self._discard_body()
            await self._receive()
        except (RequestAborted, RequestDataTooBig):
            pass
        self.work.cancel()

    async def _discard_body(self) -> None:
        body, self._body = self._body, None
        if body is not None and not body.is_complete:
            await body.discard()

    @property
    def has_left(self) -> bool:
        return isinstance(self._watching, asyncio.Task) and self._watching.done()

    def forget(self) -> None:
        self._body = None
        if self._watching is not None:
            self._watching.cancel()


async def _find_response(scope: Scope, body: IncomingBody, client: Client) -> tuple[HttpResponseBase, str]:
    """The response of the path's view, or an error, and the route: the template of the path, for the log."""
    said = ((name, value) for name, value in scope["headers"] if name in (b"content-length", b"transfer-encoding"))
    may_have_body = any(pair != (b"content-length", b"0") for pair in said)
    is_bodiless = str(scope.get("http_version", "")).startswith("1") and not may_have_body  # HTTP/2 need not say
    if scope["method"] in ("GET", "HEAD") or is_bodiless:
        client.watch()
    try:
        request = ASGIRequest({**scope, "body": body}, body)
    except (UnicodeDecodeError, BadRequest):
        return error_responses.MALFORMED.response(scope["path"]), ""
    if request.script_name:
        set_script_prefix(request.script_name)
    response: HttpResponseBase
    try:
        if request.path_info not in ANY_HOST_PATHS:
            request.get_host()
        match, route, is_async = _find_view(request.path_info, settings.ROOT_URLCONF)
        request.resolver_match = match
        if SCOPE_KEY in scope:
            scope[SCOPE_KEY].route = route
        if is_async:
            response = await match.func(request, *match.args, **match.kwargs)
        else:
            response = await db.run(match.func, request, *match.args, **match.kwargs)
    except DisallowedHost:
        response = error_responses.WRONG_HOST.response(request.path)
    except Http404:
        response = other_form(request) or error_responses.NOT_FOUND.response(request.path)
    except RequestAborted:
        response = error_responses.MALFORMED.response(request.path)
    except RequestDataTooBig:
        response = error_responses.too_large(settings.MAX_REQUEST_BYTES).response(request.path)
    except Exception:
        log.exception("%s /%s failed", request.method, _route(request))
        response = error_responses.INTERNAL.response(request.path)
    return response, _route(request)


def _route(request: ASGIRequest) -> str:
    """The template of the path, for the log: links may have secrets in their paths."""
    return request.resolver_match.route if request.resolver_match else ""


@lru_cache
def _find_view(path: str, urlconf: str) -> tuple[ResolverMatch, str, bool]:
    """The view, the template of its paths, and whether it is async. Raises Http404."""
    match = resolve(path, urlconf)
    return match, template(match.route), iscoroutinefunction(match.func)


async def send_response(
    response: HttpResponseBase, send: Send, *, head_only: bool = False, more_body: bool = False
) -> None:
    """Send a response or a stream as ASGI messages; with `more_body` the caller ends the body."""
    await send(_head(response))
    if isinstance(response, StreamingHttpResponse) and not head_only:
        await _send_chunks(cast(AsyncGenerator[bytes], aiter(response)), send)
    whole = response.content if isinstance(response, HttpResponse) and not head_only else b""
    await send({"type": "http.response.body", "body": whole, "more_body": more_body})


def _head(response: HttpResponseBase) -> Message:
    headers = [(name.encode("ascii"), value.encode("latin1")) for name, value in response.items()]
    headers += [(b"Set-Cookie", cookie.OutputString().encode("ascii")) for cookie in response.cookies.values()]
    has_length = "Content-Length" in response.headers or response.status_code in BODILESS
    if isinstance(response, HttpResponse) and not has_length:
        headers.append((b"Content-Length", b"%d" % len(response.content)))
    return {"type": "http.response.start", "status": response.status_code, "headers": headers}


async def _send_chunks(chunks: AsyncGenerator[bytes], send: Send) -> None:
    async with aclosing(chunks):
        async for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            del chunk  # not kept while the next one is awaited


class SocketLimits:
    """ASGI middleware that closes WebSockets (1008) whose clients send too many messages."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        left, since = SOCKET_MESSAGES, time.monotonic()
        is_closed = False

        async def send_until_closed(message: Message) -> None:
            if not is_closed:
                await send(message)

        async def receive_limited() -> Message:
            nonlocal left, since, is_closed
            message = await receive()
            if message["type"] != "websocket.receive":
                return message
            now = time.monotonic()
            left = min(SOCKET_MESSAGES, left + (now - since) * SOCKET_MESSAGES_A_SECOND) - 1
            since = now
            if left >= 0:
                return message
            if not is_closed:
                is_closed = True
                await _close(send, "Too many messages.")
            return {"type": "websocket.disconnect", "code": POLICY_VIOLATION}

        await self.application(scope, receive_limited, send_until_closed)


async def _close(send: Send, reason: str) -> None:
    try:
        await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": reason})
    except Exception:  # Daphne sends no code below 3000
        await send({"type": "websocket.close", "code": 3000 + POLICY_VIOLATION, "reason": reason})


class SameOrigin:
    """Refuses WebSockets whose `Origin` is neither `PUBLIC_BASE_URL` nor the request's own allowed host and port.

    What is sent after the client left is lost: where uvicorn raises, a consumer would end without its `disconnect`.
    """

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        is_ours = is_same_origin(headers.get(b"origin", ""), headers.get(b"host", ""))
        application = self.application if is_ours else WebsocketDenier()

        async def send_or_lose(message: Message) -> None:
            with suppress(OSError):
                await send(message)

        await application(scope, receive, send_or_lose)


def is_same_origin(origin: str, host: str) -> bool:
    """Is the origin this server, by PUBLIC_BASE_URL or an allowed `Host` header?"""
    if origin == settings.PUBLIC_BASE_URL:
        return True
    parts = urlsplit(origin)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.netloc.lower() != host.lower():
        return False
    return is_allowed_host(host)


def is_allowed_host(host: str) -> bool:
    """Is this `Host` header, with or without a port, one of ALLOWED_HOSTS?"""
    return validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS)
