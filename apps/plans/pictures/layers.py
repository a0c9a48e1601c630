"""A layered drawing of a graph: what depends on something stands to the right of it.

Columns by the longest path; a line that passes columns has a lane in each of them, shared by all lines from the same
box; orders with few crossings (`ordering`); heights near those of the neighbours (`heights`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from apps.plans.pictures.heights import heights
from apps.plans.pictures.ordering import ordered

MOST_LANES = 20_000  # lines beyond that go straight, across whatever stands there

Point = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of boxes, of the room between them, and of a lane's height; in pixels, all even."""

    width: int = 208
    height: int = 76
    across: int = 64
    down: int = 20
    lane: int = 0
    margin: int = 12


@dataclass(frozen=True, slots=True)
class Line:
    """From one box to another: pairs of points, from the right of a box or lane to the left of the next."""

    begins: str
    ends: str
    points: tuple[tuple[Point, Point], ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Upper left corners of the boxes by key, the lines between them, and how large that is."""

    places: dict[str, Point]
    lines: list[Line]
    width: int
    height: int


@dataclass(slots=True)
class _Graph:
    """Nodes by number, the lanes after the boxes; those before and after each are in the columns beside it."""

    column: list[int] = field(default_factory=list)
    before: list[list[int]] = field(default_factory=list)
    after: list[list[int]] = field(default_factory=list)

    def add(self, column: int) -> int:
        self.column.append(column)
        self.before.append([])
        self.after.append([])
        return len(self.column) - 1

    def link(self, begins: int, ends: int) -> None:
        if ends not in self.after[begins]:
            self.after[begins].append(ends)
            self.before[ends].append(begins)


def laid_out(depends_on: Mapping[str, Sequence[str]], sizes: Sizes) -> Layout:
    """Place boxes by what each depends on. The same graph gives the same drawing.

    Keys that are not there are ignored, and of a circle the links that close it.
    """
    keys = list(depends_on)
    graph, ways = _with_lanes(keys, _acyclic(depends_on))
    columns: list[list[int]] = [[] for _ in range(max(graph.column, default=-1) + 1)]
    for node in _by_depth(graph):
        columns[graph.column[node]].append(node)
    columns = ordered(columns, graph.before, graph.after)
    is_box = [node < len(keys) for node in range(len(graph.column))]
    tall = [sizes.height if here else sizes.lane for here in is_box]
    middle = heights(columns, graph.before, graph.after, tall, sizes.down, is_box)
    top = min((middle[node] - tall[node] // 2 for node in range(len(tall))), default=0) - sizes.margin
    bottom = max((middle[node] + (tall[node] + 1) // 2 for node in range(len(tall))), default=0) + sizes.margin
    left = [sizes.margin + number * (sizes.width + sizes.across) for number in range(len(columns))]

    def step(begins: int, ends: int) -> tuple[Point, Point]:
        return (
            (left[graph.column[begins]] + sizes.width, middle[begins] - top),
            (left[graph.column[ends]], middle[ends] - top),
        )

    lines = [Line(keys[way[0]], keys[way[-1]], tuple(step(*pair) for pair in itertools.pairwise(way))) for way in ways]
    places = {key: (left[graph.column[node]], middle[node] - sizes.height // 2 - top) for node, key in enumerate(keys)}
    width = 2 * sizes.margin + len(columns) * (sizes.width + sizes.across) - sizes.across if keys else 0
    return Layout(places, lines, width, bottom - top if keys else 0)


def _acyclic(depends_on: Mapping[str, Sequence[str]]) -> list[list[int]]:
    """What comes before each, by number, without what would close a circle."""
    number = {key: at for at, key in enumerate(depends_on)}
    wanted = [
        list(dict.fromkeys(number[key] for key in needed if key in number and number[key] != at))
        for at, needed in enumerate(depends_on.values())
    ]
    begun: set[int] = set()
    ended: set[int] = set()
    for root in range(len(wanted)):
        path = [] if root in begun else [(root, iter(list(wanted[root])))]
        begun.add(root)
        while path:
            node, rest = path[-1]
            following = next(rest, None)
            if following is None:
                ended.add(node)
                path.pop()
            elif following not in begun:
                begun.add(following)
                path.append((following, iter(list(wanted[following]))))
            elif following not in ended:
                wanted[node].remove(following)
    return wanted


def _columns(before: Sequence[Sequence[int]]) -> list[int]:
    """The longest path to each; what depends on nothing stands just before the first that needs it."""
    column = [-1] * len(before)
    for root in range(len(before)):
        path = [root]
        while path:
            open_ones = [one for one in before[path[-1]] if column[one] < 0]
            if open_ones:
                path.extend(open_ones)
            else:
                node = path.pop()
                column[node] = max((column[one] for one in before[node]), default=-1) + 1
    first: dict[int, int] = {}
    for node, needed in enumerate(before):
        for one in needed:
            first[one] = min(first.get(one, len(before)), column[node])
    return [first[node] - 1 if not needed and node in first else column[node] for node, needed in enumerate(before)]


def _with_lanes(keys: Sequence[str], before: Sequence[Sequence[int]]) -> tuple[_Graph, list[list[int]]]:
    """The boxes, the lanes, and the way of each line through them, in the order of the boxes that they lead to."""
    graph = _Graph()
    for column in _columns(before):
        graph.add(column)
    lanes: dict[tuple[int, int], int] = {}  # of lines from a box, in a column
    ways = []
    for ends in range(len(keys)):
        for begins in before[ends]:
            passed = range(graph.column[begins] + 1, graph.column[ends])
            if len(passed) + len(lanes) > MOST_LANES:
                ways.append([begins, ends])
                continue
            way = [begins]
            for column in passed:
                if (begins, column) not in lanes:
                    lanes[begins, column] = graph.add(column)
                way.append(lanes[begins, column])
            way.append(ends)
            for pair in itertools.pairwise(way):
                graph.link(*pair)
            ways.append(way)
    return graph, ways


def _by_depth(graph: _Graph) -> Iterator[int]:
    """Each node after one that leads to it, so that branches begin side by side."""
    seen: set[int] = set()
    for root in range(len(graph.column)):
        path = [] if graph.before[root] else [root]
        while path:
            node = path.pop()
            if node not in seen:
                seen.add(node)
                yield node
                path.extend(reversed(graph.after[node]))
    yield from (node for node in range(len(graph.column)) if node not in seen)  # whose lines all go straight
