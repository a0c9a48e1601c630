"""Bases of commands."""

import difflib
import shutil
import sys
import time
from contextvars import ContextVar
from typing import Any

from django.conf import settings
from django.core.management import ManagementUtility, get_commands
from django.core.management.base import BaseCommand

from parley import terminal

WRONG_ARGUMENTS = 2
PROGRESS_SECONDS = 0.2  # between two lines
running_command: ContextVar[str] = ContextVar("running_command", default="")
"""The name of the command that runs in this thread, for the audit."""


class Installation(ManagementUtility):
    """The commands of this installation. An unknown one ends with exit code 2 and the name that may be meant."""

    def fetch_command(self, subcommand: str) -> BaseCommand:
        _ = settings.INSTALLED_APPS  # without them, Django would go on with a part of the commands
        known = {*get_commands(), *terminal.COMMANDS}
        if subcommand not in known:
            near = difflib.get_close_matches(subcommand, known, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            print(f"{self.prog_name}: There is no command {subcommand!r}.{hint}", file=sys.stderr)
            sys.exit(WRONG_ARGUMENTS)
        return super().fetch_command(subcommand)


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

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
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
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
