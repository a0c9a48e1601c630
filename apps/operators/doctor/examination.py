"""What a check finds, and how checks run: each in its own thread, within its time, whatever another one does."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from django.db import connections
from django.db.models import Model

SECONDS = 15.0  # of a check that says nothing else


class State(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


NOT_CHECKED = "Not checked."


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, in a sentence, and what to do about it; `advice` is "" where all is well.

    `page` replaces that of the check's watch.
    """

    state: State
    text: str
    advice: str = ""
    page: str = ""

    @property
    def is_skipped(self) -> bool:
        return self.text == NOT_CHECKED


def ok(text: str) -> Finding:
    return Finding(State.OK, text)


def warning(text: str, advice: str, page: str = "") -> Finding:
    return Finding(State.WARNING, text, advice, page)


def problem(text: str, advice: str) -> Finding:
    return Finding(State.PROBLEM, text, advice)


@dataclass(frozen=True, slots=True)
class Patient:
    """What is examined beside the settings: the public address, and who gets a test e-mail ("": nobody).

    `resolve` has addresses by name and port, which go before those of DNS.
    """

    url: str
    test_email: str = ""
    resolve: Mapping[tuple[str, int], str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Watch:
    """The dashboard shows what the check finds, so it must be fast.

    Attributes:
        model: whoever may view it sees what was found.
        page: of docs/running, that says what to do.
        rows: the model whose list, by `filters`, shows the rows concerned; None: there are none.
        states: which of the findings are shown.
    """

    model: type[Model]
    page: str
    rows: type[Model] | None = None
    filters: Mapping[str, Any] = field(default_factory=dict)
    states: Collection[State] = (State.WARNING, State.PROBLEM)


@dataclass(frozen=True, slots=True)
class Check:
    """A named check. It is skipped unless the checks that it `needs` found no problem."""

    name: str
    find: Callable[[Patient], Finding]
    needs: Sequence[str] = ()
    seconds: float = SECONDS
    watch: Watch | None = None

    @property
    def page(self) -> str:
        """Where the documentation says more."""
        return f"docs/running/doctor.md#{self.name.lower().replace(' ', '-')}"

    def found(self, patient: Patient) -> Finding:
        """What it finds, also if it breaks."""
        try:
            return self.find(patient)
        except Exception as error:
            return problem(f"The check failed. {describe(error)}", "See its page.")


def examine(checks: Sequence[Check], patient: Patient) -> Iterator[tuple[Check, Finding]]:
    """Each check and its finding, in order. Independent checks run at the same time."""
    started: dict[str, _Running] = {}
    for check in sorted(checks, key=lambda one: len(one.needs)):  # stable: the needed ones first
        if not _in_the_way(check, started):
            started[check.name] = _Running(check, patient)
    for check in checks:
        if check.name in started:
            yield check, started[check.name].finding()
        else:
            advice = f"First solve the problem of: {_in_the_way(check, started)}."
            yield check, warning(NOT_CHECKED, advice)


def _in_the_way(check: Check, started: Mapping[str, _Running]) -> str:
    """The first of the needed checks that found a problem, or was not made itself; "" if none."""
    for name in check.needs:
        if name not in started or started[name].finding().state is State.PROBLEM:
            return name
    return ""


class _Running:
    """A check in a daemon thread: one that hangs does not keep the command from ending."""

    def __init__(self, check: Check, patient: Patient) -> None:
        self._check, self._patient = check, patient
        self._found: Finding | None = None
        self._deadline = time.monotonic() + check.seconds
        run = contextvars.copy_context().run  # the audit asks it which command runs
        self._thread = threading.Thread(target=run, args=[self._run], name=f"doctor-{check.name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._found = self._check.found(self._patient)
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
