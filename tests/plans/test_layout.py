"""The layout of any graph is readable, with edges from left to right."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from console.drawing.layout import Layout, Link, Sizes, count_crossings, draw_edges, isotonic_positions, lay_out

SIZES = Sizes()


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    count = draw(st.integers(1, 25))
    needed = {
        f"s{number}": [f"s{one}" for one in draw(st.sets(st.integers(0, number - 1), max_size=4))] if number else []
        for number in range(count)
    }
    return {key: needed[key] for key in draw(st.permutations(list(needed)))}


def lines_that_cross(layout: Layout[str]) -> int:
    """Pairs of edges between the same columns that cross."""
    pieces = sorted({piece for line in layout.lines for piece in line.segments})
    return sum(
        one[0][0] == other[0][0] and (one[0][1] - other[0][1]) * (one[1][1] - other[1][1]) < 0
        for one, other in combinations(pieces, 2)
    )


@given(graphs())
def test_boxes_stand_apart_within_the_picture_and_lines_lead_past_them_to_the_right(
    graph: dict[str, list[str]],
) -> None:
    layout = lay_out(graph, SIZES)
    for (x, y), (to_x, to_y) in combinations(layout.places.values(), 2):
        assert abs(x - to_x) >= SIZES.width or abs(y - to_y) >= SIZES.height
    for x, y in layout.places.values():
        assert SIZES.margin <= x <= layout.width - SIZES.width - SIZES.margin
        assert SIZES.margin <= y <= layout.height - SIZES.height - SIZES.margin
    assert len(layout.lines) == sum(map(len, graph.values()))
    for line in layout.lines:
        assert line.begins in graph[line.ends]
        for (x, y), (to_x, to_y) in line.segments:
            assert 0 <= x < to_x <= layout.width
            assert 0 <= min(y, to_y) <= max(y, to_y) <= layout.height
        x, y = layout.places[line.begins]
        assert line.segments[0][0] == (x + SIZES.width, y + SIZES.height // 2)
        x, y = layout.places[line.ends]
        assert line.segments[-1][1] == (x, y + SIZES.height // 2)
        for (_, (x, y)), ((to_x, to_y), _) in pairwise(line.segments):
            assert (x + SIZES.width, y) == (to_x, to_y), "a lane is level"
            for left, top in layout.places.values():
                assert left != x or not top < y < top + SIZES.height
    assert layout == lay_out({key: list(needed) for key, needed in graph.items()}, SIZES), "the same is drawn the same"


def test_nothing_crosses_that_need_not_and_what_must_is_counted_once() -> None:
    tree: dict[str, list[str]] = {
        key: list(of) for key, of in zip("abcdefghi", ["", "a", "a", "c", "b", "b", "c", "dg", "h"], strict=True)
    }
    assert lines_that_cross(lay_out(tree, SIZES)) == 0
    ladder = {"z": ["y", "x"], "y": ["w"], "x": ["v"], "w": ["u"], "v": ["u"], "u": [], "end": ["z", "w"]}
    assert lines_that_cross(lay_out(ladder, SIZES)) == 0
    both: dict[str, list[str]] = {"a": [], "b": [], "c": ["a", "b"], "d": ["a", "b"]}
    assert lines_that_cross(lay_out(both, SIZES)) == 1
    assert count_crossings([[0, 1], [2, 3]], [[2, 3], [2, 3], [], []]) == 1


def test_a_chain_is_level_and_what_many_lie_between_begins_and_ends_where_reading_does() -> None:
    layout = lay_out({"a": [], "b": ["a"], "c": ["b"]}, SIZES)
    assert {y for _, y in layout.places.values()} == {SIZES.margin}
    between = {f"m{number}": ["begin"] for number in range(60)}
    layout = lay_out({"begin": [], **between, "end": list(between)}, SIZES)
    first = min(layout.places[key][1] for key in between)
    assert first - SIZES.height <= layout.places["begin"][1] <= first
    assert layout.places["begin"][1] == layout.places["end"][1]
    assert isotonic_positions([0, 0, 100], [1, 1, 1], [0, 10, 10]) == [-5, 5, 100]
    assert isotonic_positions([0, 0], [1, 3], [0, 8]) == [-6, 2]


def test_what_cannot_be_is_drawn_as_far_as_it_can_and_so_are_two_thousand_boxes() -> None:
    layout = lay_out({"a": ["b", "nobody", "a"], "b": ["a"], "c": ["a", "a"]}, SIZES)
    assert (set(layout.places), len(layout.lines)) == ({"a", "b", "c"}, 2)
    assert lay_out({}, SIZES).width == 0
    graph = {f"s{number}": [f"s{number * 7 % 13 + number - 20}"] if number > 20 else [] for number in range(2000)}
    assert len(set(lay_out(graph, SIZES).places.values())) == 2000


def test_what_lines_share_is_drawn_once_and_dashed_if_all_of_them_are_and_a_circle_is_closed() -> None:
    layout = lay_out({"a": [], "b": ["a"], "c": ["a", "b"], "d": ["a", "c"]}, SIZES)
    called, referred = Link("called for"), Link("is referred to by", is_reference=True)
    links = {("a", "b"): called, ("b", "c"): called, ("c", "d"): called, ("a", "c"): referred, ("a", "d"): referred}
    *edges, back = draw_edges(layout, {**links, ("d", "a"): referred, ("d", "d"): called, ("d", "nobody"): called})
    assert sorted(edge.is_reference for edge in edges if edge.words) == [False, False, False, True, True]
    assert [edge.is_reference for edge in edges if not edge.words] == [True, True]
    assert (back.words, back.is_reference) == ("is referred to by", True)
    mixed = draw_edges(layout, {**links, ("a", "d"): called})
    assert [edge.is_reference for edge in mixed if not edge.words] == [False, False], "a solid line is solid all along"
