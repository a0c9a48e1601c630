"""Where boxes stand in a picture of what came of what: in layers from left to right, and the curves between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Protocol

WIDTH, HEIGHT, ACROSS, DOWN = 208, 56, 72, 20  # of a box, and between boxes; in pixels
MARGIN = 8


class Box(Protocol):
    """Its upper left corner, in pixels."""

    x: int
    y: int


def curve(begins: Box, ends: Box) -> str:
    """The path of a curve from the right of one box to the left of the other, or around them."""
    x, y = begins.x + WIDTH, begins.y + HEIGHT // 2
    to_x, to_y = ends.x, ends.y + HEIGHT // 2
    bend = max((to_x - x) // 2, ACROSS // 2)
    return f"M{x} {y} C{x + bend} {y} {to_x - bend} {to_y} {to_x} {to_y}"


def lay_out(boxes: Sequence[Box], links: Iterable[tuple[Box, Box]], *, late: bool = False) -> tuple[int, int]:
    """Give each box its place, to the right of all from which links lead to it. Says how large the picture is.

    Within a layer a box is at the height of those before it, and otherwise in the order given. `late`: what nothing
    leads to stands just before what it leads to, and not at the far left.
    """
    known = [(id(one), id(other)) for one, other in links]
    layer = _layers([id(box) for box in boxes], known)
    if late:
        _bring_near(layer, known)
    columns: dict[int, list[Box]] = defaultdict(list)
    for box in boxes:
        columns[layer[id(box)]].append(box)
    most = max(map(len, columns.values()), default=0)
    by_key, before = {id(box): box for box in boxes}, defaultdict[int, list[int]](list)
    for one, other in known:
        before[other].append(one)
    for number, column in enumerate(columns[key] for key in sorted(columns)):
        column.sort(key=lambda box: _mean([by_key[one].y for one in before[id(box)]]))
        top = MARGIN + (most - len(column)) * (HEIGHT + DOWN) // 2
        for row, box in enumerate(column):
            box.x, box.y = MARGIN + number * (WIDTH + ACROSS), top + row * (HEIGHT + DOWN)
    return 2 * MARGIN + len(columns) * (WIDTH + ACROSS) - ACROSS, 2 * MARGIN + most * (HEIGHT + DOWN) - DOWN


def _layers(boxes: list[int], links: list[tuple[int, int]]) -> dict[int, int]:
    layer = dict.fromkeys(boxes, 0)
    for _ in boxes:  # as many rounds as a path can be long: what leads to itself in a circle ends here too
        moved = False
        for one, other in links:
            least = layer[one] + 1
            if layer[other] < least <= len(boxes):
                layer[other], moved = least, True
        if not moved:
            break
    return layer


def _bring_near(layer: dict[int, int], links: list[tuple[int, int]]) -> None:
    ends = {other for _, other in links}
    nearest: dict[int, int] = {}
    for one, other in links:
        if one not in ends:
            nearest[one] = min(nearest.get(one, layer[other]), layer[other])
    for box, next_layer in nearest.items():
        layer[box] = max(next_layer - 1, 0)


def _mean(values: list[int]) -> float:
    return sum(values) / len(values) if values else 0.0
