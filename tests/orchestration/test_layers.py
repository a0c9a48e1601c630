"""Where the boxes of a graph stand: whatever the graph, they can be read, and the lines lead from left to right."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.orchestration.pictures.heights import apart
from apps.orchestration.pictures.layers import Layout, Sizes, laid_out
from apps.orchestration.pictures.ordering import crossings

SIZES = Sizes()


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    """Graphs in which nothing depends on itself, in any order."""
    count = draw(st.integers(1, 25))
    needed = {
        f"s{number}": [f"s{one}" for one in draw(st.sets(st.integers(0, number - 1), max_size=4))] if number else []
        for number in range(count)
    }
    return {key: needed[key] for key in draw(st.permutations(list(needed)))}


def overlaps(layout: Layout) -> list[tuple[str, str]]:
    found = []
    places = list(layout.places.items())
    for number, (one, (x, y)) in enumerate(places):
        for other, (to_x, to_y) in places[number + 1 :]:
            if abs(x - to_x) < SIZES.width and abs(y - to_y) < SIZES.height:
                found.append((one, other))
    return found


def lines_that_cross(layout: Layout) -> int:
    """Pairs of pieces between the same columns of which one begins above the other and ends below it."""
    pieces = sorted({piece for line in layout.lines for piece in line.points})
    return sum(
        one[0][0] == other[0][0] and (one[0][1] - other[0][1]) * (one[1][1] - other[1][1]) < 0
        for number, one in enumerate(pieces)
        for other in pieces[number + 1 :]
    )


@settings(max_examples=150)
@given(graphs())
def test_no_boxes_overlap_and_every_line_leads_to_the_right(graph: dict[str, list[str]]) -> None:
    layout = laid_out(graph, SIZES)
    assert overlaps(layout) == []
    assert len(layout.lines) == sum(map(len, graph.values()))
    for line in layout.lines:
        assert line.begins in graph[line.ends]
        for (x, _), (to_x, _) in line.points:
            assert x < to_x
        x, y = layout.places[line.begins]
        assert line.points[0][0] == (x + SIZES.width, y + SIZES.height // 2)
        x, y = layout.places[line.ends]
        assert line.points[-1][1] == (x, y + SIZES.height // 2)


@settings(max_examples=100)
@given(graphs())
def test_no_line_runs_through_a_box(graph: dict[str, list[str]]) -> None:
    layout = laid_out(graph, SIZES)
    for line in layout.lines:
        for (_, (x, y)), ((to_x, to_y), _) in pairwise(line.points):
            assert (x + SIZES.width, y) == (to_x, to_y), "a lane is level"
            for left, top in layout.places.values():
                assert left != x or not top < y < top + SIZES.height


@settings(max_examples=50)
@given(graphs())
def test_everything_is_within_the_picture(graph: dict[str, list[str]]) -> None:
    layout = laid_out(graph, SIZES)
    for x, y in layout.places.values():
        assert SIZES.margin <= x <= layout.width - SIZES.width - SIZES.margin
        assert SIZES.margin <= y <= layout.height - SIZES.height - SIZES.margin
    for line in layout.lines:
        for piece in line.points:
            assert all(0 <= x <= layout.width and 0 <= y <= layout.height for x, y in piece)


@settings(max_examples=50)
@given(graphs())
def test_the_same_graph_is_drawn_the_same(graph: dict[str, list[str]]) -> None:
    assert laid_out(graph, SIZES) == laid_out({key: list(needed) for key, needed in graph.items()}, SIZES)


def test_nothing_crosses_that_need_not() -> None:
    tree = {
        "a": [],
        "b": ["a"],
        "c": ["a"],
        "d": ["c"],
        "e": ["b"],
        "f": ["b"],
        "g": ["c"],
        "h": ["d", "g"],
        "i": ["h"],
    }
    assert lines_that_cross(laid_out(tree, SIZES)) == 0
    ladder = {"z": ["y", "x"], "y": ["w"], "x": ["v"], "w": ["u"], "v": ["u"], "u": [], "end": ["z", "w"]}
    assert lines_that_cross(laid_out(ladder, SIZES)) == 0


def test_what_must_cross_is_counted_once() -> None:
    both = {"a": [], "b": [], "c": ["a", "b"], "d": ["a", "b"]}
    assert lines_that_cross(laid_out(both, SIZES)) == 1
    assert crossings([[0, 1], [2, 3]], [[2, 3], [2, 3], [], []]) == 1


def test_a_chain_is_level() -> None:
    layout = laid_out({"a": [], "b": ["a"], "c": ["b"]}, SIZES)
    assert {y for _, y in layout.places.values()} == {SIZES.margin}


def test_what_many_lie_between_begins_and_ends_where_reading_does() -> None:
    many = {f"m{number}": ["begin"] for number in range(60)}
    layout = laid_out({"begin": [], **many, "end": list(many)}, SIZES)
    first = min(layout.places[key][1] for key in many)
    assert first - SIZES.height <= layout.places["begin"][1] <= first
    assert layout.places["begin"][1] == layout.places["end"][1]


def test_what_cannot_be_is_drawn_as_far_as_it_can() -> None:
    layout = laid_out({"a": ["b", "nobody", "a"], "b": ["a"], "c": ["a", "a"]}, SIZES)
    assert set(layout.places) == {"a", "b", "c"}
    assert len(layout.lines) == 2
    assert laid_out({}, SIZES).width == 0


def test_two_thousand_boxes_have_their_places() -> None:
    graph = {f"s{number}": [f"s{number * 7 % 13 + number - 20}"] if number > 20 else [] for number in range(2000)}
    layout = laid_out(graph, SIZES)
    assert len(layout.places) == 2000
    assert len(set(layout.places.values())) == 2000


def test_places_are_as_near_to_those_wanted_as_the_gaps_allow() -> None:
    assert apart([0, 0, 100], [1, 1, 1], [0, 10, 10]) == [-5, 5, 100]
    assert apart([0, 0], [1, 3], [0, 8]) == [-6, 2]
