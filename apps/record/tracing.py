"""Where a run stands in a trace that goes through several systems (W3C Trace Context, Level 1).

Nothing is exported here: a run is a span of whoever called for it, and whom it calls is told so. What the other systems
make of it, their own collectors show.
"""

from __future__ import annotations

import secrets

from opentelemetry.trace import SpanContext, TraceFlags, format_span_id, format_trace_id, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

LENGTH = 55  # characters of a traceparent

_PROPAGATOR = TraceContextTextMapPropagator()


def span_below(traceparent: str) -> str:
    """The traceparent of a new span: below the one that is given, in a new trace where that is none.

    A header that is malformed counts as none (W3C Trace Context §3.2.2).
    """
    above = _read(traceparent)
    trace_id = above.trace_id if above.is_valid else secrets.randbits(128) or 1
    # Who begins a trace lets the others record it; who goes on with one leaves that as it is.
    flags = above.trace_flags & TraceFlags.SAMPLED if above.is_valid else TraceFlags.SAMPLED
    return f"00-{format_trace_id(trace_id)}-{format_span_id(secrets.randbits(64) or 1)}-{flags:02x}"


def _read(traceparent: str) -> SpanContext:
    return get_current_span(_PROPAGATOR.extract({"traceparent": traceparent})).get_span_context()
