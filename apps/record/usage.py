"""What the work of language models took, added up: of a turn as it goes, of a task over its turns."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentkit import Outcome, Usage
from apps.record.events import JSON
from apps.record.leases import Hold
from apps.record.models import Run

COUNTS = ("requests", "inputTokens", "outputTokens")
MOST = 10**12  # of one count: what an endpoint or an agent says beyond it is no count


@dataclass(slots=True)
class Spent:
    """Counts by model. As JSON: the sums, and under `models` the same for each model by its name."""

    models: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, usage: Usage) -> None:
        counted = map(_counted, (usage.requests, usage.input_tokens, usage.output_tokens))
        self._count(usage.model, dict(zip(COUNTS, counted, strict=True)))

    @property
    def as_json(self) -> JSON:
        """Nothing where no model was asked."""
        if not self.models:
            return {}
        sums = {name: sum(counts[name] for counts in self.models.values()) for name in COUNTS}
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
    def of(cls, recorded: Iterable[Mapping[str, Any]]) -> Spent:
        """Of several turns, from what `as_json` gave for each."""
        spent = cls()
        for usage in recorded:
            for model, counts in usage.get("models", {}).items():
                spent._count(model, counts)
        return spent

    def _count(self, model: str, counts: Mapping[str, int]) -> None:
        so_far = self.models.setdefault(model, dict.fromkeys(COUNTS, 0))
        for name in COUNTS:
            so_far[name] += counts[name]


def _counted(said: Any) -> int:
    """What an agent, or an endpoint by way of it, says to have used, as a count that can be added up."""
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0 <= said <= MOST:
        return 0
    return int(said)


def note(hold: Hold, spent: Spent) -> None:
    """Keep what a run took that was stopped, unless it was begun anew."""
    Run.objects.filter(pk=hold.run_id, fence=hold.fence).update(usage=spent.as_json)
