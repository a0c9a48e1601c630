"""What a check finds, and how checks run: each in its own thread, within its time, whatever another one does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from django.db import connections

SECONDS = 15.0  # of a check that says nothing else


class State(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, in a sentence, and what to do about it; `advice` is "" where all is well."""

    state: State
    text: str
    advice: str = ""


def ok(text: str) -> Finding:
    return Finding(State.OK, text)


def warning(text: str, advice: str) -> Finding:
    return Finding(State.WARNING, text, advice)


def problem(text: str, advice: str) -> Finding:
    return Finding(State.PROBLEM, text, advice)


@dataclass(frozen=True, slots=True)
class Patient:
    """What is examined beside the settings: the public address, and who gets a test e-mail ("": nobody)."""

    url: str
    test_email: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A named check. It is skipped unless the check that it `needs` found no problem."""

    name: str
    find: Callable[[Patient], Finding]
    needs: str = ""
    seconds: float = SECONDS


def examine(checks: Sequence[Check], patient: Patient) -> Iterator[tuple[str, Finding]]:
    """Each check's name and finding, in order. Independent checks run at the same time."""
    started: dict[str, _Running] = {}
    for check in sorted(checks, key=lambda one: bool(one.needs)):  # stable: the needed ones first
        needed = started.get(check.needs)
        if not check.needs or (needed and needed.finding().state is not State.PROBLEM):
            started[check.name] = _Running(check, patient)
    for check in checks:
        if check.name in started:
            yield check.name, started[check.name].finding()
        else:
            yield check.name, warning("Not checked.", f"First solve the problem of: {check.needs}.")


class _Running:
    """A check in a daemon thread: one that hangs does not keep the command from ending."""

    def __init__(self, check: Check, patient: Patient) -> None:
        self._check, self._patient = check, patient
        self._found: Finding | None = None
        self._deadline = time.monotonic() + check.seconds
        self._thread = threading.Thread(target=self._run, name=f"doctor-{check.name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._found = self._check.find(self._patient)
        except Exception as error:
            self._found = problem(f"The check failed. {describe(error)}", "See docs/running/health.md.")
        finally:
            connections.close_all()

    def finding(self) -> Finding:
        self._thread.join(max(0.0, self._deadline - time.monotonic()))
        late = problem(
            f"No answer within {self._check.seconds:g} s.",
            "Look whether the service is overloaded, or a firewall drops calls.",
        )
        return self._found or late


def describe(error: BaseException) -> str:
    """An error's kind and first line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
