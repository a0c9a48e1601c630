"""Pictures of plans are accessible to screen readers and the keyboard."""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Sequence
from xml.etree import ElementTree

from django.template.loader import render_to_string

from apps.plans.models import Step
from apps.plans.pictures import LOOKS, Spell, StepBox, StepRow, draw_gantt, draw_graph, fold_fan_outs
from console.drawing.axis import TimeAxis, axis_ticks

NOON = datetime.datetime(2026, 5, 4, 12, tzinfo=datetime.UTC)
HOSTILE = '<script>alert("x")</script> & ' + "long " * 50


def after(seconds: float) -> datetime.datetime:
    return NOON + datetime.timedelta(seconds=seconds)


def html_of(*boxes: StepBox) -> str:
    return render_to_string("plans/_graph.html", {"graph": draw_graph(boxes)})


def rows_of(*rows: StepRow) -> str:
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


def test_every_state_has_a_sign_and_a_word_and_one_that_is_not_known_breaks_nothing() -> None:
    assert set(LOOKS) == set(Step.State.values)
    for state, look in LOOKS.items():
        html = html_of(StepBox("a", state=state, href="/a"))
        assert f"#{look.sign}" in html
        assert f">{look.word}<" in html
    assert "Dreaming" in html_of(StepBox("a", state="dreaming"))


def test_a_step_says_all_of_itself_and_leads_to_its_task_if_it_has_one() -> None:
    took = datetime.timedelta(seconds=184)
    step = StepBox("a", "Search", "failed", "librarian", took, href="/tasks/1", round=3, note="Nothing was found.")
    [link] = picture(html_of(step)).findall("a")
    assert (link.attrib["href"], link.attrib["id"]) == ("/tasks/1", "plan-step-a")
    assert link.attrib["aria-label"] == "Search, by librarian, Failed · round 3, 3 min 4 s, Nothing was found."
    drawn = picture(html_of(StepBox("a", "Search")))
    assert drawn.findall("a") == []
    assert drawn.find("g").attrib["aria-label"] == "Search"
    assert "asks: Which file?" in html_of(StepBox("a", "Upload", "asking", question="Which file?", href="/t"))


def test_somebodys_words_are_text_shortened_and_whole() -> None:
    html = html_of(StepBox("a", HOSTILE, "running", HOSTILE, question=HOSTILE, href="/t", note=HOSTILE))
    html += rows_of(StepRow("a", HOSTILE, "asking", HOSTILE, "/t", [Spell("asking", NOON, question=HOSTILE)]))
    assert "<script" not in html
    assert not re.search(r"""\s(style|on\w+)=""", html)
    step = picture(html).find("a")
    assert HOSTILE in step.find("title").text
    assert len(step.find("svg/text").text) < 40


def test_lines_and_the_table_say_what_needs_what() -> None:
    html = html_of(
        StepBox("a", "First", "done", "reader"),
        StepBox("b", "Second", "waiting", depends_on=("a",)),
        StepBox("c", depends_on=("a", "b")),
    )
    told = [path.find("title").text for path in picture(html).findall("path[@marker-end]")]
    assert sorted(told) == ["First, then Second", "First, then c", "Second, then c"]
    table = ElementTree.fromstring(html[html.index("<table>") : html.index("</table>") + 8])
    cells = [["".join(cell.itertext()) for cell in row] for row in table.findall("tbody/tr")]
    assert cells[:2] == [["First", "reader", "Done", "–", "–", ""], ["Second", "–", "Waits", "–", "First", ""]]


def test_a_fan_out_of_few_is_drawn_one_by_one_and_of_many_as_one_box_with_its_counts() -> None:
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


def test_an_item_that_asks_is_seen_although_it_is_folded() -> None:
    items = [
        *many(["running"] * 9),
        StepBox("read-9", "Read it", "asking", question="How?", href="/ask", fan_out="read"),
    ]
    [box] = fold_fan_outs(items)
    assert (box.state, box.question, box.asking, box.href) == ("asking", "How?", 1, "/ask")


def test_a_bar_says_which_attempt_it_was_how_it_ended_and_what_was_asked() -> None:
    spells = [Spell("failed", after(0), after(10)), Spell("running", after(20), attempt=2)]
    html = rows_of(StepRow("a", "Search", "running", "librarian", "/t", spells))
    assert 'aria-label="Search, Failed, 10 s"' in html
    assert 'aria-label="Search, Working, attempt 2, still going on"' in html
    asks = [Spell("asking", after(0), question="Which file?")]
    assert "Asks, still going on, Which file?" in rows_of(StepRow("a", "Upload", "asking", "", "/t", asks))
    assert "Search" in rows_of(StepRow("a", "Search", "waiting"))
    assert "Nobody has worked at it yet." in rows_of()


def test_days_of_waiting_for_a_person_leave_room_for_the_work() -> None:
    first = [Spell("done", after(0), after(60)), Spell("asking", after(60), after(200_000))]
    rows = [StepRow("a", spells=first), StepRow("b", spells=[Spell("done", after(200_000), after(200_060))])]
    drawn = draw_gantt(rows, after(200_060), is_over=True)
    assert drawn.rows[0].bars[0].width > 30
    assert [words for _, words in drawn.cuts] == ["2 days 7 h"]


def test_a_fan_out_of_many_is_one_row_that_says_how_many_ran_at_once() -> None:
    items = [
        StepRow(f"r-{n}", "", "done", fan_out="r", spells=[Spell("done", after(n), after(n + 10))]) for n in range(99)
    ]
    [row] = draw_gantt(items, after(200)).rows
    assert (row.counted, row.bars) == ("99 items, at most 10 at once", [])


def test_an_axis_has_a_few_round_times_that_do_not_touch() -> None:
    for seconds in (0, 0.3, 7, 95, 4000, 90_000, 5_000_000):
        span = (NOON, after(seconds))
        found = axis_ticks(TimeAxis(span, [span]))
        assert found[0].label == "0"
        assert (3 if seconds else 1) <= len(found) <= 10
        assert all(later.place - one.place >= 10 for one, later in itertools.pairwise(found))
