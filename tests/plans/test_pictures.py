"""Pictures of plans are readable, also to screen readers and by the keyboard."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from itertools import combinations, pairwise
from xml.etree import ElementTree

from django.template.loader import render_to_string
from hypothesis import given
from hypothesis import strategies as st

from apps.plans.models import Step
from apps.plans.pictures import LOOKS, Spell, StepBox, draw_gantt, draw_graph, fold_fan_outs
from parley.faces.drawing.layout import Sizes, lay_out

NOON = datetime.datetime(2026, 5, 4, 12, tzinfo=datetime.UTC)
HOSTILE = '<script>alert("x")</script> & ' + "long " * 50


def after(seconds: float) -> datetime.datetime:
    return NOON + datetime.timedelta(seconds=seconds)


def html_of(*boxes: StepBox) -> str:
    return render_to_string("plans/_graph.html", {"graph": draw_graph(boxes)})


def rows_of(*rows: StepBox) -> str:
    return render_to_string("plans/_gantt.html", {"gantt": draw_gantt(rows, after(100))})


def picture(html: str) -> ElementTree.Element:
    pictures = re.findall(r'<svg class="(?:graph|timeline)[^"]*".*?</svg>\s*</div>', html, re.DOTALL)
    return ElementTree.fromstring(re.sub(r"\s*</div>$", "", pictures[0]))


def many(states: Sequence[str], key: str = "read") -> list[StepBox]:
    return [
        StepBox(
            f"{key}-{number}", "Read it", state, "reader", href=f"/tasks/{number}", depends_on=("list",), fan_out=key
        )
        for number, state in enumerate(states)
    ]


def test_every_state_has_a_sign_and_a_word():
    assert set(LOOKS) == set(Step.State.values)
    for state, look in LOOKS.items():
        html = html_of(StepBox("a", state=state, href="/a"))
        assert f"#{look.sign}" in html
        assert f">{look.word}<" in html
    assert "Dreaming" in html_of(StepBox("a", state="dreaming"))


def test_somebodys_words_are_text_shortened_and_whole():
    html = html_of(StepBox("a", HOSTILE, "running", HOSTILE, question=HOSTILE, href="/t", note=HOSTILE))
    html += rows_of(StepBox("a", HOSTILE, "asking", HOSTILE, spells=[Spell("asking", NOON, question=HOSTILE)]))
    assert "<script" not in html
    assert not re.search(r"""\s(style|on\w+)=""", html)
    step = picture(html).find("a")
    assert HOSTILE in step.find("title").text
    assert len(step.find("svg/text").text) < 40


def test_a_large_fan_out_is_one_box():
    def fan(states: list[str]) -> list[StepBox]:
        return [StepBox("list"), *many(states), StepBox("end", depends_on=("read",))]

    few = fold_fan_outs(fan(["done"] * 6))
    assert (len(few), few[-1].depends_on) == (8, tuple(f"read-{number}" for number in range(6)))
    states = ["done"] * 420 + ["running"] * 70 + ["failed"] * 10
    [_, box, end] = fold_fan_outs(fan(states))
    assert (box.key, box.counts, box.depends_on) == ("read", {"done": 420, "running": 70, "failed": 10}, ("list",))
    assert (box.state, box.href, end.depends_on) == ("running", "/tasks/420", ("read",))
    html = html_of(*fan(states))
    assert "500 items: 420 done, 70 working, 10 failed" in html
    assert len(picture(html).findall("a")) == 1
    second = [StepBox(f"sum-{n}", depends_on=(f"read-{n}",), fan_out="sum") for n in range(9)]
    both = fold_fan_outs([*many(["done"] * 9), *second])
    assert [(one.key, one.depends_on) for one in both] == [("read", ("list",)), ("sum", ("read",))]
    asking = StepBox("read-9", "Read it", "asking", question="How?", href="/ask", fan_out="read")
    [box] = fold_fan_outs([*many(["running"] * 9), asking])
    assert (box.state, box.question, box.asking, box.href) == ("asking", "How?", 1, "/ask")
    spells = [[Spell("done", after(n), after(n + 10))] for n in range(99)]
    items = [StepBox(f"r-{n}", "", "done", fan_out="r", spells=spell) for n, spell in enumerate(spells)]
    [row] = draw_gantt(items, after(200)).rows
    assert (row.counted, row.bars) == ("99 items, at most 10 at once", [])


def test_days_of_waiting_leave_room_for_work():
    first = [Spell("done", after(0), after(60)), Spell("asking", after(60), after(200_000))]
    rows = [StepBox("a", spells=first), StepBox("b", spells=[Spell("done", after(200_000), after(200_060))])]
    drawn = draw_gantt(rows, after(200_060), is_over=True)
    assert drawn.rows[0].bars[0].width > 30
    assert [words for _, words in drawn.cuts] == ["2 days 7 h"]


# The layout of any graph: edges lead from left to right

SIZES = Sizes()


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    count = draw(st.integers(1, 25))
    needed = {
        f"s{number}": [f"s{one}" for one in draw(st.sets(st.integers(0, number - 1), max_size=4))] if number else []
        for number in range(count)
    }
    return {key: needed[key] for key in draw(st.permutations(list(needed)))}


@given(graphs())
def test_boxes_stand_apart_and_lines_lead_right(graph):
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


def test_impossible_and_large_graphs_are_drawn():
    layout = lay_out({"a": ["b", "nobody", "a"], "b": ["a"], "c": ["a", "a"]}, SIZES)
    assert (set(layout.places), len(layout.lines)) == ({"a", "b", "c"}, 2)
    assert lay_out({}, SIZES).width == 0
    graph = {f"s{number}": [f"s{number * 7 % 13 + number - 20}"] if number > 20 else [] for number in range(2000)}
    assert len(set(lay_out(graph, SIZES).places.values())) == 2000
