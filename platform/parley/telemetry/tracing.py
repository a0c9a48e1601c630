"""Traces by OpenTelemetry, sent to a collector by OTLP over HTTP. They are off unless an endpoint is set.

A trace crosses the queue by the W3C `traceparent` that the record keeps with each run. Its span is sent when the run
is queued; so it is sent once, however often the run is then tried. Spans of attempts are below it.

The exception to spans' usual contents: no URLs, because links to shares and credentials are secret, and no texts of
errors, because they may quote messages.
"""

from __future__ import annotations

import os
import secrets
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from opentelemetry.context import Context
from opentelemetry.trace import (
    INVALID_SPAN,
    INVALID_SPAN_CONTEXT,
    NoOpTracer,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    Tracer,
    format_span_id,
    format_trace_id,
    get_current_span,
    set_tracer_provider,
)
from opentelemetry.trace import TracerProvider as AbstractProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import Span as StartedSpan
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

type Attributes = Mapping[str, str | bool | int | float]

_PROPAGATOR = TraceContextTextMapPropagator()
SAMPLERS_WITH_RATIO = ("traceidratio", "parentbased_traceidratio")
SAMPLERS = ("always_on", "always_off", "parentbased_always_on", "parentbased_always_off", *SAMPLERS_WITH_RATIO)

FLUSH_SECONDS = 5

AGENT, OPERATION = "gen_ai.agent.name", "gen_ai.operation.name"
INVOKE_AGENT = "invoke_agent"
agent: ContextVar[Attributes | None] = ContextVar("agent", default=None)
"""The attributes that all spans of generative AI below an agent's turn have: the agent's and the conversation's."""

_provider: TracerProvider | None = None
_tracer: Tracer | None = None
is_on = False


def configure(version: str) -> None:
    """Send traces as the environment's `OTEL_*` variables say. Raises ValueError, as a sentence, for wrong ones."""
    env = os.environ
    endpoint = env.get("OTEL_EXPORTER_OTLP_ENDPOINT") or env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    if not endpoint or env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return
    _check(env)
    provider = build_provider(version)
    set_tracer_provider(_ForAuthors(provider))
    use(provider)


def _check(env: Mapping[str, str]) -> None:
    """The SDK would only log these, and then send everything or nothing."""
    sampler = env.get("OTEL_TRACES_SAMPLER", "").strip().lower()
    ratio = env.get("OTEL_TRACES_SAMPLER_ARG", "").strip()
    if sampler and sampler not in SAMPLERS:
        raise ValueError(f"OTEL_TRACES_SAMPLER must be one of {', '.join(SAMPLERS)}.")
    if sampler in SAMPLERS_WITH_RATIO and ratio and not _is_ratio(ratio):
        raise ValueError("OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1, such as 0.1 for a tenth.")
    for name in ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"):
        if env.get(name, "http/protobuf") != "http/protobuf":
            raise ValueError(f"{name} must be http/protobuf: traces are sent by HTTP (port 4318 of most collectors).")


def _is_ratio(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False


def build_provider(version: str) -> TracerProvider:
    """The SDK with the exporter that the environment describes. It sends what is left when the process exits."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.version": version})
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "parley"}))
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(certificate_file=_authorities())))
    return provider


def _authorities() -> str | None:
    """Whom the exporter trusts, as all calls of `parley.outbound` do; its library would trust a list of its own."""
    env, system = os.environ, ssl.get_default_verify_paths()
    if {"OTEL_EXPORTER_OTLP_CERTIFICATE", "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE"} & env.keys():
        return None
    return env.get("SSL_CERT_FILE") or env.get("SSL_CERT_DIR") or system.cafile or system.capath


class _ForAuthors(AbstractProvider):
    """The tracers of agents' authors. Libraries get none where spans quote errors or come with each streamed event."""

    LIBRARIES = ("a2a", "a2a-python-sdk", "fastmcp", "mcp-python-sdk")

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider

    def get_tracer(self, instrumenting_module_name: str, *more: Any, **named: Any) -> Tracer:
        if instrumenting_module_name in self.LIBRARIES:
            return NoOpTracer()
        return self._provider.get_tracer(instrumenting_module_name, *more, **named)


def use(provider: TracerProvider | None) -> None:
    """Make spans by this provider, or with None no spans at all."""
    global _provider, _tracer, is_on
    if provider is not None:
        provider.add_span_processor(_of_agent())
    _provider, _tracer = provider, provider.get_tracer("parley") if provider else None
    is_on = provider is not None


def _of_agent() -> SpanProcessor:
    """Names the agent and the conversation in the spans of libraries, which know names of their own alone."""
    from opentelemetry.sdk.trace import SpanProcessor

    class OfAgent(SpanProcessor):
        def on_start(self, span: StartedSpan, parent_context: Context | None = None) -> None:
            known = agent.get()
            if known is None or OPERATION not in (span.attributes or {}):
                return
            span.set_attributes(known)
            if span.attributes and span.attributes[OPERATION] == INVOKE_AGENT:
                span.update_name(f"{INVOKE_AGENT} {known[AGENT]}")

    return OfAgent()


def flush() -> None:
    """Send the spans that wait to be sent, for at most FLUSH_SECONDS."""
    if _provider is not None:
        _provider.force_flush(FLUSH_SECONDS * 1000)


def provider() -> TracerProvider | None:
    """The provider in use; None while tracing is off."""
    return _provider


def captures_content() -> bool:
    """May spans of models and tools have the text of messages?"""
    env = os.environ
    wanted = env.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "")
    return wanted.strip().lower() in ("true", "1", "span_only", "span_and_event")


