"""A whole Parley at which the agents of several makes are registered."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.gateway.peers.client_script")  # whose assertions are the tests

from tests import stack  # noqa: E402
from tests.gateway import peers  # noqa: E402
from tests.gateway.peers import client_script  # noqa: E402
from tests.gateway.peers.matrix import Matrix  # noqa: E402

HOSTED = "hosted here"
AGENTS = (HOSTED, *peers.PEERS)
SLUGS = {name: re.sub("[^a-z0-9]+", "-", name.lower()) for name in AGENTS}


@pytest.fixture(scope="session")
def gateway() -> Iterator[stack.Stack]:
    """A Parley that may call this machine, with the agents of SLUGS."""
    with ThreadPoolExecutor(1) as pool, stack.prepared(OUTBOUND_ALLOW="127.0.0.0/8") as running:
        starting = [pool.submit(peers.peer, name) for name in peers.PEERS]
        running.start()
        remote = [f"{SLUGS[peer.name]}={peer.card_url}" for peer in (one.result() for one in starting)]
        running.python("-m", "tests.gateway.peers.registering", SLUGS[HOSTED], *remote)
        yield running


@pytest.fixture(scope="session")
def matrix() -> Iterator[Matrix]:
    """Collects results, and writes them where MATRIX says."""
    collected = Matrix(AGENTS, list(client_script.OPERATIONS))
    yield collected
    if path := os.environ.get("MATRIX"):
        collected.write(Path(path))
