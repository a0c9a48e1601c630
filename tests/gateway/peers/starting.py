"""Starting a server of another make as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def running(*arguments: str, command: Sequence[str] = ()) -> Iterator[str]:
    """A server's base URL, which it prints as its first line when it listens; it is ended at the end of the block.

    `arguments` are those of `python -m`, unless another `command` is given that they follow.
    """
    begun = subprocess.Popen(
        [*(command or (sys.executable, "-m")), *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert begun.stdout is not None
        url = begun.stdout.readline().strip()
        assert url.startswith("http"), f"{arguments} did not start"
        yield url
    finally:
        begun.send_signal(signal.SIGKILL)
        begun.wait()
