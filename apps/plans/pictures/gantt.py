"""Who ran when: a row for each step, a bar for each time that it was at work. `plans/_gantt.html` draws it."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from apps.plans.pictures.folding import UNFOLDED
from apps.plans.pictures.looks import LOOKS, foremost, look_of
from apps.plans.pictures.ticks import Tick, ticks
from console.scales import Scale, Span, lasted

ROW = 28  # pixels
PAUSES = {"asking", "waiting"}
COLUMNS = 240  # of the profile of a fan-out
SHORTEST_WAIT = 1.0  # % of the axis: how long something has to wait for its agent to be drawn


@dataclass(frozen=True, slots=True)
class Spell:
    """A time in which a step was in one state (`ends` None: still); an attempt that ended is done, failed, canceled."""

    state: str
    begins: datetime.datetime
    ends: datetime.datetime | None = None
    attempt: int = 1
    question: str = ""


@dataclass(frozen=True, slots=True)
class StepRow:
    """A step as it was in time. `of`: the key of the fan-out that it is an item of; `state`: as it is now."""

    key: str
    title: str = ""
    state: str = ""
    agent: str = ""
    href: str = ""
    spells: Sequence[Spell] = ()
    of: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A spell in the picture: left edge and width in % of the axis."""

    spell: Spell
    left: float
    width: float

    @property
    def sign(self) -> str:
        return "queued" if self.spell.state == "waiting" else look_of(self.spell.state).sign

    @property
    def word(self) -> str:
        return look_of(self.spell.state).word

    @property
    def took(self) -> str:
        return lasted(self.spell.ends - self.spell.begins) if self.spell.ends else "still going on"

    @property
    def words(self) -> str:
        attempt = f"attempt {self.spell.attempt}" if self.spell.attempt > 1 else ""
        return ", ".join(filter(None, [self.word, attempt, self.took, self.spell.question]))

    @property
    def is_wide(self) -> bool:
        """Wide enough for a sign."""
        return self.width >= 3


@dataclass(frozen=True, slots=True)
class Row:
    """A step's bars; of a folded fan-out also `profile`, a path in a square of 100: how many ran at once."""

    step: StepRow
    y: int
    bars: list[Bar]
    profile: str = ""
    counted: str = ""

    @property
    def title(self) -> str:
        return self.step.title or self.step.key

    @property
    def sign(self) -> str:
        return look_of(self.step.state).sign

    @property
    def word(self) -> str:
        return look_of(self.step.state).word if self.step.state else ""

    @property
    def words(self) -> str:
        return ", ".join(filter(None, [self.title, self.step.agent, self.counted, self.word]))


@dataclass(frozen=True, slots=True)
class Gantt:
    """The picture; `cuts` are pauses that are drawn shorter: where (%), and how long they were."""

    name: str
    title: str
    rows: list[Row]
    ticks: list[Tick]
    cuts: list[tuple[float, str]]
    span: Span | None
    is_over: bool

    @property
    def height(self) -> int:
        return len(self.rows) * ROW

    @property
    def took(self) -> str:
        return lasted(self.span[1] - self.span[0]) if self.span else ""

    @property
    def legend(self) -> list[tuple[str, str]]:
        states = {bar.spell.state for row in self.rows for bar in row.bars}
        return [
            ("queued" if state == "waiting" else look.sign, look.word)
            for state, look in LOOKS.items()
            if state in states
        ]


def in_time(
    steps: Iterable[StepRow], now: datetime.datetime, *, is_over: bool = False, name: str = "gantt",
    title: str = "Who worked when",
) -> Gantt:  # fmt: skip
    """What still goes on lasts until `now`. A fan-out of many items is one row."""
    steps = list(steps)
    known = [_span(spell, now) for step in steps for spell in step.spells]
    if not known:
        rows = [Row(step, at * ROW, []) for at, step in enumerate(steps)]
        return Gantt(name, title, rows, [], [], None, is_over)
    span = (min(begins for begins, _ in known), max(ends for _, ends in known))
    busy = _union(_span(spell, now) for step in steps for spell in step.spells if spell.state not in PAUSES)
    scale = Scale(span, busy)
    rows = [_row(at * ROW, group, scale, now) for at, group in enumerate(_groups(steps))]
    cuts = [(round(one.cut_at, 2), lasted(one.ends - one.begins)) for one in scale.stretches if one.is_cut]
    return Gantt(name, title, rows, ticks(scale), cuts, span, is_over)


def _groups(steps: Sequence[StepRow]) -> list[list[StepRow]]:
    """Each step by itself, but together the items of a fan-out of many."""
    items: dict[str, list[StepRow]] = defaultdict(list)
    for step in steps:
        items[step.of or step.key].append(step)
    return [
        group for found in items.values() for group in ([found] if len(found) > UNFOLDED else [[one] for one in found])
    ]


def _row(y: int, group: Sequence[StepRow], scale: Scale, now: datetime.datetime) -> Row:
    first = group[0]
    if len(group) == 1:
        bars = [Bar(one, *scale.bar(*_span(one, now))) for one in first.spells]
        return Row(first, y, [bar for bar in bars if bar.spell.state != "waiting" or bar.width >= SHORTEST_WAIT])
    spells = [spell for step in group for spell in step.spells]
    worked = [_span(one, now) for one in spells if one.state not in PAUSES]
    profile, most = _profile(worked, scale), _at_once(worked)
    asked = _union(_span(one, now) for one in spells if one.state == "asking")
    state = foremost({step.state for step in group})
    step = StepRow(first.of, first.title, state, first.agent, first.href, of=first.of)
    bars = [Bar(Spell("asking", *one), *scale.bar(*one)) for one in asked]
    failed = sum(step.state == "failed" for step in group)
    counted = f"{len(group)} items, at most {most} at once" + (f", {failed} failed" if failed else "")
    return Row(step, y, bars, profile, counted)


def _profile(spans: Sequence[Span], scale: Scale) -> str:
    """How many there were at once, as a path in a square of 100 with its base below."""
    changes = [0] * (COLUMNS + 1)
    for begins, ends in spans:
        left, right = (int(scale.place(at) * COLUMNS / 100) for at in (begins, ends))
        left = min(left, COLUMNS - 1)
        changes[left] += 1
        changes[min(max(right, left + 1), COLUMNS)] -= 1
    counts = list(accumulate(changes[:-1]))
    most, path, last = max(counts), ["M0 100"], 0
    for column, count in enumerate(counts):
        if count != last:
            path.append(f"H{column * 100 / COLUMNS:g}V{100 - 100 * count / most:.0f}")
            last = count
    return "".join([*path, "H100V100z"])


def _at_once(spans: Sequence[Span]) -> int:
    """The most that there were at one time; one that begins as another ends is after it."""
    changes = sorted([(begins, 1) for begins, _ in spans] + [(ends, -1) for _, ends in spans])
    return max(accumulate((change for _, change in changes), initial=0))


def _span(spell: Spell, now: datetime.datetime) -> Span:
    return spell.begins, max(spell.begins, spell.ends or now)


def _union(spans: Iterable[Span]) -> list[Span]:
    """The same time without overlaps."""
    found: list[Span] = []
    for begins, ends in sorted(spans):
        if found and begins <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], ends))
        else:
            found.append((begins, ends))
    return found
