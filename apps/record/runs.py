"""What a run carries beside the record: its lease, notes about it, the tokens it used, its place in a trace.

Leases go by the database's clock, which all worker processes share.
"""

from __future__ import annotations

import dataclasses
import datetime
import secrets
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.utils import timezone
from opentelemetry.trace import SpanContext, TraceFlags, format_span_id, format_trace_id, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from agentkit import Outcome, Usage
from apps.record.events import JSON
from apps.record.models import Run
from apps.record.sql import UNFINISHED_RUN


class LeaseLost(Exception):
    """The run is no longer this worker's: its lease ran out, or the task has ended."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's claim to a run: good while the run's fence is still this number and its lease lasts."""

    run_id: uuid.UUID
    fence: int


def lease_end(now: datetime.datetime) -> datetime.datetime:
    """When a lease that is taken or extended at `now`, by the database's clock, ends."""
    return now + datetime.timedelta(seconds=settings.RUN_LEASE_SECONDS)


def has_unfinished_run(task: uuid.UUID) -> bool:
    """Has a task a run that works at it, or waits for a worker?"""
    return UNFINISHED_RUN.one(task) is not None


MAX_NOTES = 20


def add_late_note(task_id: uuid.UUID, text: str) -> None:
    """Add a line to the task's last run."""
    last = Run.objects.filter(task=task_id).order_by("-turn").values_list("pk", flat=True).first()
    if last is not None:
        add_note(last, text)


def add_note(run_id: uuid.UUID, text: str, *, unless_queued: bool = False) -> None:
    """Add a line to the run's notes; the oldest of too many go."""
    run = Run.objects.filter(pk=run_id).only("notes", "state").first()
    if run is None or (unless_queued and run.state == Run.State.QUEUED):
        return
    run.notes = [*run.notes, {"at": timezone.now().isoformat(timespec="milliseconds"), "note": text}][-MAX_NOTES:]
    run.save(update_fields=["notes"])


USAGE_COUNTS = ("requests", "inputTokens", "outputTokens")
MAX_COUNT = 10**12  # of one count: what an endpoint or an agent says beyond it is no count


@dataclass(slots=True)
class UsageTotals:
    """Counts by model. As JSON: the sums, and under `models` the same for each model by its name."""

    models: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, usage: Usage) -> None:
        counted = map(_valid_count, (usage.requests, usage.input_tokens, usage.output_tokens))
        self._count(usage.model, dict(zip(USAGE_COUNTS, counted, strict=True)))

    @property
    def as_json(self) -> JSON:
        """Nothing where no model was asked."""
        if not self.models:
            return {}
        sums = {name: sum(counts[name] for counts in self.models.values()) for name in USAGE_COUNTS}
        return {**sums, "models": self.models}

    @property
    def lines(self) -> list[str]:
        """For people, a line for each model: `gpt-5-mini: 3 requests, 1,200 tokens in, 340 out`."""
        return [
            f"{model}: {one['requests']:,} request{'s' * (one['requests'] != 1)}, "
            f"{one['inputTokens']:,} tokens in, {one['outputTokens']:,} out"
            for model, one in self.models.items()
        ]

    def labelled[O: Outcome](self, outcome: O) -> O:
        """The outcome, whose metadata names the models that were asked: who reads it sees which were scripted."""
        if not self.models:
            return outcome
        return dataclasses.replace(outcome, metadata={"models": list(self.models), **outcome.metadata})

    @classmethod
    def of(cls, recorded: Iterable[Mapping[str, Any]]) -> UsageTotals:
        """Of several turns, from what `as_json` gave for each."""
        spent = cls()
        for usage in recorded:
            for model, counts in usage.get("models", {}).items():
                spent._count(model, counts)
        return spent

    def _count(self, model: str, counts: Mapping[str, int]) -> None:
        so_far = self.models.setdefault(model, dict.fromkeys(USAGE_COUNTS, 0))
        for name in USAGE_COUNTS:
            so_far[name] += counts[name]


def _valid_count(said: Any) -> int:
    """What an agent, or an endpoint by way of it, says to have used, as a count that can be added up."""
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0 <= said <= MAX_COUNT:
        return 0
    return int(said)


def save_usage(lease: Lease, spent: UsageTotals) -> None:
    """Keep what a run took that was stopped, unless it was begun anew."""
    Run.objects.filter(pk=lease.run_id, fence=lease.fence).update(usage=spent.as_json)


_PROPAGATOR = TraceContextTextMapPropagator()


def new_span(traceparent: str) -> str:
    """The traceparent of a new span: below the one that is given, in a new trace where that is none.

    A header that is malformed counts as none (W3C Trace Context §3.2.2).
    """
    above = _parse_traceparent(traceparent)
    trace_id = above.trace_id if above.is_valid else secrets.randbits(128) or 1
    # Who begins a trace lets the others record it; who goes on with one leaves that as it is.
    flags = above.trace_flags & TraceFlags.SAMPLED if above.is_valid else TraceFlags.SAMPLED
    return f"00-{format_trace_id(trace_id)}-{format_span_id(secrets.randbits(64) or 1)}-{flags:02x}"


def _parse_traceparent(traceparent: str) -> SpanContext:
    return get_current_span(_PROPAGATOR.extract({"traceparent": traceparent})).get_span_context()
