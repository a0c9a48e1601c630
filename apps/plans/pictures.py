"""The graph and the Gantt chart of a plan, drawn by `plans/_graph.html` and `plans/_gantt.html` or as SVG files.

Both fold a large fan-out into one box or row with counts.
"""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import accumulate

from parley.faces.drawing.axis import Span, Tick, TimeAxis, axis_ticks, long_duration
from parley.faces.drawing.layout import Edge, Link, Sizes, draw_edges, lay_out
from parley.faces.drawing.svg import render_svg, shortened

UNFOLDED = 6  # the most items of a fan-out that are drawn separately
LARGE, SMALL = Sizes(208, 76, 64), Sizes(192, 52, 56, 12)
STATELESS = Sizes(208, 54, 64)  # for definitions
MANY = 40  # with more boxes than this, all are small
STACK = 4  # pixels between the sheets of a stack
LETTER, LETTER_OF_TITLE = 8.0, 9.6  # widths in pixels, in a wide typeface
ROW = 28  # pixels
PAUSES = {"asking", "waiting"}
PROFILE_COLUMNS = 240  # of the profile of a fan-out
SHORTEST_WAIT = 1.0  # % of the axis; shorter waits are not drawn
SIGNS = ("person", "working", "waiting", "done", "failed", "canceled", "none")  # in the sprite `static/icons.svg`


@dataclass(frozen=True, slots=True)
class Look:
    """A sign of the sprite, which also sets the color, and its word."""

    sign: str
    word: str


LOOKS = {
    "waiting": Look("none", "Waits"),
    "starting": Look("working", "Starting"),
    "running": Look("working", "Working"),
    "asking": Look("waiting", "Asks"),
    "ended": Look("working", "Being checked"),
    "done": Look("done", "Done"),
    "failed": Look("failed", "Failed"),
    "skipped": Look("canceled", "Skipped"),
    "canceled": Look("canceled", "Stopped"),
}
# A group shows the first of these states that any member has.
FOREMOST = ("asking", "running", "starting", "ended", "failed", "waiting", "canceled", "skipped", "done")
BAR_ORDER = ("done", "running", "asking", "failed", "canceled", "waiting")  # left to right
SHOWN_AS = {"starting": "running", "ended": "running", "skipped": "canceled"}  # in a bar


def look_of(state: str) -> Look:
    return LOOKS.get(state) or Look("none", state.capitalize())


def foremost(states: set[str]) -> str:
    return next((state for state in FOREMOST if state in states), "")


@dataclass(frozen=True, slots=True)
class Spell:
    """A time in one state. `ends` None: until now. An attempt that ended is done, failed or canceled."""

    state: str
    begins: datetime.datetime
    ends: datetime.datetime | None = None
    attempt: int = 1
    question: str = ""


@dataclass(frozen=True, slots=True)
class StepBox:
    """A step to draw, in the graph or the chart.

    Attributes:
        key: unique in the picture; an item of a fan-out has its own, such as `search-0`.
        state: a `Step.State`; "" in the picture of a definition.
        question: what it asks a person now.
        depends_on: keys; that of a fan-out means all its items.
        counts: the number of items by state, for a folded fan-out.
        note: why it failed or waits.
        fan_out: the key of the fan-out that it is an item of.
        is_person: a person does or approves it.
        asking: how many items of a folded fan-out ask.
        spells: its bars in the chart.
        again: the address at which the run starts again from it; "" if it cannot.
    """

    key: str
    title: str = ""
    state: str = ""
    agent: str = ""
    duration: timedelta | None = None
    question: str = ""
    href: str = ""
    depends_on: tuple[str, ...] = ()
    counts: Mapping[str, int] | None = None
    round: int = 1
    note: str = ""
    fan_out: str = ""
    is_person: bool = False
    again: str = ""
    asking: int = field(default=0, kw_only=True)
    spells: Sequence[Spell] = field(default=(), kw_only=True)

    @property
    def name(self) -> str:
        return self.title or self.key

    @property
    def sign(self) -> str:
        return look_of(self.state).sign

    @property
    def word(self) -> str:
        return look_of(self.state).word if self.state else ""


