"""What the pictures of a plan say: to eyes, to screen readers, to the keyboard."""

from __future__ import annotations

import datetime
import itertools
import re
import time
from collections.abc import Callable, Sequence
from xml.etree import ElementTree

import pytest
from django.template.loader import render_to_string

from apps.orchestration.models import Step
from apps.orchestration.pictures import gantt, graph
from apps.orchestration.pictures.folding import StepBox, folded
from apps.orchestration.pictures.gantt import Spell, StepRow
from apps.orchestration.pictures.looks import LOOKS, shortened
from apps.orchestration.pictures.ticks import ticks
from benchmarks import plans
from console.scales import Scale

NOON = datetime.datetime(2026, 5, 4, 12, tzinfo=datetime.UTC)
HOSTILE = '<script>alert("x")</script> & ' + "long " * 50


def after(seconds: float) -> datetime.datetime:
    return NOON + datetime.timedelta(seconds=seconds)


def html_of(*boxes: StepBox) -> str:
    return render_to_string("orchestration/_graph.html", {"graph": graph.drawn(boxes)})


def rows_of(*rows: StepRow, now: float = 100) -> str:
    return render_to_string("orchestration/_gantt.html", {"gantt": gantt.in_time(rows, after(now))})


def picture(html: str, which: int = 0) -> ElementTree.Element:
    """A picture within the page, read as what it must be: well-formed."""
    pictures = re.findall(r'<svg class="(?:graph|timeline)[^"]*".*?</svg>\s*</div>', html, re.DOTALL)
    return ElementTree.fromstring(re.sub(r"\s*</div>$", "", pictures[which]))


def many(states: Sequence[str], key: str = "read") -> list[StepBox]:
    return [
        StepBox(f"{key}-{number}", "Read it", state, "reader", href=f"/tasks/{number}", depends_on=("list",), of=key)
        for number, state in enumerate(states)
    ]


def test_every_state_has_a_sign_and_a_word() -> None:
    assert set(LOOKS) == set(Step.State.values)
    for state, look in LOOKS.items():
        html = html_of(StepBox("a", state=state, href="/a"))
        assert f"#{look.sign}" in html
        assert f">{look.word}<" in html


def test_a_state_that_is_not_known_breaks_nothing() -> None:
    assert "Dreaming" in html_of(StepBox("a", state="dreaming"))


def test_a_step_says_all_of_itself_and_leads_to_its_task() -> None:
    took = datetime.timedelta(seconds=184)
    step = StepBox("a", "Search", "failed", "librarian", took, href="/tasks/1", round=3, note="Nothing was found.")
    [link] = picture(html_of(step)).findall("a")
    assert link.attrib["href"] == "/tasks/1"
    assert link.attrib["aria-label"] == (
        "Search, by librarian, Failed · round 3, 3 min 4 s, Nothing was found."
    )  # fmt: skip
    assert link.attrib["id"] == "plan-step-a"


def test_a_step_without_a_task_is_no_link() -> None:
    drawn = picture(html_of(StepBox("a", "Search")))
    assert drawn.findall("a") == []
    assert drawn.find("g").attrib["aria-label"] == "Search"


def test_who_is_asked_sees_where() -> None:
    html = html_of(StepBox("a", "Upload", "asking", question="Which file?", href="/t", is_person=True))
    assert 'class="asked"' in html
    assert "#person" in html
    assert "asks: Which file?" in html
    assert 'class="asked"' not in html_of(StepBox("a", "Upload", "running", href="/t"))


def test_somebodys_words_are_text_shortened_and_whole() -> None:
    html = html_of(StepBox("a", HOSTILE, "running", HOSTILE, question=HOSTILE, href="/t", note=HOSTILE))
    html += rows_of(StepRow("a", HOSTILE, "asking", HOSTILE, "/t", [Spell("asking", NOON, question=HOSTILE)]))
    assert "<script" not in html
    step = picture(html).find("a")
    assert HOSTILE in step.find("title").text
    assert len(step.find("svg/text").text) < 40
    assert step.find("svg/text").text.endswith("…")


