"""A PDF to be looked at: what it would do by itself, or when it is pressed, is taken out; links and pages stay.

A browser's viewer runs a document's scripts, and no policy of a response keeps it from that.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

MOST_BYTES = 25_000_000
SECONDS = 10.0
COMMAND = (sys.executable, "-I", str(Path(__file__).with_name("quieting.py")))

_turns = threading.BoundedSemaphore(2)  # each may take a gigabyte


class CannotBeShown(Exception):
    """This PDF cannot be shown here. Download it to read it."""


def quieted(content: bytes) -> bytes:
    """The same document, which does nothing. It takes a thread for as long as it needs, and a process.

    Raises:
        CannotBeShown: it is broken, unclear, needs a password, is too large, or takes too long.
    """
    if len(content) > MOST_BYTES or not _turns.acquire(timeout=SECONDS):
        raise CannotBeShown
    try:
        done = subprocess.run(COMMAND, input=content, capture_output=True, timeout=SECONDS, env={}, check=True)  # noqa: S603
    except subprocess.SubprocessError as problem:
        raise CannotBeShown from problem
    finally:
        _turns.release()
    return done.stdout
