"""The pictures of a plan: its steps as a graph, and who worked when as a Gantt chart, in pages and as SVG files.

In both, a fan-out of many items is one box or row, which says how many of them are in which state. `plans/_graph.html`
and `plans/_gantt.html` draw them.
"""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import accumulate

from console.drawing.axis import Span, Tick, TimeAxis, axis_ticks, long_duration
from console.drawing.layout import Edge, Link, Sizes, draw_edges, lay_out
from console.drawing.svg import render_svg, shortened

UNFOLDED = 6  # items of a fan-out that are drawn one by one
LARGE, SMALL = Sizes(208, 76, 64), Sizes(192, 52, 56, 12)
STATELESS = Sizes(208, 54, 64)  # of a definition, which has no states
MANY = 40  # boxes from which on they are small
STACK = 4  # pixels that the sheets of a stack are apart
LETTER, LETTER_OF_TITLE = 8.0, 9.6  # pixels that one takes in a wide typeface
ROW = 28  # pixels
PAUSES = {"asking", "waiting"}
PROFILE_COLUMNS = 240  # of the profile of a fan-out
SHORTEST_WAIT = 1.0  # % of the axis: how long something has to wait for its agent to be drawn
SIGNS = ("person", "working", "waiting", "done", "failed", "canceled", "none")
"""Of the sprite `static/icons.svg`: those that pictures use."""


@dataclass(frozen=True, slots=True)
class Look:
    """A sign of the sprite, which also sets the color, and the word beside it."""

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
"""By `Step.State`. The steps of a definition have no state."""

FOREMOST = ("asking", "running", "starting", "ended", "failed", "waiting", "canceled", "skipped", "done")
"""Of several states, the first of these stands for all: what readers should know first."""

BAR_ORDER = ("done", "running", "asking", "failed", "canceled", "waiting")
"""The order of states in a bar, left to right."""

SHOWN_AS = {"starting": "running", "ended": "running", "skipped": "canceled"}
"""States that a bar shows as others."""


def look_of(state: str) -> Look:
    """The look of a state, also of one that is unknown here."""
    return LOOKS.get(state) or Look("none", state.capitalize())


def foremost(states: set[str]) -> str:
    """The state that stands for several."""
    return next((state for state in FOREMOST if state in states), "")


@dataclass(frozen=True, slots=True)
class StepBox:
    """A step as it is drawn.

    Attributes:
        key: names it within the picture; an item of a fan-out has a key of its own, such as `search-0`.
        title: any text; the picture shows the key where it is empty.
        state: a `Step.State`; empty in the picture of a definition.
        agent: who does it, as people see it.
        duration: how long it took, or has taken so far.
        question: what it asks a person now.
        href: where a click leads; empty: nowhere.
        depends_on: keys of others; that of a fan-out means all its items.
        counts: of a fan-out that is one box, how many items are in which state.
        round: of a repetition, from 1.
        note: why it failed or waits, as a sentence.
        fan_out: the key of the fan-out that it is an item of.
        is_person: a person does it, or has to agree.
        asking: how many items of a folded fan-out ask something.
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
    asking: int = field(default=0, kw_only=True)


def fold_fan_outs(boxes: Iterable[StepBox]) -> list[StepBox]:
    """The same with one box for each fan-out of more than UNFOLDED items; what needs one needs all its items."""
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
    return [replace(box, depends_on=_resolve_keys(box.depends_on, meant)) for box in shown]


def _resolve_keys(keys: Iterable[str], meant: Mapping[str, list[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for key in keys for one in meant.get(key, [key])))


def _folded_box(key: str, items: list[StepBox]) -> StepBox:
    """It leads to where the item does that readers should look at first."""
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
    """A piece of the bar of a fan-out: its left edge and width in pixels."""

    sign: str
    words: str
    x: int
    width: int


@dataclass(frozen=True, slots=True)
class PlacedBox:
    """A step's box: its place and its words."""

    box: StepBox
    x: int
    y: int
    sizes: Sizes
    needed: str  # the titles of what it depends on

    @property
    def title(self) -> str:
        return self.box.title or self.box.key

    @property
    def short_title(self) -> str:
        return shortened(self.title, (self.sizes.width - 24) / LETTER_OF_TITLE)

    @property
    def short_agent(self) -> str:
        return shortened(self.box.agent, (self.sizes.width - (44 if self.box.is_person else 24)) / LETTER)

    @property
    def sign(self) -> str:
        return look_of(self.box.state).sign

    @property
    def word(self) -> str:
        """Its state, shown beside the sign."""
        if self.box.counts is not None:
            return f"{self.box.counts.get('done', 0)} of {self.total}" + (" done" if self.total < 1000 else "")
        word = look_of(self.box.state).word if self.box.state else ""
        return f"{word} · round {self.box.round}" if self.box.round > 1 else word

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
        """All that is in the bar of a fan-out, in words."""
        return ", ".join(share.words for share in self.shares)

    @property
    def shares(self) -> list[Share]:
        """The bar of a fan-out, in which even small shares can be seen."""
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
        """The whole box, for readers who cannot see the picture or point at it."""
        many = f"{self.total} items: {self.counted}" if self.box.counts is not None else self.word
        asked = f"asks: {self.box.question}" if self.box.question else ""
        by = f"by {self.box.agent}" if self.box.agent else ""
        person = "a person has a part in it" if self.box.is_person else ""
        return ", ".join(filter(None, [self.title, by, person, many, self.took, asked, self.box.note]))

    @property
    def css_class(self) -> str:
        """The box and what it looks like."""
        states = {"waiting": " is-waiting", "asking": " is-asking", "failed": " is-failed", "skipped": " is-skipped"}
        return "step" + (" is-asking" if self.box.question else states.get(self.box.state, ""))

    @property
    def stack(self) -> tuple[int, ...]:
        """Of a fan-out, by how many pixels the sheets behind the box stick out."""
        return (2 * STACK, STACK) if self.box.counts is not None else ()


