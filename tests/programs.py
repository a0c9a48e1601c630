"""Python programs that tests run beside themselves, as processes of their own.

An interpreter that starts reads libraries for a second of the processor's time or two, and a run of the tests starts
some hundred. So most are forked from a process that has read them (`tests/libraries.py`), and nothing of Parley:
a program's settings, environment and code are its own, and so are its signals and its end. Where `fork` is not to be
trusted, and for those that shall be started as people start them, it is an interpreter as usual.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Protocol

LIBRARIES = "tests.libraries"


class Program(Protocol):
    """A program that was started; `subprocess.Popen` is one."""

    pid: int

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status. Raises subprocess.TimeoutExpired."""

    def send_signal(self, sig: int) -> None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


@dataclass(frozen=True)
class Call:
    """What is run: the words after `python`, where, with which environment; what it reads, and where it prints."""

    words: Sequence[str]
    cwd: Path
    environment: Mapping[str, str]
    output: Path
    errors: Path
    given: Path = Path(os.devnull)

    def start(self, *, forked: bool) -> Program:
        """Start it; `forked` where that is possible."""
        if forked and sys.platform == "linux":
            return _Forked(self)
        with self.given.open("rb") as given, self.output.open("ab") as output, self.errors.open("ab") as errors:
            streams = {"stdin": given, "stdout": output, "stderr": errors}
            return subprocess.Popen([sys.executable, *self.words], cwd=self.cwd, env=self.environment, **streams)


def run(
    words: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    *,
    given: str = "",
    forked: bool = True,
    timeout: float = 240.0,
) -> subprocess.CompletedProcess[str]:
    """What a program that reads `given` printed, and how it ended; it has `timeout` seconds.

    Raises subprocess.TimeoutExpired, after it was killed.
    """
    with tempfile.TemporaryDirectory(prefix="parley-program-") as folder:
        typed, output, errors = (Path(folder, name) for name in ("given", "output", "errors"))
        typed.write_text(given)
        program = Call(words, cwd, environment, output, errors, typed).start(forked=forked)
        try:
            status = program.wait(timeout)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
            raise
        return subprocess.CompletedProcess(words, status, output.read_text(), errors.read_text())


_telling = threading.Lock()
"""How a program ended is told once; whoever starts one has that of all others read, too."""


class _Forked:
    """A child of the process that has the libraries, which tells how it ends."""

    def __init__(self, call: Call) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([LIBRARIES])
        call = replace(call, environment={**call.environment})  # os.environ itself cannot be sent
        self._process: ForkServerProcess = context.Process(target=_become, args=[call, _installed()], daemon=True)
        with _telling:
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        with _telling:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        wait([self._process.sentinel], timeout)
        if (status := self.poll()) is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return status

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it ended just now
                os.kill(self.pid, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@cache
def _installed() -> list[str]:
    """The import path that an interpreter of this environment begins with."""
    command = [sys.executable, "-I", "-c", "import sys; print(*sys.path, sep='\\n')"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def _become(call: Call, installed: Sequence[str]) -> None:
    """In the new process: be that program, as `python` would be."""
    files = (call.given, "rb"), (call.output, "ab"), (call.errors, "ab")
    for stream, (path, mode) in zip((sys.stdin, sys.stdout, sys.stderr), files, strict=True):
        with path.open(mode) as file:
            os.dup2(file.fileno(), stream.fileno())
    for printing in (sys.stdout, sys.stderr):
        printing.reconfigure(line_buffering=True, write_through=True)  # type: ignore[union-attr]
    os.chdir(call.cwd)
    os.environ.clear()
    os.environ.update(call.environment)
    first, *rest = call.words
    is_file = not first.startswith("-")
    place = str(Path(call.cwd, first).parent) if is_file else str(call.cwd)
    named = call.environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [place, *filter(None, named), *installed]
    sys.argv[:] = [first, *rest] if is_file else [rest[0] if first == "-m" else first, *rest[1:]]
    if is_file:
        runpy.run_path(first, run_name="__main__")
    elif first == "-m":
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.modules["__main__"] = main = types.ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
