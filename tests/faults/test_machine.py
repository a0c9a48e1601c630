"""Harnesses wait by the time that a machine has for them, so that a busy one gets a verdict, too."""

from __future__ import annotations

import pytest

from faults.machine import WORK_SECONDS, Machine, measured


def test_patience_lasts_longer_on_a_busy_machine():
    at, stretch = [100.0], [1.0]
    machine = Machine(lambda: stretch[0], lambda: at[0])
    at[0] += 10
    assert (machine.now(), machine.seconds(20)) == (10, 20)
    stretch[0] = 4.0
    machine.note()
    at[0] += 40
    assert (machine.now(), machine.seconds(20)) == (20, 80)
    stretch[0] = 0.5  # a clock never runs faster than time
    machine.note()
    at[0] += 5
    assert (machine.now(), machine.most) == (25, 4)


def test_work_takes_longer_while_others_have_the_processor():
    at = [0.0]

    def worked() -> float:
        """A third of the time is this thread's."""
        at[0] += WORK_SECONDS / 100
        return at[0] / 3

    assert measured(lambda: at[0], worked) == pytest.approx(3.0, rel=0.1)
