"""How quick agents are, for people: a small picture of their newest answers, and the same in words and rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from statistics import median

from django.utils.safestring import SafeString

from apps.agents.models import Agent
from apps.features.routing import latencies
from apps.remote.uptime import Uptime
from console import charts
from console.cells import duration


@dataclass(frozen=True, slots=True)
class Pace:
    """The seconds that an agent's newest answers took, the oldest first; where there are none, the checks of it."""

    seconds: list[float] = field(default_factory=list)
    are_checks: bool = False

    def __bool__(self) -> bool:
        return bool(self.seconds)

    @property
    def what(self) -> str:
        return "checks" if self.are_checks else "answers"

    @property
    def typical(self) -> str:
        return duration(median(self.seconds)) if self.seconds else ""

    @property
    def rows(self) -> list[str]:
        """The newest first."""
        return [duration(one) for one in reversed(self.seconds)]

    @property
    def told(self) -> str:
        """What the picture shows, in a sentence."""
        if len(self.seconds) == 1:
            return f"One of its {self.what} was measured: {self.rows[0]}."
        longest, newest = duration(max(self.seconds)), self.rows[0]
        return f"The newest {len(self.seconds)} {self.what}: the longest took {longest}, the newest {newest}."

    @property
    def picture(self) -> SafeString:
        return charts.sparkline(self.seconds, f"How long {self.what} took", self.told)


def of_all(agents: Collection[Agent], uptimes: dict[int, Uptime]) -> dict[int, Pace]:
    """By the agents' keys; one statement for all. `uptimes` are those of the remote ones among them."""
    answers = latencies.newest(agents)
    return {key: Pace(took) if took else _of_checks(uptimes.get(key)) for key, took in answers.items()}


def _of_checks(known: Uptime | None) -> Pace:
    checked = [result / 1000 for result in known.newest if result is not None] if known else []
    return Pace(checked, are_checks=bool(checked))
