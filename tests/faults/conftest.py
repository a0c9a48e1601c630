"""A stack whose runs are given up quickly, so that tests need not wait for long."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import stack
from tests.faults.calling import Caller
from tests.stack import Stack

LEASE = 3.0
PATIENCE = LEASE + 15  # how soon a run that lost its worker goes on or fails with a reason


@pytest.fixture(scope="package")
def frail() -> Iterator[Stack]:
    """A stack to be hurt. Each test leaves it running."""
    with stack.running(RUN_LEASE_SECONDS=str(LEASE), OUTBOUND_ALLOW="127.0.0.1") as running:
        running.manage("register_agent", "patient", "--handler", "tests.faults.agents:Patient")
        yield running


@pytest.fixture
def patient(frail: Stack) -> Caller:
    return Caller(frail, "patient")


@pytest.fixture
def countdown(frail: Stack) -> Caller:
    return Caller(frail, "countdown")
