"""What a run has beside the record, in three parts, in this order:

1. Leases, by the database's clock, which all workers share.
2. Notes for operators about what came too late.
3. Usage: requests, tokens and costs by model.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone

from agentkit import Completed, Outcome, Usage
from agentkit.content.emissions import CUT_OFF, FINISH_REASON
from apps.record.events import JSON
from apps.record.execution import Run
from apps.record.sql import UNFINISHED_RUN
from parley.db.sql import write_transaction
from parley.faces.cells import money
from parley.registry import added


class LeaseLost(Exception):
    """This worker no longer has the run: its lease expired, or the task has ended."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's claim to a run, valid while the run has this fence and this worker, and the lease lasts.

    The fence alone is not enough: the database may lose a claim when it crashes, and then counts it again.
    """

    run_id: uuid.UUID
    fence: int
    worker: str

    @property
    def is_held(self) -> dict[str, Any]:
        """What the run's row has while nobody else has claimed it."""
        return {"id": self.run_id, "fence": self.fence, "worker": self.worker}


def has_unfinished_run(task: uuid.UUID) -> bool:
    """Does the task have a queued or running run?"""
    return UNFINISHED_RUN.one(task) is not None


MAX_NOTES = 20


def add_late_note(task_id: uuid.UUID, text: str) -> None:
    """Add a line to the task's last run."""
    last = Run.objects.filter(task=task_id).order_by("-turn").values_list("pk", flat=True).first()
    if last is not None:
        add_note(last, text)


def add_note(run_id: uuid.UUID, text: str, *, unless_queued: bool = False) -> None:
    """Add a line to the run's notes, of which the newest MAX_NOTES are kept."""
    run = Run.objects.filter(pk=run_id).only("notes", "state").first()
    if run is None or (unless_queued and run.state == Run.State.QUEUED):
        return
    run.notes = [*run.notes, {"at": timezone.now().isoformat(timespec="milliseconds"), "note": text}][-MAX_NOTES:]
    run.save(update_fields=["notes"])


USAGE_COUNTS = ("requests", "inputTokens", "outputTokens")
MAX_COUNT = 10**12  # a larger count is invalid


@dataclass(slots=True)
class UsageTotals:
    """Counts by model, and the cost where it is known. As JSON: the sums, and under `models` the counts of each.

    `is_cut_off`: the newest text ended at its limit of tokens.
    """

    models: dict[str, dict[str, Any]] = field(default_factory=dict)
    is_cut_off: bool = False

    def add(self, usage: Usage) -> JSON:
        """Add what a model used. Returns the valid counts, by USAGE_COUNTS and `cost`."""
        counted = map(_valid_count, (usage.requests, usage.input_tokens, usage.output_tokens))
        counts: dict[str, Any] = dict(zip(USAGE_COUNTS, counted, strict=True))
        if usage.cost is not None:
            counts["cost"] = _valid_number(usage.cost)
        self._count(usage.model, counts)
        self.is_cut_off = usage.is_cut_off
        return counts

    @property
    def as_json(self) -> JSON:
        """Empty if no model was called."""
        if not self.models:
            return {}
        sums = {name: sum(counts[name] for counts in self.models.values()) for name in USAGE_COUNTS}
        return {**sums, **_costs(self.models.values()), "models": self.models}

    @property
    def lines(self) -> list[str]:
        """For people, by model: `gpt-5-mini: 3 requests, 1,200 tokens in, 340 out, cost 0.0012`."""
        return [
            f"{model}: {one['requests']:,} request{'s' * (one['requests'] != 1)}, "
            f"{one['inputTokens']:,} tokens in, {one['outputTokens']:,} out"
            + (f", cost {money(one['cost'])}" if "cost" in one else "")
            for model, one in self.models.items()
        ]

    def labelled[O: Outcome](self, outcome: O) -> O:
        """The outcome with the called models in its metadata, so that readers recognize scripted ones.

        A completed one also says whether a limit of tokens cut it off.
        """
        if not self.models:
            return outcome
        is_cut_off = self.is_cut_off and isinstance(outcome, Completed)
        told = {"models": list(self.models)} | ({FINISH_REASON: CUT_OFF} if is_cut_off else {})
        return dataclasses.replace(outcome, metadata=told | outcome.metadata)

    @classmethod
    def of(cls, recorded: Iterable[Mapping[str, Any]]) -> UsageTotals:
        """The totals of several turns, from their `as_json`."""
        spent = cls()
        for usage in recorded:
            for model, counts in usage.get("models", {}).items():
                spent._count(model, counts)
        return spent

    def _count(self, model: str, counts: Mapping[str, Any]) -> None:
        so_far = self.models.setdefault(model, dict.fromkeys(USAGE_COUNTS, 0))
        for name in USAGE_COUNTS:
            so_far[name] += counts[name]
        so_far |= _costs([so_far, counts])


def _costs(counted: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The sum of what is known, to a millionth."""
    known = [counts["cost"] for counts in counted if "cost" in counts]
    return {"cost": round(sum(known), 6)} if known else {}


def _valid_count(said: Any) -> int:
    """A count that an agent reported; 0 if it is invalid."""
    return int(_valid_number(said))


def _valid_number(said: Any) -> float:
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0 <= said <= MAX_COUNT:
        return 0
    return said


def save_usage(lease: Lease, spent: UsageTotals) -> None:
    """Save the usage of a stopped run, unless it was claimed again."""
    with write_transaction():
        if Run.objects.filter(**lease.is_held).update(usage=spent.as_json):
            run = Run.objects.select_related("task").get(pk=lease.run_id)
            for listener in added["usage_listeners"]:
                listener(run.pk, run.task, run.agent_id or run.task.agent_id, spent.as_json)
