"""What is known of each HTTP request: an id, a span in the trace of its caller, metrics, and a line in the log."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from opentelemetry.trace import Span, SpanKind
from structlog.contextvars import bind_contextvars

from parley.telemetry import metrics, tracing

log = logging.getLogger("parley.access")

Scope = dict[str, Any]
Message = Mapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Any, Any], Awaitable[None]]

SANE_ID = re.compile(rb"[\w.:-]{1,64}")
GROUP = re.compile(r"\(\?P<(\w+)>(?:[^()]|\([^()]*\))*\)")
CONVERTER = re.compile(r"<\w+:")
QUIET = ("/static/", "/healthz", "/readyz", "/metrics")  # logged at DEBUG, unless they fail
SLOW_SECONDS = 1.0  # from then on, all are logged
SCOPE_KEY = "parley.request"
BODY_ARRIVED = "parley.body_arrived"
"""True in the scope of a request whose whole body came with its head: receiving it takes no time."""
METHOD = "http.request.method"


EDGES = {
    "a2a": "a2a",
    ".well-known": "cards",
    "api": "api",
    "v1": "openai",
    "mcp": "mcp",
    "agui": "agui",
    "langgraph": "langgraph",
    "hooks": "hooks",
    "admin": "admin",
    "gateway": "remote",
    "static": "static",
    "healthz": "probes",
    "readyz": "probes",
    "metrics": "probes",
}
"""By the first part of a path; other paths are pages."""
CLIENT_LEFT = "499"  # nginx' code for a request that got no response


@dataclass(slots=True)
class Seen:
    """A request or a WebSocket, what became of it, and its metrics: number, status, duration, open streams.

    `headers` are added to the response. A `status` of 0 means that the client left before there was one.
    """

    edge: str
    send_on: Send
    headers: Sequence[tuple[bytes, bytes]] = ()
    route: str = ""
    status: int = 0
    began: float = field(default_factory=time.perf_counter)
    has_begun: bool = False
    is_stream: bool = False

    def send(self, message: Message) -> Awaitable[None]:
        """The response begins with the first message."""
        if not self.has_begun:
            match message["type"]:
                case "http.response.start" | "websocket.http.response.start":
                    self.status, headers = message["status"], message["headers"]
                    self.is_stream = any(value.startswith(b"text/event-stream") for _, value in headers)
                    self._count(str(self.status))
                    message = {**message, "headers": [*headers, *self.headers]}
                case "websocket.accept":
                    self.is_stream = True
                    self._count("101")
                case "websocket.close":
                    self._count("403")
        return self.send_on(message)

    def _count(self, code: str) -> None:
        self.has_begun = True
        metrics.REQUESTS[self.edge, code].inc()
        metrics.REQUEST_SECONDS[self.edge].observe(time.perf_counter() - self.began)
        if self.is_stream:
            metrics.STREAMS[self.edge].inc()

    def end(self, code: str) -> None:
        """`code` is of a request without a response."""
        if not self.has_begun:
            self._count(code)
        if self.is_stream:
            self.is_stream = False
            metrics.STREAMS[self.edge].dec()


class MeasuredSockets:
    """ASGI middleware that counts WebSockets."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Any, send: Send) -> None:
        seen = Seen("websockets", send)
        try:
            await self.application(scope, receive, seen.send)
        except Exception:
            seen.end("500")
            raise
        finally:
            seen.end(CLIENT_LEFT)


class ObservedRequests:
    """ASGI middleware, the outermost, so that a request has its id before anything can refuse it.

    It takes the caller's `X-Request-ID` if that is sane, and returns it. With tracing on, the request's `traceparent`
    becomes that of its own span, so that everything that reads the header goes on below it. Of requests that succeed
    within a second, the part `sample` has a line in the log.
    """

    def __init__(self, application: Application, sample: float) -> None:
        self.application, self.sample = application, sample

    async def __call__(self, scope: Scope, receive: Any, send: Send) -> None:
        ids = [value for name, value in scope["headers"] if name == b"x-request-id"]  # several contradict one another
        request_id = ids[0] if len(ids) == 1 and SANE_ID.fullmatch(ids[0]) else b"%016x" % random.getrandbits(64)
        bind_contextvars(request=request_id.decode())  # each request has its own task, so its own context
        edge = EDGES.get(scope["path"].lstrip("/").partition("/")[0], "pages")
        seen = Seen(edge, send, [(b"x-request-id", request_id)])
        scope = {**scope, SCOPE_KEY: seen}
        try:
            await (self._traced if tracing.is_on else self.application)(scope, receive, seen.send)
        except Exception:
            seen.end("500")
            raise
        finally:
            seen.end(CLIENT_LEFT)
            took = time.perf_counter() - seen.began
            level = logging.DEBUG if seen.status < 400 and scope["path"].startswith(QUIET) else logging.INFO
            is_usual = 0 < seen.status < 400 and took < SLOW_SECONDS
            if log.isEnabledFor(level) and not (is_usual and random.random() >= self.sample):  # noqa: S311
                told = {"method": scope["method"], "path": seen.route or "-", "status": seen.status}
                log.log(level, "request", extra=told | {"duration_ms": round(took * 1000, 1)})

    async def _traced(self, scope: Scope, receive: Any, send: Any) -> None:
        seen: Seen = scope[SCOPE_KEY]
        method, parents = scope["method"], [value for name, value in scope["headers"] if name == b"traceparent"]
        parent = parents[0].decode("latin-1") if len(parents) == 1 else ""
        with tracing.span(method, kind=SpanKind.SERVER, parent=parent, attributes={METHOD: method}) as span:
            if own := tracing.current_traceparent():
                others = [pair for pair in scope["headers"] if pair[0] != b"traceparent"]
                scope["headers"] = [*others, (b"traceparent", own.encode())]
            try:
                await self.application(scope, receive, send)
            finally:
                if span.is_recording():
                    _finish(span, method, seen)


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
