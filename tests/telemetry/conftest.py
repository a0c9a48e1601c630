"""Spans in memory, log lines as they are written, and requests to the whole application."""

import asyncio
import json
import logging
import threading
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
import pytest_asyncio
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent

from apps.accounts.models import ApiKey
from apps.model_agents import language_models
from parley import asgi
from parley.telemetry import logs, tracing

SECONDS = 30.0


class Spans(InMemorySpanExporter):
    def __init__(self) -> None:
        super().__init__()
        self._more = threading.Condition()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with self._more:
            self._more.notify_all()
            return super().export(spans)

    async def finished(self, *names: str, count: int = 1) -> None:
        """Wait for these: a run's span ends shortly after its task."""

        def wait() -> bool:
            with self._more:
                return self._more.wait_for(lambda: all(self._count(name) >= count for name in names), SECONDS)

        assert await asyncio.to_thread(wait), [span.name for span in self.get_finished_spans()]

    def _count(self, name: str) -> int:
        return sum(span.name == name for span in self.get_finished_spans())

    @property
    def named(self) -> dict[str, ReadableSpan]:
        """The finished spans by name; of several with one name, the first."""
        return {span.name: span for span in reversed(self.get_finished_spans())}

    def line(self, name: str) -> list[str]:
        """The names of the spans above and of the span, from the outermost."""
        by_id = {span.context.span_id: span for span in self.get_finished_spans()}
        span: ReadableSpan | None = self.named[name]
        names = []
        while span is not None:
            names.append(span.name)
            span = by_id.get(span.parent.span_id) if span.parent else None
        return names[::-1]

    @property
    def text(self) -> str:
        return "\n".join(span.to_json() for span in self.get_finished_spans())


@pytest.fixture
def spans():
    spans, provider = Spans(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracing.use(provider)
    language_models.trace_calls()
    yield spans
    tracing.use(None)
    Agent.instrument_all(False)


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logs.formatter(as_json=True))
        self.written: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.written.append(self.format(record))

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.written]

    @property
    def text(self) -> str:
        return "\n".join(self.written)


@pytest.fixture
def lines():
    """All lines, of Parley's own loggers from DEBUG on."""
    lines = Lines()
    own = [logging.getLogger(name) for name in ("parley", "agentkit", "parley.access", "parley.agents")]
    levels = [logger.level for logger in own]
    for logger in own:
        logger.setLevel(logging.DEBUG)
    logging.getLogger().addHandler(lines)
    yield lines
    logging.getLogger().removeHandler(lines)
    for logger, level in zip(own, levels, strict=True):
        logger.setLevel(level)


@pytest.fixture
def ada_key(ada):
    return ApiKey.issue(ada, "test")[1]


@pytest_asyncio.fixture
async def http():
    """Calls the whole application, as a web server does."""
    transport = httpx.ASGITransport(app=asgi.application, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
        yield client
