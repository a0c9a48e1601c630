"""What choices say: how often people prefer an agent, and each of its versions and models.

A comparison counts each pair of its sides. The chosen one wins against each other one; if both or neither were good, a
pair is a tie. The share is (wins + ties / 2) / pairs, with its 95 % interval (Wilson 1927).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, permutations
from math import sqrt
from operator import attrgetter
from typing import Any

from django.db.models import Exists, OuterRef

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.optional.comparing.models import Comparison, Side
from parley.db.sql import Keys

NEWEST = 5000  # comparisons of an agent that are counted
Z = 1.959964  # standard deviations on each side of a 95 % interval


@dataclass(slots=True)
class Score:
    """Pairs won, lost and tied."""

    wins: int = 0
    losses: int = 0
    ties: int = 0

    @property
    def pairs(self) -> int:
        return self.wins + self.losses + self.ties

    @property
    def share(self) -> float:
        """From 0 to 1; a tie is half a win."""
        return (self.wins + self.ties / 2) / self.pairs

    @property
    def interval(self) -> tuple[float, float]:
        """Where the share of all people is, with 95 % confidence, if choices are independent."""
        count, share = self.pairs, self.share
        spread = Z * sqrt(share * (1 - share) / count + Z * Z / (4 * count * count))
        middle, scale = share + Z * Z / (2 * count), 1 + Z * Z / count
        return (middle - spread) / scale, (middle + spread) / scale

    @property
    def percent(self) -> int:
        return round(100 * self.share)

    @property
    def interval_percent(self) -> tuple[int, int]:
        low, high = self.interval
        return round(100 * low), round(100 * high)

    def add(self, side: Side, other: Side) -> None:
        if side.comparison.choice != Comparison.Choice.ONE:
            self.ties += 1
        elif side.is_chosen:
            self.wins += 1
        elif other.is_chosen:
            self.losses += 1


@dataclass(frozen=True, slots=True)
class Preferences:
    """Of an agent against others, and of its versions and models against all else. Without those never compared."""

    whole: Score
    versions: list[tuple[int, Score]]
    models: list[tuple[str, Score]]

    @property
    def is_empty(self) -> bool:
        return not (self.whole.pairs or self.versions or self.models)


def preferences(agent: Agent) -> Preferences:
    """By the choices of everybody. Two queries."""
    whole, versions, models = Score(), defaultdict[int, Score](Score), defaultdict[str, Score](Score)
    for sides in _compared(agent):
        for side, other in permutations(sides, 2):
            if side.agent_id != agent.pk:
                continue
            if other.agent_id != agent.pk:
                whole.add(side, other)
            if side.version and (other.agent_id, other.version_id) != (agent.pk, side.version_id):
                versions[side.version.number].add(side, other)
            if side.model and (other.agent_id, other.model) != (agent.pk, side.model):
                models[side.model].add(side, other)
    newest_first = sorted(((number, one) for number, one in versions.items() if one.pairs), reverse=True)
    return Preferences(whole, newest_first, sorted((name, one) for name, one in models.items() if one.pairs))


def _compared(agent: Agent) -> Iterator[list[Side]]:
    """The sides of the newest comparisons with the agent in which somebody chose."""
    chosen = Comparison.objects.exclude(choice=Comparison.Choice.OPEN)
    with_it = chosen.filter(Exists(Side.objects.filter(comparison=OuterRef("pk"), agent=agent)))
    newest = list(with_it.order_by("-created_at", "-pk").values_list("pk", flat=True)[:NEWEST])
    sides = Side.objects.filter(comparison__in=Keys(newest))
    rows: Iterable[Side] = sides.select_related("comparison", "version").order_by("comparison", "position")
    for _, group in groupby(rows, key=attrgetter("comparison_id")):
        yield list(group)


def personal_data(person: User) -> Iterator[tuple[str, str, Any]]:
    """What an archive of the person's data has of this app."""
    rows = Comparison.objects.filter(owner=person).order_by("created_at", "pk")
    found = [_document(one) for one in rows.prefetch_related("sides__agent", "sides__version")]
    yield "comparisons.json", "your comparisons, and which answers you chose", {"comparisons": found}


def _document(row: Comparison) -> dict[str, Any]:
    sides = [
        {
            "agent": one.agent.slug,
            "version": one.version.number if one.version else None,
            "model": one.model,
            "session": str(one.session_id),
            "chosen": one.is_chosen,
        }
        for one in row.sides.all()
    ]
    chosen = row.chosen_at.isoformat() if row.chosen_at else None
    about = {"blind": row.blind, "choice": row.choice, "created": row.created_at.isoformat(), "chosen": chosen}
    return {"id": str(row.pk), "session": str(row.session_id), **about, "sides": sides}
