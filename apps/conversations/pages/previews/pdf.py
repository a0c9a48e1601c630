"""Removing scripts and actions from a PDF before a browser shows it.

The viewer of a browser runs a document's scripts, whatever the headers say.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

MOST_PDF_BYTES = 25_000_000
SECONDS = 10.0
COMMAND = (sys.executable, "-I", str(Path(__file__).with_name("pdf_sanitizer.py")))

_slots = threading.BoundedSemaphore(2)  # each may take a gigabyte


class CannotBeShown(Exception):
    """This PDF cannot be shown here. Download it to read it."""


def sanitized_pdf(content: bytes) -> bytes:
    """The document without scripts and actions. Blocks, and starts a process.

    Raises CannotBeShown for a document that is broken, ambiguous, encrypted, too large, or slow.
    """
    if len(content) > MOST_PDF_BYTES or not _slots.acquire(timeout=SECONDS):
        raise CannotBeShown
    try:
        done = subprocess.run(COMMAND, input=content, capture_output=True, timeout=SECONDS, env={}, check=True)  # noqa: S603
    except subprocess.SubprocessError as problem:
        raise CannotBeShown from problem
    finally:
        _slots.release()
    return done.stdout
