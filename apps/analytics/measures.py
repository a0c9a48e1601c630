"""What people want to know of an agent: how often it was used, how long it took, what it cost, how well it did."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field

from apps.analytics.counting import MICRO, Amount, percentile
from apps.analytics.reading import Key, Sums

TOPICS = ("run.state", "run.time", "run.first", "answer.message", "rating.stars", "plan.state", "plan.time")
GOOD, BAD = (4, 5), (1, 2)  # stars; thumbs are 5 and 1


@dataclass(slots=True)
class Measures:
    """`times` is a histogram of seconds; costs are in the installation's currency."""

    tasks: int = 0
    messages: int = 0
    done: int = 0
    failed: int = 0
    canceled: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    micros: int = 0
    good: int = 0
    bad: int = 0
    times: dict[int, int] = field(default_factory=dict)

    @property
    def uses(self) -> int:
        """Ended turns (of a plan: runs), and answers without a task."""
        return self.done + self.failed + self.canceled + self.messages

    @property
    def success(self) -> float | None:
        """The share of what was not canceled."""
        ended = self.done + self.failed
        return self.done / ended if ended else None

    @property
    def p50(self) -> float | None:
        return percentile(self.times, 0.5)

    @property
    def p95(self) -> float | None:
        return percentile(self.times, 0.95)

    @property
    def cost(self) -> float:
        return self.micros / MICRO

    @property
    def cost_per_use(self) -> float | None:
        return self.cost / self.uses if self.uses else None

    @property
    def liked(self) -> float | None:
        """The share of good among good and bad ratings."""
        return self.good / (self.good + self.bad) if self.good + self.bad else None

    def add(self, key: Key, amount: Amount) -> None:
        match key.topic:
            case "run.state" | "plan.state":
                setattr(self, key.label, getattr(self, key.label) + amount.number)
                self.input_tokens += amount.input_tokens
                self.output_tokens += amount.output_tokens
                self.micros += amount.cost
            case "run.time" | "plan.time":
                bucket = int(key.label)
                self.times[bucket] = self.times.get(bucket, 0) + amount.number
            case "run.first":
                self.tasks += amount.number
            case "answer.message":
                self.messages += amount.number
            case "rating.stars":
                self.good += amount.number * (int(key.label) in GOOD)
                self.bad += amount.number * (int(key.label) in BAD)


def fold[K: Hashable](sums: Sums, by: Callable[[Key], K], plans: Collection[int] = ()) -> dict[K, Measures]:
    """The measures by what `by` makes of a key. The sums are of TOPICS, by agent and label.

    `plans`: agents that are plans. Their turns only start a plan run, so the plan runs count instead.
    """
    found: dict[K, Measures] = defaultdict(Measures)
    for key, amount in sums.items():
        if key.topic in (("run.state", "run.time") if key.agent in plans else ("plan.state", "plan.time")):
            continue
        found[by(key)].add(key, amount)
    return dict(found)
