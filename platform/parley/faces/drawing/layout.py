"""Layered graph layout (the Sugiyama method): each box is to the right of what it depends on.

The longest path to a box gives its column. Lines use lanes in the columns that they pass; lines from one box share
lanes. Repeated sweeps by the mean of the neighbors reduce crossings and align heights.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

MOST_LANES = 20_000  # lines beyond that go straight, across boxes
STEEP = 240  # pixels; steeper lines are not curves

Point = tuple[int, int]
Segment = tuple[Point, Point]
"""From the right of a box or lane to the left of the next."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """In pixels, all even."""

    width: int = 208
    height: int = 56
    across: int = 72
    down: int = 20
    margin: int = 12


@dataclass(frozen=True, slots=True)
class Line[Key: Hashable]:
    begins: Key
    ends: Key
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Layout[Key: Hashable]:
    """Boxes' upper left corners by key, lines, and total size."""

    places: dict[Key, Point]
    lines: list[Line[Key]]
    sizes: Sizes
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Link:
    """A line's tooltip and style."""

    words: str
    is_reference: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """A line, or a part that several share. Only ends have `words` and an arrowhead."""

    path: str
    words: str = ""
    is_reference: bool = False


def draw_edges[Key: Hashable](layout: Layout[Key], links: Mapping[tuple[Key, Key], Link]) -> Iterator[Edge]:
    """Shared parts are drawn once, dashed if all their lines are. Links that close a cycle go below the boxes."""
    lines = [(line, links[line.begins, line.ends]) for line in layout.lines if (line.begins, line.ends) in links]
    solid = {segment for line, link in lines if not link.is_reference for segment in line.segments}
    seen = set()
    for line, link in lines:
        *shared, last = line.segments
        for segment in shared:
            if segment not in seen:
                seen.add(segment)
                yield Edge(f"{_curve(*segment)}h{layout.sizes.width}", is_reference=segment not in solid)
        yield Edge(_curve(*last), link.words, link.is_reference)
    drawn = {(line.begins, line.ends) for line, _ in lines}
    for (begins, ends), link in links.items():
        if (begins, ends) not in drawn and begins != ends and begins in layout.places and ends in layout.places:
            yield Edge(_curve_back(layout, begins, ends), link.words, link.is_reference)


def _curve(begins: Point, ends: Point) -> str:
    (x, y), (to_x, to_y) = begins, ends
    if y == to_y:
        return f"M{x} {y}H{to_x}"
    bend = (to_x - x) // 2
    if abs(to_y - y) > STEEP:  # straight down in the middle: lines with a common end coincide
        turn = bend // 2 if to_y > y else -(bend // 2)
        side = abs(turn)
        return f"M{x} {y}h{bend - side}q{side} 0 {side} {turn}V{to_y - turn}q0 {turn} {side} {turn}H{to_x}"
    return f"M{x} {y}C{x + bend} {y} {to_x - bend} {to_y} {to_x} {to_y}"


