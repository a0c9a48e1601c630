"""Harnesses wait by the time that a machine has for them, so that a busy one gets a verdict, too."""

from __future__ import annotations

from faults.machine import Machine, measured


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


def test_work_takes_as_long_as_its_processor_time_or_longer():
    assert measured() >= 1.0
