"""What the processes of a test run copy instead of making it again: a migrated database, a prepared Parley.

`make test` and its like make a folder for them and remove it. Without one, each process has its own.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache
from pathlib import Path

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper

FOLDER = "TEST_PATTERNS"
"""The environment's name of the folder."""


@contextmanager
def folder() -> Iterator[Path]:
    """The environment's folder, or one for the time being, with its databases."""
    if given := os.environ.get(FOLDER):
        yield Path(given)
        return
    made = Path(tempfile.mkdtemp(prefix="parley-patterns-"))
    try:
        yield made
    finally:
        remove(made)


def remove(patterns: Path) -> None:
    """Remove the folder, and the databases on PostgreSQL that it names."""
    for file in patterns.glob("*/database"):
        url, name = file.read_text().split("\n")
        with suppress(psycopg.Error), psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    shutil.rmtree(patterns, ignore_errors=True)


@cache
def _folder() -> Path:
    kept = ExitStack()
    atexit.register(kept.close)
    return kept.enter_context(folder())


def place(name: str) -> Path:
    """Where the pattern of this name is, or will be."""
    return _folder() / name


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
        with (
            closing(sqlite3.connect(pattern / "parley.sqlite3")) as made,
            closing(sqlite3.connect(test["NAME"])) as copy,
        ):
            made.backup(copy)


if __name__ == "__main__":
    remove(Path(sys.argv[1]))
