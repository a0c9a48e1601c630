"""An OpenTelemetry collector for tests: an HTTP server that keeps the spans that it gets."""

import ssl
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
    """A span, and its service's attributes as plain values."""

    span: Span
    service: dict[str, Any]

    @property
    def failed(self) -> bool:
        return self.span.status.code == Status.STATUS_CODE_ERROR


@dataclass
class Collector:
    url: str = ""
    headers: list[dict[str, str]] = field(default_factory=list)
    spans: list[Seen] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self, headers: dict[str, str], body: bytes) -> None:
        with self.changed:
            self.headers.append(headers)
            for one in ExportTraceServiceRequest.FromString(body).resource_spans:
                known = {one.key: one.value.string_value for one in one.resource.attributes}
                self.spans += [Seen(span, known) for scope in one.scope_spans for span in scope.spans]
            self.changed.notify_all()

    def line(self, trace_id: str, name: str, caller: str) -> list[str]:
        """The names of the spans from the one below the span `caller` to this one, once all are there."""

        def found() -> list[str]:
            by_id = {one.span.span_id: one.span for one in self.spans if one.span.trace_id.hex() == trace_id}
            span, names = next((span for span in by_id.values() if span.name == name), None), []
            while span is not None:
                names.append(span.name)
                if span.parent_span_id.hex() == caller:
                    return names[::-1]
                span = by_id.get(span.parent_span_id)
            return []

        with self.changed:
            assert self.changed.wait_for(found, SECONDS), [one.span.name for one in self.spans]
            return found()


@contextmanager
def collecting(tls: ssl.SSLContext | None = None) -> Iterator[Collector]:
    collector = Collector()
    with receiving(collector.take, tls) as collector.url:
        yield collector


@contextmanager
def receiving(take: Callable[[dict[str, str], bytes], None], tls: ssl.SSLContext | None = None) -> Iterator[str]:
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

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
        server.shutdown()
