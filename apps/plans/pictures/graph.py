"""The steps of a plan as a picture, left to right as one depends on the other: `plans/_graph.html` draws it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from apps.plans.pictures.folding import StepBox, folded
from apps.plans.pictures.layers import Layout, Point, Sizes, laid_out
from apps.plans.pictures.looks import IN_BARS, LIKE, LOOKS, look_of, shortened
from console.scales import lasted

LARGE, SMALL = Sizes(208, 76, 64, 20), Sizes(192, 52, 56, 12)
STATELESS = Sizes(208, 54, 64, 20)  # of a definition, which has no states
MANY = 40  # boxes from which on they are small
STACK = 4  # pixels that the sheets of a stack are apart
STEEP = 240  # pixels up or down from which on a line is no curve
LETTER, LETTER_OF_TITLE = 8.0, 9.6  # pixels that one takes in a wide typeface


@dataclass(frozen=True, slots=True)
class Share:
    """A piece of the bar of a fan-out: its left edge and width in pixels."""

    sign: str
    words: str
    x: int
    width: int


@dataclass(frozen=True, slots=True)
class Drawn:
    """A step's box: its place and its words."""

    box: StepBox
    x: int
    y: int
    sizes: Sizes
    after: str  # the titles of what it depends on

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
        return lasted(self.box.duration) if self.box.duration is not None else ""

    @property
    def total(self) -> int:
        return sum((self.box.counts or {}).values())

    @property
    def failed(self) -> int:
        return (self.box.counts or {}).get("failed", 0)

    @property
    def counted(self) -> str:
        """Of a fan-out, all that is in its bar, in words."""
        return ", ".join(share.words for share in self.shares)

    @property
    def shares(self) -> list[Share]:
        """The bar of a fan-out: what is there can be seen, however little it is."""
        counts = Counter[str]()
        for state, count in (self.box.counts or {}).items():
            counts[LIKE.get(state, state)] += count
        there = [state for state in IN_BARS if counts[state] > 0]
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
        """All of it for who cannot see the picture, or points at it."""
        many = f"{self.total} items: {self.counted}" if self.box.counts is not None else self.word
        asked = f"asks: {self.box.question}" if self.box.question else ""
        by = f"by {self.box.agent}" if self.box.agent else ""
        person = "a person has a part in it" if self.box.is_person else ""
        return ", ".join(filter(None, [self.title, by, person, many, self.took, asked, self.box.note]))

    @property
    def looks(self) -> str:
        """Classes of the box."""
        states = {"waiting": " is-waiting", "asking": " is-asking", "failed": " is-failed", "skipped": " is-skipped"}
        return "step" + (" is-asking" if self.box.question else states.get(self.box.state, ""))

    @property
    def sheets(self) -> tuple[int, ...]:
        """How far behind the box further ones lie, of a fan-out."""
        return (2 * STACK, STACK) if self.box.counts is not None else ()


@dataclass(frozen=True, slots=True)
class Edge:
    """A line, or a piece of one that several share; `words` and an arrowhead where it ends."""

    path: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class Graph:
    """The picture. `name` sets it apart from others on its page."""

    name: str
    title: str
    boxes: list[Drawn]
    edges: list[Edge]
    sizes: Sizes
    width: int
    height: int

    @property
    def is_small(self) -> bool:
        return self.sizes is SMALL

    @property
    def legend(self) -> list[tuple[str, str]]:
        """Each sign and word that is in the picture."""
        states = {box.box.state for box in self.boxes} | {one for box in self.boxes for one in box.box.counts or {}}
        return [(look.sign, look.word) for state, look in LOOKS.items() if state in states]


def drawn(boxes: Iterable[StepBox], *, name: str = "plan", title: str = "The steps of the plan") -> Graph:
    """Lay out up to 2,000 steps; fan-outs of many items are folded first."""
    shown = folded(boxes)
    has_states = any(box.state or box.counts for box in shown)
    sizes = SMALL if len(shown) > MANY else LARGE if has_states else STATELESS
    layout = laid_out({box.key: box.depends_on for box in shown}, sizes)
    titles = {box.key: box.title or box.key for box in shown}
    placed = [
        Drawn(box, *layout.places[box.key], sizes, ", ".join(titles[key] for key in box.depends_on if key in titles))
        for box in shown
    ]
    stacked = 2 * STACK if shown else 0
    edges = list(_edges(layout, titles, sizes.width))
    return Graph(name, title, placed, edges, sizes, layout.width + stacked, layout.height + stacked)


def _edges(layout: Layout, titles: dict[str, str], passed: int) -> Iterator[Edge]:
    """Lines from one box run together until they part: what they share is drawn once.

    `passed`: how wide the columns are that a line has to pass.
    """
    seen = set()
    for line in layout.lines:
        *shared, last = line.points
        for piece in shared:
            if piece not in seen:
                seen.add(piece)
                yield Edge(f"{_curve(*piece)}h{passed}")
        yield Edge(_curve(*last), f"{titles[line.begins]}, then {titles[line.ends]}")


def _curve(begins: Point, ends: Point) -> str:
    (x, y), (to_x, to_y) = begins, ends
    if y == to_y:
        return f"M{x} {y}H{to_x}"
    bend = (to_x - x) // 2
    if abs(to_y - y) > STEEP:  # straight down in the middle, where lines that begin or end together are one
        turn = bend // 2 if to_y > y else -(bend // 2)
        side = abs(turn)
        return f"M{x} {y}h{bend - side}q{side} 0 {side} {turn}V{to_y - turn}q0 {turn} {side} {turn}H{to_x}"
    return f"M{x} {y}C{x + bend} {y} {to_x - bend} {to_y} {to_x} {to_y}"
