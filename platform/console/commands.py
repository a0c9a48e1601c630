"""Bases of commands."""

import shutil
import sys
import time
from contextvars import ContextVar
from typing import Any

from django.core.management.base import BaseCommand

PROGRESS_SECONDS = 0.2  # between two lines
running_command: ContextVar[str] = ContextVar("running_command", default="")
"""The name of the command that runs in this thread, for the audit."""


class QuickCommand(BaseCommand):
    """A command without Django's system checks, which double the start time.

    `serve`, `prepare`, `check` and `migrate` run them.
    """

    requires_system_checks: list[str] = []

    def execute(self, *args: Any, **options: Any) -> Any:
        token = running_command.set(type(self).__module__.rpartition(".")[2])
        try:
            return super().execute(*args, **options)
        finally:
            running_command.reset(token)


class ProgressLine:
    """Shows what a long command does in one line of standard error, if that is a terminal."""

    def __init__(self, stream: Any = None) -> None:
        self._stream = stream or sys.stderr
        self._is_shown = self._stream.isatty()
        self._next = 0.0

    def __call__(self, text: str) -> None:
        if not self._is_shown or (now := time.monotonic()) < self._next:
            return
        self._next = now + PROGRESS_SECONDS
        self._write(text[: shutil.get_terminal_size().columns - 1])

    def clear(self) -> None:
        if self._is_shown:
            self._write("")

    def _write(self, text: str) -> None:
        self._stream.write(f"\r\x1b[K{text}")
        self._stream.flush()
