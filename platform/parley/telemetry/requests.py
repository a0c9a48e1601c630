"""What is known of each HTTP request: an id, a span of the caller's trace, and a line in the log at its end."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from opentelemetry.trace import Span, SpanKind
from structlog.contextvars import bind_contextvars

from parley.telemetry import tracing

log = logging.getLogger("parley.access")

Scope = dict[str, Any]
Headers = Iterable[tuple[bytes, bytes]]
Application = Callable[[Scope, Any, Any], Awaitable[None]]

SANE_ID = re.compile(rb"[\w.:-]{1,64}")
GROUP = re.compile(r"\(\?P<(\w+)>(?:[^()]|\([^()]*\))*\)")
CONVERTER = re.compile(r"<\w+:")
QUIET = ("/static/", "/healthz", "/readyz", "/metrics")  # logged at DEBUG, unless they fail
SCOPE_KEY = "parley.request"
METHOD = "http.request.method"


@dataclass(slots=True)
class Seen:
    """What became of a request; a status of 0 means that the client left before there was one."""

    route: str = ""
    status: int = 0


class ObservedRequests:
    """ASGI middleware: only `MeasuredEdges` is further out, so that a request has its id before anything can refuse it.

    It takes the caller's `X-Request-ID` if that is sane, and returns it. With tracing on, the request's `traceparent`
    becomes that of its own span, so that everything that reads the header goes on below it.
    """

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        seen = Seen()
        request_id = _header(scope["headers"], b"x-request-id")
        if not SANE_ID.fullmatch(request_id):
            request_id = secrets.token_hex(8).encode()
        bind_contextvars(request=request_id.decode())  # each request has its own task, so its own context

        async def send_seen(message: Any) -> None:
            if message["type"] == "http.response.start":
                seen.status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), (b"x-request-id", request_id)]}
            await send(message)

        start = time.perf_counter()
        method, parent = scope["method"], _header(scope["headers"], b"traceparent").decode("latin-1")
        scope = {**scope, SCOPE_KEY: seen}
        with tracing.span(method, kind=SpanKind.SERVER, parent=parent, attributes={METHOD: method}) as span:
            if own := tracing.current_traceparent():
                others = [pair for pair in scope["headers"] if pair[0] != b"traceparent"]
                scope["headers"] = [*others, (b"traceparent", own.encode())]
            try:
                await self.application(scope, receive, send_seen)
            finally:
                if span.is_recording():
                    _finish(span, method, seen)
                _log(scope, seen, time.perf_counter() - start)


@lru_cache(512)
def template(route: str) -> str:
    """The template of a path, from a route with converters or regular expressions: `/a2a/<slug>/tasks`."""
    named = GROUP.sub(r"<\1>", route).removesuffix("\\Z").removesuffix("$").removesuffix("/?")
    return "/" + CONVERTER.sub("<", named).lstrip("^/")


def note_route(scope: Mapping[str, Any], route: str) -> None:
    """Say which route the request takes: the template of its path."""
    seen = scope.get(SCOPE_KEY)
    if seen is not None:
        seen.route = template(route)


def _finish(span: Span, method: str, seen: Seen) -> None:
    if seen.route:
        span.update_name(f"{method} {seen.route}")
        span.set_attribute("http.route", seen.route)
    if seen.status:
        span.set_attribute("http.response.status_code", seen.status)
    if seen.status >= 500:
        tracing.fail(span, str(seen.status))


def _log(scope: Scope, seen: Seen, seconds: float) -> None:
    is_quiet = seen.status < 400 and scope["path"].startswith(QUIET)
    level = logging.DEBUG if is_quiet else logging.INFO
    if log.isEnabledFor(level):
        known = {"method": scope["method"], "path": seen.route or "-", "status": seen.status}
        log.log(level, "request", extra=known | {"duration_ms": round(seconds * 1000, 1)})


def _header(headers: Headers, wanted: bytes) -> bytes:
    """The header's value; of several, none, because they contradict one another."""
    found = [value for name, value in headers if name == wanted]
    return bytes(found[0]) if len(found) == 1 else b""