@contextmanager
def span(
    name: str, *, kind: SpanKind = SpanKind.INTERNAL, parent: str = "", attributes: Attributes | None = None
) -> Iterator[Span]:
    """The current span of the block. An exception marks it with its `code` or type.

    `parent` is a traceparent; by default the span is below the current one. While tracing is off, the span is one that
    does nothing.
    """
    if _tracer is None:
        yield INVALID_SPAN
        return
    with _tracer.start_as_current_span(
        name,
        _context_of(parent),
        kind,
        attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as current:
        try:
            yield current
        except Exception as error:
            code = getattr(error, "code", None)
            fail(current, code if isinstance(code, str) and code else type(error).__qualname__)
            raise


def fail(failed: Span, code: str) -> None:
    """Mark a span as failed, by a stable word."""
    failed.set_status(StatusCode.ERROR, code)
    failed.set_attribute("error.type", code)


def queue(task: object, parent: str) -> str:
    """The traceparent of a run of this task that is put into the queue, below the traceparent `parent`, or below the
    current span.

    Its span is sent at once. While tracing is off, there is only the traceparent.
    """
    if _tracer is None:
        return child_of(parent)
    queued = _tracer.start_span("queue run", _context_of(parent), SpanKind.PRODUCER, {"parley.task": str(task)})
    queued.end()
    return _traceparent(queued.get_span_context())


def child_of(traceparent: str) -> str:
    """The traceparent of a new child span, or of a new trace if that is malformed (W3C Trace Context §3.2.2)."""
    above = _parse(traceparent) if traceparent else INVALID_SPAN_CONTEXT
    span_id = format_span_id(secrets.randbits(64) or 1)
    if not above.is_valid:  # a new trace is sampled; an existing one keeps its flag
        return f"00-{format_trace_id(secrets.randbits(128) or 1)}-{span_id}-01"
    return f"00-{format_trace_id(above.trace_id)}-{span_id}-{above.trace_flags & TraceFlags.SAMPLED:02x}"


def current_traceparent() -> str:
    """The current span's traceparent; "" while there is none or tracing is off."""
    return current.traceparent if _tracer is not None and (current := current_ids()) else ""


class SpanIds:
    """The hexadecimal ids of a span."""

    __slots__ = ("span_id", "trace_id", "traceparent")

    def __init__(self, context: SpanContext) -> None:
        self.trace_id, self.span_id = format_trace_id(context.trace_id), format_span_id(context.span_id)
        self.traceparent = _traceparent(context)


def current_ids() -> SpanIds | None:
    """The ids of the current span; None while there is none or tracing is off."""
    if _tracer is None:
        return None
    context = get_current_span().get_span_context()
    return SpanIds(context) if context.is_valid else None


def _context_of(traceparent: str) -> Context | None:
    """None, which means the current context, for an empty or malformed one."""
    if not traceparent or not _parse(traceparent).is_valid:
        return None
    return _PROPAGATOR.extract({"traceparent": traceparent}, Context())


def _parse(traceparent: str) -> SpanContext:
    return get_current_span(_PROPAGATOR.extract({"traceparent": traceparent}, Context())).get_span_context()


def _traceparent(context: SpanContext) -> str:
    flags = context.trace_flags & TraceFlags.SAMPLED
    return f"00-{format_trace_id(context.trace_id)}-{format_span_id(context.span_id)}-{flags:02x}"
