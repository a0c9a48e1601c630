"""Built-in tools: results, and refusals in a sentence."""

import datetime
import re

import pytest

from agentkit import Message, testing
from apps.features.model_agents.tools import calculate, current_time, read_file

RESULTS = [
    ("1 + 2 * 3", "7"),
    ("(3 + 4.5) * 2 ** 10", "7680.0"),
    ("-7 // 2 + 7 % 4", "-1"),
    ("round(sqrt(2) ** 2, 9)", "2.0"),
    ("round(2.5)", "2"),
    ("max(1, 2, min(5, 3))", "3"),
    ("2 ** 100", str(2**100)),
    ("2 ** -1", "0.5"),
    (" 12_000 / 3 ", "4000.0"),
    ("round(cos(pi), 3)", "-1.0"),
    ("round(5, -1000000000)", "5"),
]
REFUSALS = [
    ("", "This is no arithmetic expression"),
    ("two plus two", "This is no arithmetic expression"),
    ("(" * 300, "This is no arithmetic expression"),
    ("1" * 501, "longer than 500 characters"),
    ("1 / 0", "cannot be calculated: division by zero"),
    ("max()", "cannot be calculated"),
    ("sqrt(-1)", "cannot be calculated"),
    ("(-8) ** 0.5", "no real number"),
    ("9 ** 9 ** 9", "too large"),
    ("2 ** 4000 * 2 ** 4000", "too large"),
    ("1e308 * 10", "too large"),
    ("10.0 ** 400", "too large"),
    ("exp(1000)", "too large"),
    ("__import__('os')", "nothing that can be calculated"),
    ("(1).__class__", "nothing that can be calculated"),
    ("[1, 2]", "nothing that can be calculated"),
    ("True", "nothing that can be calculated"),
    ("round(number=2)", "nothing that can be calculated"),
    ("1 if 2 else 3", "nothing that can be calculated"),
    ("'a' * 100", "nothing that can be calculated"),
]


def test_arithmetic_is_worked_out():
    assert [(expression, calculate(expression)) for expression, _ in RESULTS] == RESULTS


def test_what_is_no_arithmetic_is_refused_in_a_sentence(subtests):
    for expression, sentence in REFUSALS:
        with subtests.test(expression), pytest.raises(ValueError, match=sentence):
            calculate(expression)


def test_the_time_is_told_with_the_day_of_the_week_in_the_zone_that_is_asked_for():
    told = current_time("Asia/Tokyo")
    day, stamp, zone = re.fullmatch(r"(\w+), (\S+ \S+) \((\S+)\)", told).groups()
    at = datetime.datetime.fromisoformat(stamp)
    assert abs(datetime.datetime.now(datetime.UTC) - at) < datetime.timedelta(seconds=60)
    assert (f"{at:%A}", at.utcoffset(), zone) == (day, datetime.timedelta(hours=9), "Asia/Tokyo")
    assert "(UTC)" in current_time()
    for zone in ("Nowhere/Land", "../../etc/passwd", "", "/etc/localtime"):
        with pytest.raises(ValueError, match="Write one such as Europe/Paris"):
            current_time(zone)


def task_with(files, earlier=None):
    history = [testing.user_message("before", earlier)] if earlier else []
    message: Message = testing.user_message("look", files)
    return testing.task_for(message, testing.Recorder(), history=history)


def test_a_file_of_the_conversation_is_read_and_the_files_there_are_are_listed():
    task = task_with({"b.csv": b"x,y\n1,2\n"}, earlier={"notes.txt": "Früher".encode()})
    assert read_file(task, "notes.txt") == "Characters 0 to 6 of 6:\nFrüher"
    assert read_file(task).splitlines() == ["b.csv (text/csv, 8 bytes)", "notes.txt (text/plain, 7 bytes)"]


def test_a_long_file_is_read_piece_by_piece():
    task = task_with({"long.txt": b"a" * 20_000 + b"b" * 10})
    assert read_file(task, "long.txt").startswith("Characters 0 to 20000 of 20010:\naaa")
    assert read_file(task, "long.txt", start=20_000) == "Characters 20000 to 20010 of 20010:\nbbbbbbbbbb"
    assert read_file(task, "long.txt", start=-5).startswith("Characters 0 to 20000")


def test_a_file_that_is_not_there_or_no_text_is_refused():
    assert read_file(task_with({})) == "No file was attached to this conversation."
    task = task_with({"a.png": b"\x89PNG\xff"})
    with pytest.raises(ValueError, match=r"No file is named 'b.txt'. There are: a.png."):
        read_file(task, "b.txt")
    with pytest.raises(ValueError, match=r"a\.png .* no text"):
        read_file(task, "a.png")