def test_nothing_is_styled_or_scripted_inline() -> None:
    html = html_of(*plans.boxes(20)) + rows_of(*plans.rows(20))
    assert not re.search(r"""\s(style|on\w+)=""", html)
    assert "javascript:" not in html


def test_lines_lead_from_a_step_to_those_that_need_it() -> None:
    html = html_of(
        StepBox("a", "First"), StepBox("b", "Second", depends_on=("a",)), StepBox("c", depends_on=("a", "b"))
    )
    told = [path.find("title").text for path in picture(html).findall("path[@marker-end]")]
    assert sorted(told) == ["First, then Second", "First, then c", "Second, then c"]


def test_the_table_says_what_the_picture_does() -> None:
    html = html_of(StepBox("a", "First", "done", "reader"), StepBox("b", "Second", "waiting", depends_on=("a",)))
    table = ElementTree.fromstring(html[html.index("<table>") : html.index("</table>") + 8])
    cells = [["".join(cell.itertext()) for cell in row] for row in table.findall("tbody/tr")]
    assert cells == [["First", "reader", "Done", "–", "–", ""], ["Second", "–", "Waits", "–", "First", ""]]


@pytest.mark.parametrize("count", [3, 60])
def test_a_definition_has_no_states_but_says_who_does_what(count: int) -> None:
    html = html_of(*[StepBox(f"s{number}", "Search", agent="librarian") for number in range(count)])
    assert html.count(">librarian</text>") == count
    assert "Legend" not in html
    assert "#none" not in html


# Fan-outs


def test_a_fan_out_of_many_is_one_box_with_its_counts() -> None:
    states = ["done"] * 420 + ["running"] * 70 + ["failed"] * 10
    [_, box, end] = folded([StepBox("list"), *many(states), StepBox("end", depends_on=("read",))])
    assert (box.key, box.counts, box.depends_on) == ("read", {"done": 420, "running": 70, "failed": 10}, ("list",))
    assert (box.state, box.href, end.depends_on) == ("running", "/tasks/420", ("read",))
    html = html_of(StepBox("list"), *many(states), StepBox("end", depends_on=("read",)))
    assert "420 of 500 done" in html
    assert "500 items: 420 done, 70 working, 10 failed" in html
    assert len(picture(html).findall("a")) == 1


def test_a_fan_out_of_few_is_drawn_one_by_one() -> None:
    boxes = folded([StepBox("list"), *many(["done"] * 6), StepBox("end", depends_on=("read",))])
    assert len(boxes) == 8
    assert boxes[-1].depends_on == tuple(f"read-{number}" for number in range(6))


def test_items_of_folded_fan_outs_that_need_each_other_are_one_line() -> None:
    second = [StepBox(f"sum-{n}", depends_on=(f"read-{n}",), of="sum") for n in range(9)]
    boxes = folded([*many(["done"] * 9), *second])
    assert [(box.key, box.depends_on) for box in boxes] == [("read", ("list",)), ("sum", ("read",))]


@pytest.mark.parametrize("counts", [{"done": 1999, "failed": 1}, {"waiting": 7}, {"starting": 1, "running": 1}, {}])
def test_every_part_of_a_bar_can_be_seen_and_it_fills_the_box(counts: dict[str, int]) -> None:
    [box] = graph.drawn([StepBox("a", counts=counts)]).boxes
    shares = box.shares
    assert all(share.width >= 4 for share in shares)
    assert sum(share.width for share in shares) == (box.sizes.width - 24 if counts else 0)


def test_an_item_that_asks_is_seen_although_it_is_folded() -> None:
    items = [*many(["running"] * 9), StepBox("read-9", "Read it", "asking", question="How?", href="/ask", of="read")]
    [box] = folded(items)
    assert (box.state, box.question, box.asking, box.href) == ("asking", "How?", 1, "/ask")


# In time