@dataclass(frozen=True, slots=True)
class Graph:
    """The picture. `name` sets it apart from others on its page."""

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
        """Each sign and word that is in the picture."""
        states = {box.box.state for box in self.boxes} | {one for box in self.boxes for one in box.box.counts or {}}
        return [(look.sign, look.word) for state, look in LOOKS.items() if state in states]


def draw_graph(boxes: Iterable[StepBox], *, title: str = "The steps of the plan") -> Graph:
    """Lay out up to 2,000 steps; fan-outs of many items are folded first."""
    shown = fold_fan_outs(boxes)
    has_states = any(box.state or box.counts for box in shown)
    sizes = SMALL if len(shown) > MANY else LARGE if has_states else STATELESS
    layout = lay_out({box.key: box.depends_on for box in shown}, sizes)
    titles = {box.key: box.title or box.key for box in shown}
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
class Spell:
    """A time in which a step was in one state (`ends` None: still); an ended attempt is done, failed or canceled."""

    state: str
    begins: datetime.datetime
    ends: datetime.datetime | None = None
    attempt: int = 1
    question: str = ""


@dataclass(frozen=True, slots=True)
class StepRow:
    """A step in time. `state`: as it is now; `fan_out`: the key of the fan-out that it is an item of."""

    key: str
    title: str = ""
    state: str = ""
    agent: str = ""
    href: str = ""
    spells: Sequence[Spell] = ()
    fan_out: str = ""


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
        return long_duration(self.spell.ends - self.spell.begins) if self.spell.ends else "still going on"

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

    rows: list[Row]
    ticks: list[Tick]
    cuts: list[tuple[float, str]]
    span: Span | None
    is_over: bool
    name: str = "gantt"
    title: str = "Who worked when"

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


def draw_gantt(steps: Iterable[StepRow], now: datetime.datetime, *, is_over: bool = False) -> Gantt:
    """What still goes on lasts until `now`. A fan-out of many items is one row."""
    steps = list(steps)
    spells = [spell for step in steps for spell in step.spells]
    if not spells:
        rows = [Row(step, at * ROW, []) for at, step in enumerate(steps)]
        return Gantt(rows, [], [], None, is_over)
    known = [_span(spell, now) for spell in spells]
    span = (min(begins for begins, _ in known), max(ends for _, ends in known))
    axis = TimeAxis(span, _merge_spans(_span(spell, now) for spell in spells if spell.state not in PAUSES))
    rows = [_row(at * ROW, group, axis, now) for at, group in enumerate(_groups(steps))]
    return Gantt(rows, axis_ticks(axis), axis.cuts, span, is_over)


def _groups(steps: Sequence[StepRow]) -> list[list[StepRow]]:
    """Each step by itself, but together the items of a fan-out of many."""
    items: dict[str, list[StepRow]] = defaultdict(list)
    for step in steps:
        items[step.fan_out or step.key].append(step)
    return [
        group for found in items.values() for group in ([found] if len(found) > UNFOLDED else [[one] for one in found])
    ]


def _row(y: int, group: Sequence[StepRow], axis: TimeAxis, now: datetime.datetime) -> Row:
    first = group[0]
    if len(group) == 1:
        bars = [Bar(one, *axis.bar(*_span(one, now))) for one in first.spells]
        return Row(first, y, [bar for bar in bars if bar.spell.state != "waiting" or bar.width >= SHORTEST_WAIT])
    spells = [spell for step in group for spell in step.spells]
    worked = [_span(one, now) for one in spells if one.state not in PAUSES]
    profile, most = _profile(worked, axis), _peak(worked)
    asked = _merge_spans(_span(one, now) for one in spells if one.state == "asking")
    state = foremost({step.state for step in group})
    step = StepRow(first.fan_out, first.title, state, first.agent, first.href, fan_out=first.fan_out)
    bars = [Bar(Spell("asking", *one), *axis.bar(*one)) for one in asked]
    failed = sum(step.state == "failed" for step in group)
    counted = f"{len(group)} items, at most {most} at once" + (f", {failed} failed" if failed else "")
    return Row(step, y, bars, profile, counted)


def _profile(spans: Sequence[Span], axis: TimeAxis) -> str:
    """How many there were at once, as a path in a square of 100 with its base below."""
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
    """The most that there were at one time; one that begins as another ends is after it."""
    changes = sorted([(begins, 1) for begins, _ in spans] + [(ends, -1) for _, ends in spans])
    return max(accumulate((change for _, change in changes), initial=0))


def _span(spell: Spell, now: datetime.datetime) -> Span:
    return spell.begins, max(spell.begins, spell.ends or now)


def _merge_spans(spans: Iterable[Span]) -> list[Span]:
    """The same time without overlaps."""
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
