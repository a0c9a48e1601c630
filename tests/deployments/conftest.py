"""A keeper with an agent that is well."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deployments.keeping import Kept


@pytest.fixture
def data(tmp_path: Path, settings) -> Path:
    settings.DATA_DIR = tmp_path / "data"
    return tmp_path / "data"


@pytest.fixture
def folder() -> Iterator[Path]:
    """The keeper's: short, because paths of sockets are."""
    with tempfile.TemporaryDirectory(prefix="parley-test-") as made:
        yield Path(made)


@pytest.fixture
def kept(data: Path, folder: Path, request) -> Iterator[Kept]:
    found = Kept(data, folder, *getattr(request, "param", ("--watch", "0.1")))
    yield found
    found.close()