def test_a_bar_says_which_attempt_it_was_and_how_it_ended() -> None:
    html = rows_of(
        StepRow("a", "Search", "running", "librarian", "/t", [
            Spell("failed", after(0), after(10)), Spell("running", after(20), attempt=2),
        ])
    )  # fmt: skip
    assert 'aria-label="Search, Failed, 10 s"' in html
    assert 'aria-label="Search, Working, attempt 2, still going on"' in html


def test_time_in_which_somebody_was_asked_is_hatched_and_told() -> None:
    html = rows_of(StepRow("a", "Upload", "asking", "", "/t", [Spell("asking", after(0), question="Which file?")]))
    assert 'fill="url(#gantt-hatch)"' in html
    assert "Asks, still going on, Which file?" in html
    assert 'fill="url(#gantt-hatch)"' not in rows_of(StepRow("a", spells=[Spell("running", NOON)]))


def test_days_of_waiting_for_a_person_leave_room_for_the_work() -> None:
    drawn = gantt.in_time([
        StepRow("a", spells=[Spell("done", after(0), after(60)), Spell("asking", after(60), after(200_000))]),
        StepRow("b", spells=[Spell("done", after(200_000), after(200_060))]),
    ], after(200_060), is_over=True)  # fmt: skip
    assert drawn.rows[0].bars[0].width > 30
    assert [words for _, words in drawn.cuts] == ["2 days 7 h"]
    assert drawn.ticks[-1].label.startswith("2 days")


def test_a_fan_out_of_many_is_one_row_that_says_how_many_ran_at_once() -> None:
    items = [
        StepRow(f"r-{n}", "Read", "done", of="r", spells=[Spell("done", after(n), after(n + 10))]) for n in range(99)
    ]
    [row] = gantt.in_time(items, after(200)).rows
    assert row.counted == "99 items, at most 10 at once"
    assert row.profile.startswith("M0 100")
    assert row.bars == []


def test_bars_are_within_the_picture_and_rows_below_each_other() -> None:
    drawn = gantt.in_time(plans.rows(50), NOON)
    assert [row.y for row in drawn.rows] == [number * gantt.ROW for number in range(50)]
    for row in drawn.rows:
        assert all(bar.left >= 0 and bar.left + bar.width <= 100.01 for bar in row.bars)


def test_what_nobody_worked_at_yet_is_drawn_too() -> None:
    assert "Search" in rows_of(StepRow("a", "Search", "waiting"))
    assert "Nobody has worked at it yet." in rows_of()


@pytest.mark.parametrize("seconds", [0, 0.3, 7, 95, 4000, 90_000, 5_000_000])
def test_an_axis_has_a_few_round_times_that_do_not_touch(seconds: float) -> None:
    span = (NOON, after(seconds))
    found = ticks(Scale(span, [span]))
    assert found[0].label == "0"
    assert 1 <= len(found) <= 10
    assert seconds == 0 or len(found) >= 3
    assert all(later.place - one.place >= 10 for one, later in itertools.pairwise(found))


def test_two_hundred_steps_are_drawn_in_half_a_second_of_work() -> None:
    boxes, rows = plans.boxes(200), plans.rows(200)
    assert min(seconds(lambda: html_of(*boxes)) for _ in range(3)) < 0.5
    assert min(seconds(lambda: rows_of(*rows)) for _ in range(3)) < 0.5


def seconds(draw: Callable[[], str]) -> float:
    """Of the processor, so that what else the machine does is not counted."""
    began = time.process_time()
    draw()
    return time.process_time() - began


# Words


def test_words_are_cut_to_their_room() -> None:
    assert shortened("short", 20) == "short"
    assert shortened("a very long title of a step", 12).endswith("…")
    assert len(shortened("漢" * 40, 20)) < len(shortened("a" * 40, 20))


@pytest.mark.parametrize("count", [1, 200])
def test_the_same_steps_are_drawn_the_same(count: int) -> None:
    assert html_of(*plans.boxes(count)) == html_of(*plans.boxes(count))
    assert rows_of(*plans.rows(count)) == rows_of(*plans.rows(count))
