"""A whole Parley at which the agents of several makes are registered."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.gateway.peers.client_script")  # whose assertions are the tests

from tests import stack  # noqa: E402
from tests.gateway.peers import client_script  # noqa: E402
from tests.gateway.peers.matrix import Matrix  # noqa: E402

HOSTED = "hosted here"


@pytest.fixture(scope="session")
def gateway() -> Iterator[stack.Stack]:
    """A Parley that may call this machine, with the hosted agent `acting`."""
    with stack.running(OUTBOUND_ALLOW="127.0.0.0/8") as running:
        running.python("-m", "tests.gateway.peers.registering", "hosted", "acting")
        yield running


@pytest.fixture(scope="session")
def matrix() -> Iterator[Matrix]:
    """Collects results, and writes them where MATRIX says."""
    collected = Matrix([HOSTED], list(client_script.OPERATIONS))
    yield collected
    if path := os.environ.get("MATRIX"):
        collected.write(Path(path))
