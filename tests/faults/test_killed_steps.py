"""kill -9 at each step: of archiving or restoring, where the session stays complete, and of schedules."""

from __future__ import annotations

import json

import pytest

from tests import stack
from tests.faults.dying import COMING, GOING, STARTING

pytestmark = pytest.mark.services("processes that are killed", only=True)
IN_TABLES, IN_FILE = [False, True, False], [True, False, True]


@pytest.fixture(scope="module")
def installed():
    with stack.prepared() as prepared:
        prepared.prepare()
        yield prepared


@pytest.mark.parametrize(("way", "steps"), [("going", GOING), ("coming", COMING)])
def test_killed_archiving_or_restoring_keeps_whole_session(installed, way, steps):
    told = json.loads(installed.python("-m", "tests.faults.dying", way).stdout)
    whole = told["whole"]
    assert whole[:3] == IN_TABLES
    assert len(told["steps"]) == len(steps)
    for step, (found, gone, back) in zip(steps, told["steps"], strict=True):
        assert (found == whole) or (found[:3] == IN_FILE), step
        assert gone[:3] == IN_FILE, step
        assert back == whole, step
    assert told["left"] == {"differences": [], "files": []}


def test_killed_schedule_starts_one_task(installed):
    told = json.loads(installed.python("-m", "tests.faults.dying", "schedules").stdout)
    assert [one["killed"] for one in told] == [["waiting"]] * 3 + [["started"]]
    for step, one in zip(STARTING, told, strict=True):
        assert one["after"] == [["started", task] for task in one["tasks"]], step
        assert len(one["tasks"]) == 1, step
