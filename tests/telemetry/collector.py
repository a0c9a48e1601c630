"""An OpenTelemetry collector for tests: an HTTP server that keeps the spans that it gets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

SECONDS = 60.0


@dataclass(frozen=True)
class Seen:
    """A span with its ids in hexadecimal, and its attributes and its service's as plain values."""

    name: str
    trace_id: str
    span_id: str
    parent: str
    kind: str
    failed: bool
    attributes: dict[str, Any]
    service: dict[str, Any]
    whole: str


@dataclass
class Collector:
    url: str = ""
    headers: list[dict[str, str]] = field(default_factory=list)
    spans: list[Seen] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self, headers: dict[str, str], body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        found = [
            seen(span, plain(one.resource.attributes))
            for one in request.resource_spans
            for scope in one.scope_spans
            for span in scope.spans
        ]
        with self.changed:
            self.headers.append(headers)
            self.spans += found
            self.changed.notify_all()

    def line(self, trace_id: str, name: str, caller: str) -> list[str]:
        """The names of the spans from the one below the span `caller` to this one, once all are there."""

        def found() -> list[str]:
            by_id = {span.span_id: span for span in self.spans if span.trace_id == trace_id}
            span, names = next((span for span in by_id.values() if span.name == name), None), []
            while span is not None:
                names.append(span.name)
                if span.parent == caller:
                    return names[::-1]
                span = by_id.get(span.parent)
            return []

        with self.changed:
            assert self.changed.wait_for(found, SECONDS), [
                f"{one.name} {one.span_id} {one.parent}" for one in self.spans
            ]
            return found()


def seen(span: Span, service: dict[str, Any]) -> Seen:
    return Seen(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        span.status.code == Status.STATUS_CODE_ERROR,
        plain(span.attributes),
        service,
        str(span),
    )


def plain(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()
    with receiving(collector.take) as collector.url:
        yield collector


@contextmanager
def receiving(take: Callable[[dict[str, str], bytes], None]) -> Iterator[str]:
    """The URL of a server that gives what is posted to it, headers and body, to `take`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            take({name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
