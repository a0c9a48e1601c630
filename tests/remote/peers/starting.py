"""Starts another framework's server in its own process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def running(module: str, *arguments: str) -> Iterator[str]:
    """A server module's base URL, which it prints first when it listens."""
    begun = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert begun.stdout is not None
        url = begun.stdout.readline().strip()
        assert url.startswith("http"), f"{module} did not start"
        yield url
    finally:
        begun.send_signal(signal.SIGKILL)
        begun.wait()
