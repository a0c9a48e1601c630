"""Strict mypy of files outside this repository, as authors run it."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import agentkit

TypeChecked = Callable[[Path, Iterable[str | Path]], tuple[int, str]]


def type_checking(cache: Path) -> TypeChecked:
    """A function that checks a folder's files; returns mypy's exit status and output.

    mypy takes half a minute for the libraries, so `cache` is shared between processes and test runs, one at a time.
    """

    def checked(folder: Path, files: Iterable[str | Path]) -> tuple[int, str]:
        options = ["--strict", "--config-file=", "--explicit-package-bases", "--disable-error-code=top-level-await"]
        command = [sys.executable, "-m", "mypy", *options, f"--cache-dir={cache}", *map(str, files)]
        path = os.pathsep.join([str(folder), str(Path(agentkit.__file__).parents[1])])
        cache.parent.mkdir(exist_ok=True)
        with cache.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = subprocess.run(
                command, cwd=folder, env={**os.environ, "MYPYPATH": path}, capture_output=True, text=True, check=False
            )
        return done.returncode, done.stdout + done.stderr

    return checked
