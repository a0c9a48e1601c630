"""What the processes of a test run copy instead of making it again: a migrated database, a prepared Parley."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

FOLDER = "TEST_PATTERNS"
DATABASE = "parley.sqlite3"


def folder() -> Path:
    """The environment's, or a new one for this process and its children."""
    if FOLDER not in os.environ:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="parley-patterns-")
        atexit.register(remove, Path(os.environ[FOLDER]))
    return Path(os.environ[FOLDER])


def remove(patterns: Path) -> None:
    """Remove the folder, and the databases on PostgreSQL that it names."""
    for file in patterns.glob("*/database"):
        url, name = file.read_text().split("\n")
        with suppress(psycopg.Error), psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    shutil.rmtree(patterns, ignore_errors=True)


def place(name: str) -> Path:
    """Where the pattern of this name is, or will be."""
    return folder() / name


def shared(name: str, make: Callable[[Path], None]) -> Path:
    """The pattern of this name: a folder, filled by `make` for the first process that asks."""
    pattern = place(name)
    pattern.parent.mkdir(parents=True, exist_ok=True)
    with pattern.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (complete := pattern.with_suffix(".complete")).exists():
            shutil.rmtree(pattern, ignore_errors=True)
            pattern.mkdir()
            make(pattern)
            complete.touch()
    return pattern


def note_database(pattern: Path, url: str, name: str) -> None:
    """The pattern has this database on the server at `url`."""
    (pattern / "database").write_text(f"{url}\n{name}")


def database_of(pattern: Path) -> str:
    """Its database on PostgreSQL."""
    return (pattern / "database").read_text().split("\n")[1]


def begin_with(pattern: Path, connection: BaseDatabaseWrapper) -> None:
    """Have Django make the test database as a copy of the pattern's."""
    test = connection.settings_dict["TEST"]
    if connection.vendor == "postgresql":
        test["TEMPLATE"] = database_of(pattern)
    else:
        shutil.copyfile(pattern / DATABASE, test["NAME"])


if __name__ == "__main__":
    remove(Path(sys.argv[1]))
