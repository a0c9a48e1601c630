"""kill -9 at each step of archiving or restoring: the session stays complete."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests import stack
from tests.faults.dying import COMING, GOING
from tests.stack import Stack

pytestmark = pytest.mark.services("processes that are killed", only=True)
IN_TABLES, IN_FILE = [False, True, False], [True, False, True]


@pytest.fixture(scope="module")
def installed() -> Iterator[Stack]:
    with stack.prepared() as prepared:
        prepared.prepare()
        yield prepared


@pytest.mark.parametrize(("way", "steps"), [("going", GOING), ("coming", COMING)])
def test_a_session_that_goes_or_comes_back_is_whole_wherever_the_process_dies(
    installed: Stack, way: str, steps: list[tuple[str, str]]
) -> None:
    told = json.loads(installed.python("-m", "tests.faults.dying", way).stdout)
    whole = told["whole"]
    assert whole[:3] == IN_TABLES
    assert len(told["steps"]) == len(steps)
    for step, (found, gone, back) in zip(steps, told["steps"], strict=True):
        assert (found == whole) or (found[:3] == IN_FILE), step
        assert gone[:3] == IN_FILE, step
        assert back == whole, step
    assert told["left"] == {"differences": [], "files": []}