def fold_fan_outs(boxes: Iterable[StepBox]) -> list[StepBox]:
    """Replaces each fan-out of more than UNFOLDED items by one box, also in dependencies."""
    boxes = list(boxes)
    items: dict[str, list[StepBox]] = defaultdict(list)
    for box in boxes:
        if box.fan_out:
            items[box.fan_out].append(box)
    folded = {key for key, found in items.items() if len(found) > UNFOLDED}
    shown: list[StepBox] = []
    for box in boxes:
        if box.fan_out not in folded:
            shown.append(box)
        elif box is items[box.fan_out][0]:
            shown.append(_folded_box(box.fan_out, items[box.fan_out]))
    meant = {key: [key] if key in folded else [one.key for one in found] for key, found in items.items()}
    meant |= {box.key: [box.fan_out] for box in boxes if box.fan_out in folded}
    return [
        replace(box, depends_on=tuple(dict.fromkeys(one for key in box.depends_on for one in meant.get(key, [key]))))
        for box in shown
    ]


def _folded_box(key: str, items: list[StepBox]) -> StepBox:
    rank = {state: number for number, state in enumerate(FOREMOST)}
    first = min(items, key=lambda one: rank.get(one.state, len(rank)))
    counts = Counter(one.state for one in items)
    asked = [one.question for one in items if one.question]
    return replace(
        first,
        key=key,
        title=first.title or key,
        state=foremost(set(counts)),
        question=asked[0] if asked else "",
        asking=len(asked),
        depends_on=tuple(dict.fromkeys(needed for one in items for needed in one.depends_on)),
        counts=dict(counts),
        duration=None,
        round=1,
        fan_out="",
    )


@dataclass(frozen=True, slots=True)
class Share:
    """A segment of a fan-out's bar: left edge and width in pixels."""

    sign: str
    words: str
    x: int
    width: int


