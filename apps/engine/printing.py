"""What handlers print: lines of the log, of their own run each, and only so many."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

log = logging.getLogger("parley.agents")

MOST_LINES = 100  # of one turn
LONGEST = 1000  # characters of one line

_printed: ContextVar[Printed | None] = ContextVar("printed", default=None)


class Printed:
    """What one turn prints; `redact` keeps what the turn was lent out of the log."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self.lines = 0
        self._redact = redact
        self._line = ""

    def write(self, text: str) -> None:
        *whole, rest = text.split("\n")
        for line in whole:
            self._end_line(line)
        self._line = (self._line + rest)[: LONGEST + 1]

    def close(self) -> None:
        if self._line:
            self._end_line("")
        if self.lines > MOST_LINES:
            log.warning("the agent printed %d more lines, which are not kept", self.lines - MOST_LINES)

    def _end_line(self, end: str) -> None:
        line, self._line = self._redact(self._line + end[:LONGEST]), ""
        self.lines += 1
        if self.lines <= MOST_LINES:
            log.info("printed: %s", line if len(line) <= LONGEST else f"{line[:LONGEST]}…")


class Output(io.TextIOBase):
    """Standard output of a process that runs agents: whatever a turn does not print goes where it went before."""

    def __init__(self, usual: Any) -> None:
        self.usual = usual

    def write(self, text: str) -> int:
        if (printed := _printed.get()) is not None:
            printed.write(text)
            return len(text)
        return int(self.usual.write(text))

    def flush(self) -> None:
        if _printed.get() is None:
            self.usual.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.usual, name)


def listen() -> None:
    """Have this process's standard output told apart by turns."""
    if not isinstance(sys.stdout, Output):
        sys.stdout = Output(sys.stdout)


def listen_no_more() -> None:
    if isinstance(sys.stdout, Output):
        sys.stdout = sys.stdout.usual


@contextmanager
def of_this_turn(redact: Callable[[str], str]) -> Iterator[None]:
    """What is printed in this block, and in the threads and tasks that are begun in it, is this turn's."""
    printed = Printed(redact)
    token = _printed.set(printed)
    try:
        yield
    finally:
        _printed.reset(token)
        printed.close()
