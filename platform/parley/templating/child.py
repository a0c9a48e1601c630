"""The process that reads and works out templates. It holds no secret, and ends if it takes too much.

Requests and answers are lines of JSON. While a template runs, the process may ask for the fields of what it was given;
that time is not the template's. A template that takes too long is interrupted. One in a long operation of C cannot be
interrupted: then the kernel ends the process, and its caller starts another.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, BinaryIO, Literal

from parley.templating import language
from parley.templating.budgets import GRACE_SECONDS, MEMORY_BYTES, READ_SECONDS, SECONDS, WAIT_SECONDS, TimeBudget
from parley.templating.problems import TemplateProblem, sentence
from parley.templating.sandbox import BudgetExceeded
from parley.templating.values import Received

NICENESS = 5  # work that nobody waits for here comes first
CLOCKS = (signal.ITIMER_VIRTUAL, signal.ITIMER_PROF, signal.ITIMER_REAL)
TOO_SLOW = {
    "reading": f"it takes longer than {READ_SECONDS:g} s to read",
    "running": f"it takes longer than {SECONDS:g} s",
}
RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes
WARM_UP = r"{{ '\N{BULLET}' }}{% for a in [1.5] %}{{ a|round(1) }}{{ a.b }}{% endfor %}"

Phase = Literal["reading", "running"]


class Child:
    """Answers the requests of `lines`, one after the other."""

    def __init__(self, lines: BinaryIO, out: BinaryIO) -> None:
        self._lines, self._out = lines, out
        signal.signal(signal.SIGVTALRM, self._interrupt)
        self._phase: Phase = "reading"

    def serve(self) -> None:
        """Until the caller has gone, or this process has grown."""
        has_grown, most = False, max(MEMORY_BYTES // 2, _peak_bytes())  # which begins with that of the caller
        while not has_grown and (line := self._lines.readline()):
            request = json.loads(line)
            budget = TimeBudget(*request["budget"])
            answer = self._work_out(request, budget) if "mark" in request else self._read(request)
            has_grown = _peak_bytes() > most
            self._send({**answer, "budget": [budget.reading, budget.running], "ends": has_grown})

    def _read(self, request: dict[str, Any]) -> dict[str, Any]:
        """The references of each source, or its problem."""
        read: list[Any] = []
        for source, is_expression in request["sources"]:
            try:
                with self._limited(TimeBudget(READ_SECONDS / 2), "reading"):  # it is not compiled, which takes longer
                    read.append(language.references_of(source, is_expression))
            except TemplateProblem as problem:
                read.append(str(problem))
        return {"read": read}

    def _work_out(self, request: dict[str, Any], budget: TimeBudget) -> dict[str, Any]:
        """The value of each source as JSON, up to a condition that does not hold; or the problems."""
        received, values, problems = Received(request["mark"], request["names"], self._ask), list[str](), []
        for at, (source, is_expression) in enumerate(request["sources"]):
            try:
                with self._limited(budget, "reading"):
                    language.prepare(source, is_expression)
            except TemplateProblem as problem:
                problems.append((at, str(problem)))
        if problems:
            return {"problems": problems}
        for at, (source, is_expression) in enumerate(request["sources"]):
            try:
                with self._limited(budget, "running"):
                    values.append(language.work_out(source, is_expression, received))
            except TemplateProblem as problem:
                return {"problems": [(at, str(problem))]}
            if at == request["condition"] and not json.loads(values[-1]):
                break
        return {"values": values}

    @contextmanager
    def _limited(self, budget: TimeBudget, phase: Phase) -> Iterator[None]:
        """Raises TemplateProblem when the budget's time for this is up."""
        self._phase, seconds = phase, getattr(budget, phase)
        try:
            if seconds <= 0:
                self._interrupt()
            try:
                _set_clocks(seconds, seconds + GRACE_SECONDS, WAIT_SECONDS)
                yield
            finally:
                setattr(budget, phase, signal.getitimer(signal.ITIMER_VIRTUAL)[0])
                _set_clocks(0, 0, 0)
        except BudgetExceeded as error:
            raise TemplateProblem(sentence(str(error))) from None

    def _interrupt(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        raise BudgetExceeded(TOO_SLOW[self._phase])

    def _ask(self, number: int, key: str) -> str:
        left = [signal.getitimer(clock)[0] for clock in CLOCKS]
        _set_clocks(0, 0, 0)
        try:
            self._send({"number": number, "key": key})
            answer: dict[str, str] = json.loads(self._lines.readline() or sys.exit())
        finally:
            _set_clocks(*left)
        if "problem" in answer:
            raise ValueError(answer["problem"])
        return answer["field"]

    def _send(self, answer: dict[str, Any]) -> None:
        self._out.write(json.dumps(answer).encode() + b"\n")
        self._out.flush()


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT


def _set_clocks(*seconds: float) -> None:
    """Until the interruption, the end by the kernel, and the end if the machine is too busy."""
    for clock, one in zip(CLOCKS, seconds, strict=True):
        signal.setitimer(clock, one)


def _confine() -> None:
    """No file, no connection, no process, and bounded memory from now on."""
    limits: dict[int, int] = {resource.RLIMIT_AS: MEMORY_BYTES, resource.RLIMIT_CORE: 0}
    limits |= {resource.RLIMIT_NOFILE: 0, resource.RLIMIT_NPROC: 0}
    for limit, most in limits.items():
        with suppress(ValueError, OSError):  # macOS has no limit of memory
            resource.setrlimit(limit, (most, most))


def main() -> None:
    with suppress(OSError):  # where it is not permitted
        os.nice(NICENESS)
    with suppress(TemplateProblem):  # loads what is imported late
        language.work_out(WARM_UP, False, Received("", [], lambda *_: ""))
    for asked in (signal.SIGTERM, signal.SIGINT):  # this process ends when its caller does
        signal.signal(asked, signal.SIG_IGN)
    _confine()
    Child(sys.stdin.buffer, sys.stdout.buffer).serve()