@dataclass(frozen=True, slots=True)
class PlacedBox:
    box: StepBox
    x: int
    y: int
    sizes: Sizes
    needed: str  # the titles of what it depends on

    @property
    def short_title(self) -> str:
        return shortened(self.box.name, (self.sizes.width - (48 if self.box.again else 24)) / LETTER_OF_TITLE)

    @property
    def short_agent(self) -> str:
        return shortened(self.box.agent, (self.sizes.width - (44 if self.box.is_person else 24)) / LETTER)

    @property
    def word(self) -> str:
        if self.box.counts is not None:
            return f"{self.box.counts.get('done', 0)} of {self.total}" + (" done" if self.total < 1000 else "")
        return f"{self.box.word} · round {self.box.round}" if self.box.round > 1 else self.box.word

    @property
    def took(self) -> str:
        return long_duration(self.box.duration) if self.box.duration is not None else ""

    @property
    def total(self) -> int:
        return sum((self.box.counts or {}).values())

    @property
    def failed(self) -> int:
        return (self.box.counts or {}).get("failed", 0)

    @property
    def counted(self) -> str:
        return ", ".join(share.words for share in self.shares)

    @property
    def shares(self) -> list[Share]:
        """The segments of a fan-out's bar; small ones have a minimum width."""
        counts = Counter[str]()
        for state, count in (self.box.counts or {}).items():
            counts[SHOWN_AS.get(state, state)] += count
        there = [state for state in BAR_ORDER if counts[state] > 0]
        room, least = self.sizes.width - 24, 4
        total = sum(counts[state] for state in there) or 1
        widths = [max(least, room * counts[state] // total) for state in there]
        if widths:
            widths[widths.index(max(widths))] += room - sum(widths)
        begins = accumulate(widths, initial=0)
        return [
            Share(LOOKS[state].sign, f"{counts[state]} {LOOKS[state].word.lower()}", 12 + x, width)
            for state, x, width in zip(there, begins, widths, strict=False)
        ]

    @property
    def words(self) -> str:
        """The whole box as text, for screen readers and tooltips."""
        many = f"{self.total} items: {self.counted}" if self.box.counts is not None else self.word
        asked = f"asks: {self.box.question}" if self.box.question else ""
        by = f"by {self.box.agent}" if self.box.agent else ""
        person = "a person has a part in it" if self.box.is_person else ""
        return ", ".join(filter(None, [self.box.name, by, person, many, self.took, asked, self.box.note]))

    @property
    def css_class(self) -> str:
        states = {"waiting": " is-waiting", "asking": " is-asking", "failed": " is-failed", "skipped": " is-skipped"}
        return "step" + (" is-asking" if self.box.question else states.get(self.box.state, ""))

    @property
    def stack(self) -> tuple[int, ...]:
        """Offsets of the sheets behind the box of a fan-out, in pixels."""
        return (2 * STACK, STACK) if self.box.counts is not None else ()


@dataclass(frozen=True, slots=True)
class Graph:
    """The graph; `name` is unique on its page."""

    title: str
    boxes: list[PlacedBox]
    edges: list[Edge]
    sizes: Sizes
    width: int
    height: int
    name: str = "plan"

    @property
    def is_small(self) -> bool:
        return self.sizes is SMALL

    @property
    def legend(self) -> list[tuple[str, str]]:
        states = {box.box.state for box in self.boxes} | {one for box in self.boxes for one in box.box.counts or {}}
        return [(look.sign, look.word) for state, look in LOOKS.items() if state in states]


def draw_graph(boxes: Iterable[StepBox], *, title: str = "The steps of the plan") -> Graph:
    shown = fold_fan_outs(boxes)
    has_states = any(box.state or box.counts for box in shown)
    sizes = SMALL if len(shown) > MANY else LARGE if has_states else STATELESS
    layout = lay_out({box.key: box.depends_on for box in shown}, sizes)
    titles = {box.key: box.name for box in shown}
    needs = {box.key: [key for key in box.depends_on if key in titles] for box in shown}
    placed = [
        PlacedBox(box, *layout.places[box.key], sizes, ", ".join(titles[key] for key in needs[box.key]))
        for box in shown
    ]
    links = {(key, one): Link(f"{titles[key]}, then {titles[one]}") for one, found in needs.items() for key in found}
    stacked = 2 * STACK if shown else 0
    edges = list(draw_edges(layout, links))
    return Graph(title, placed, edges, sizes, layout.width + stacked, layout.height + stacked)


@dataclass(frozen=True, slots=True)
class Bar:
    """A spell in the chart: left edge and width in % of the axis."""

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
        return long_duration(self.spell.ends - self.spell.begins) if self.spell.ends else "still going on"

    @property
    def words(self) -> str:
        attempt = f"attempt {self.spell.attempt}" if self.spell.attempt > 1 else ""
        return ", ".join(filter(None, [self.word, attempt, self.took, self.spell.question]))

    @property
    def is_wide(self) -> bool:
        return self.width >= 3  # room for a sign


@dataclass(frozen=True, slots=True)
class Row:
    """A step's bars. A folded fan-out has a `profile`: the number of working items as a path in a square of 100."""

    step: StepBox
    y: int
    bars: list[Bar]
    profile: str = ""
    counted: str = ""

    @property
    def words(self) -> str:
        return ", ".join(filter(None, [self.step.name, self.step.agent, self.counted, self.step.word]))


@dataclass(frozen=True, slots=True)
class Gantt:
    rows: list[Row]
    ticks: list[Tick]
    cuts: list[tuple[float, str]]
    span: Span | None
    is_over: bool
    name: str = "gantt"
    title: str = "Timeline"

    @property
    def height(self) -> int:
        return len(self.rows) * ROW

    @property
    def took(self) -> str:
        return long_duration(self.span[1] - self.span[0]) if self.span else ""

    @property
    def legend(self) -> list[tuple[str, str]]:
        states = {bar.spell.state for row in self.rows for bar in row.bars}
        return [
            ("queued" if state == "waiting" else look.sign, look.word)
            for state, look in LOOKS.items()
            if state in states
        ]


def draw_gantt(steps: Iterable[StepBox], now: datetime.datetime, *, is_over: bool = False) -> Gantt:
    """Unfinished bars last until `now`."""
    steps = list(steps)
    spells = [spell for step in steps for spell in step.spells]
    if not spells:
        return Gantt([Row(step, at * ROW, []) for at, step in enumerate(steps)], [], [], None, is_over)
    known = [_span(spell, now) for spell in spells]
    span = (min(begins for begins, _ in known), max(ends for _, ends in known))
    axis = TimeAxis(span, _merge_spans(_span(spell, now) for spell in spells if spell.state not in PAUSES))
    rows = [_row(at * ROW, group, axis, now) for at, group in enumerate(_groups(steps))]
    return Gantt(rows, axis_ticks(axis), axis.cuts, span, is_over)


def _groups(steps: Sequence[StepBox]) -> list[list[StepBox]]:
    items: dict[str, list[StepBox]] = defaultdict(list)
    for step in steps:
        items[step.fan_out or step.key].append(step)
    return [
        group for found in items.values() for group in ([found] if len(found) > UNFOLDED else [[one] for one in found])
    ]


def _row(y: int, group: Sequence[StepBox], axis: TimeAxis, now: datetime.datetime) -> Row:
    first = group[0]
    if len(group) == 1:
        bars = [Bar(one, *axis.bar(*_span(one, now))) for one in first.spells]
        return Row(first, y, [bar for bar in bars if bar.spell.state != "waiting" or bar.width >= SHORTEST_WAIT])
    spells = [spell for step in group for spell in step.spells]
    worked = [_span(one, now) for one in spells if one.state not in PAUSES]
    profile, most = _profile(worked, axis), _peak(worked)
    asked = _merge_spans(_span(one, now) for one in spells if one.state == "asking")
    step = replace(first, key=first.fan_out, state=foremost({step.state for step in group}))
    bars = [Bar(Spell("asking", *one), *axis.bar(*one)) for one in asked]
    failed = sum(step.state == "failed" for step in group)
    counted = f"{len(group)} items, at most {most} at once" + (f", {failed} failed" if failed else "")
    return Row(step, y, bars, profile, counted)


def _profile(spans: Sequence[Span], axis: TimeAxis) -> str:
    """The number of overlapping spans over time, as a path in a square of 100."""
    changes = [0] * (PROFILE_COLUMNS + 1)
    for begins, ends in spans:
        left, right = (int(axis.place(at) * PROFILE_COLUMNS / 100) for at in (begins, ends))
        left = min(left, PROFILE_COLUMNS - 1)
        changes[left] += 1
        changes[min(max(right, left + 1), PROFILE_COLUMNS)] -= 1
    counts = list(accumulate(changes[:-1]))
    most, path, last = max(counts), ["M0 100"], 0
    for column, count in enumerate(counts):
        if count != last:
            path.append(f"H{column * 100 / PROFILE_COLUMNS:g}V{100 - 100 * count / most:.0f}")
            last = count
    return "".join([*path, "H100V100z"])


def _peak(spans: Sequence[Span]) -> int:
    changes = sorted([(begins, 1) for begins, _ in spans] + [(ends, -1) for _, ends in spans])
    return max(accumulate((change for _, change in changes), initial=0))


def _span(spell: Spell, now: datetime.datetime) -> Span:
    return spell.begins, max(spell.begins, spell.ends or now)


def _merge_spans(spans: Iterable[Span]) -> list[Span]:
    found: list[Span] = []
    for begins, ends in sorted(spans):
        if found and begins <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], ends))
        else:
            found.append((begins, ends))
    return found


def graph_svg(picture: Graph) -> str:
    return render_svg("plans/graph.svg", SIGNS, graph=picture)


def gantt_svg(picture: Gantt) -> str:
    return render_svg("plans/gantt.svg", SIGNS, gantt=picture)