def _curve_back[Key: Hashable](layout: Layout[Key], begins: Key, ends: Key) -> str:
    (x, y), (to_x, to_y) = (
        (left + layout.sizes.width // 2, top + layout.sizes.height)
        for left, top in (layout.places[begins], layout.places[ends])
    )
    below = max(y, to_y) + layout.sizes.margin
    return f"M{x} {y}C{x} {below} {to_x} {below} {to_x} {to_y}"


@dataclass(slots=True)
class _LayeredGraph:
    """Boxes, then lanes, by number. Neighbors are in adjacent columns."""

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


def lay_out[Key: Hashable](depends_on: Mapping[Key, Sequence[Key]], sizes: Sizes) -> Layout[Key]:
    """Place boxes by their dependencies. Deterministic.

    Ignores unknown keys and links that close a cycle.
    """
    keys = list(depends_on)
    graph, ways = _with_lanes(len(keys), _acyclic(depends_on))
    columns: list[list[int]] = [[] for _ in range(max(graph.column, default=-1) + 1)]
    for node in _by_depth(graph):
        columns[graph.column[node]].append(node)
    columns = order_columns(columns, graph.before, graph.after)
    heights = [sizes.height if node < len(keys) else 0 for node in range(len(graph.column))]
    middle = vertical_positions(columns, graph.before, graph.after, heights, sizes.down)
    top = min((at - height // 2 for at, height in zip(middle, heights, strict=True)), default=0) - sizes.margin
    bottom = max((at + height // 2 for at, height in zip(middle, heights, strict=True)), default=0) + sizes.margin
    left = [sizes.margin + number * (sizes.width + sizes.across) for number in range(len(columns))]

    def segment(begins: int, ends: int) -> Segment:
        return (
            (left[graph.column[begins]] + sizes.width, middle[begins] - top),
            (left[graph.column[ends]], middle[ends] - top),
        )

    lines = [
        Line(keys[way[0]], keys[way[-1]], tuple(segment(*pair) for pair in itertools.pairwise(way))) for way in ways
    ]
    places = {key: (left[graph.column[node]], middle[node] - sizes.height // 2 - top) for node, key in enumerate(keys)}
    width = 2 * sizes.margin + len(columns) * (sizes.width + sizes.across) - sizes.across if keys else 0
    return Layout(places, lines, sizes, width, bottom - top if keys else 0)


def _acyclic[Key: Hashable](depends_on: Mapping[Key, Sequence[Key]]) -> list[list[int]]:
    """Dependencies by number, without those that close a cycle."""
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
    """The longest path to each. A box without dependencies is just before the first that needs it."""
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


def _with_lanes(count: int, before: Sequence[Sequence[int]]) -> tuple[_LayeredGraph, list[list[int]]]:
    """The graph with lanes, and each line's path, ordered by target."""
    graph = _LayeredGraph()
    for column in _columns(before):
        graph.add(column)
    lanes: dict[tuple[int, int], int] = {}  # by box and column
    ways = []
    for ends in range(count):
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


def _by_depth(graph: _LayeredGraph) -> Iterator[int]:
    """Depth first: branches start side by side."""
    seen: set[int] = set()
    for root in range(len(graph.column)):
        path = [] if graph.before[root] else [root]
        while path:
            node = path.pop()
            if node not in seen:
                seen.add(node)
                yield node
                path.extend(reversed(graph.after[node]))
    yield from (node for node in range(len(graph.column)) if node not in seen)  # all their lines go straight


ORDER_SWEEPS = 16
PATIENCE = 6  # sweeps without improvement

Columns = list[list[int]]
Neighbors = Sequence[Sequence[int]]


def order_columns(columns: Columns, before: Neighbors, after: Neighbors) -> Columns:
    """Reorder each column for fewer crossings."""
    best, fewest, waited = [list(column) for column in columns], count_crossings(columns, after), 0
    columns = [list(column) for column in columns]
    place = [0.0] * len(before)
    for column in columns:
        _set_places(column, place)
    for sweep in range(ORDER_SWEEPS):
        if not fewest or waited >= PATIENCE:
            break
        rightward = sweep % 2 == 0
        beside = before if rightward else after
        for column in columns if rightward else reversed(columns):
            column.sort(key=lambda node: _mean([place[one] for one in beside[node]], place[node]))
            _set_places(column, place)
        _swap_neighbors(columns, before, after, place, also_equal=sweep % 4 > 1)
        count = count_crossings(columns, after)
        waited += 1
        if count < fewest:
            best, fewest, waited = [list(column) for column in columns], count, 0
    return best


def count_crossings(columns: Columns, after: Neighbors) -> int:
    """Crossings between adjacent columns."""
    found = 0
    for column, following in itertools.pairwise(columns):
        at = {node: number for number, node in enumerate(following)}
        seen: list[int] = []
        for node in column:
            ends = sorted(at[one] for one in after[node])
            found += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return found


def _set_places(column: list[int], place: list[float]) -> None:
    """As fractions of the column's height, to compare columns."""
    for number, node in enumerate(column):
        place[node] = (number + 0.5) / len(column)


def _swap_neighbors(
    columns: Columns, before: Neighbors, after: Neighbors, place: list[float], *, also_equal: bool
) -> None:
    """Swap adjacent nodes if that reduces crossings, or keeps them where allowed."""
    for column in columns:
        for at in range(len(column) - 1):
            upper, lower = column[at], column[at + 1]
            gain = _pair_crossings(upper, lower, before, after, place) - _pair_crossings(
                lower, upper, before, after, place
            )
            if gain > 0 or (also_equal and not gain):
                column[at], column[at + 1] = lower, upper
        _set_places(column, place)


def _pair_crossings(upper: int, lower: int, before: Neighbors, after: Neighbors, place: list[float]) -> int:
    found = 0
    for beside in (before, after):
        ends = sorted(place[one] for one in beside[lower])
        found += sum(bisect_left(ends, place[one]) for one in beside[upper])
    return found


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


HEIGHT_SWEEPS = 8
TALL_COLUMN = 800  # pixels; in taller columns boxes are beside their highest neighbor
LANE_WEIGHT, BOX_WEIGHT = 4.0, 1.0  # of being beside neighbors


def vertical_positions(
    columns: Sequence[Sequence[int]], before: Neighbors, after: Neighbors, heights: Sequence[int], between: int
) -> list[int]:
    """Each node's middle, in pixels; columns keep their order.

    `heights` (0 for lanes) and `between` are even.
    """
    gaps = [
        [0, *(_gap(heights[one], heights[other], between) for one, other in itertools.pairwise(column))]
        for column in columns
    ]
    weights = [BOX_WEIGHT if height else LANE_WEIGHT for height in heights]
    middle = [0.0] * len(heights)
    for column, gap in zip(columns, gaps, strict=True):
        for node, below in zip(column, itertools.accumulate(gap), strict=True):
            middle[node] = below - sum(gap) / 2
    tallest = max(range(len(gaps)), key=lambda number: sum(gaps[number]), default=0)
    is_tall = bool(gaps) and sum(gaps[tallest]) > TALL_COLUMN

    def settle(number: int, *sides: Neighbors) -> None:
        column, wanted = columns[number], []
        for node in column:
            beside = [middle[one] for side in sides for one in side[node]]
            wanted.append((min(beside) if is_tall else sum(beside) / len(beside)) if beside else middle[node])
        placed = isotonic_positions(wanted, [weights[node] for node in column], gaps[number])
        for node, at in zip(column, placed, strict=True):
            middle[node] = at

    for sweep in range(HEIGHT_SWEEPS):
        numbers = range(len(columns))
        sides = (before, after) if sweep >= HEIGHT_SWEEPS - 2 else (before,) if sweep % 2 == 0 else (after,)
        for number in numbers if sweep % 2 == 0 else reversed(numbers):
            settle(number, *sides)
    if is_tall:
        for number in range(tallest + 1, len(columns)):
            settle(number, before)
        for number in reversed(range(tallest)):
            settle(number, after)
    return [math.floor(at + 1e-6) for at in middle]


def _gap(height: int, next_height: int, between: int) -> int:
    """Between two nodes' middles; lanes are closer."""
    return (height + next_height) // 2 + (between if height or next_height else between // 2)


def isotonic_positions(wanted: Sequence[float], weights: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """The places nearest to `wanted` (least squares) that keep the gaps.

    Isotonic regression by pooling adjacent violators.
    """
    shift, shifts = 0.0, []
    for gap in gaps:
        shift += gap
        shifts.append(shift)
    pools: list[tuple[float, float, int]] = []  # mean, weight, how many
    for want, weight, moved in zip(wanted, weights, shifts, strict=True):
        mean, heavy, count = want - moved, weight, 1
        while pools and pools[-1][0] > mean:
            other, more, many = pools.pop()
            mean = (mean * heavy + other * more) / (heavy + more)
            heavy, count = heavy + more, count + many
        pools.append((mean, heavy, count))
    flat = [mean for mean, _, count in pools for _ in range(count)]
    return [at + moved for at, moved in zip(flat, shifts, strict=True)]
