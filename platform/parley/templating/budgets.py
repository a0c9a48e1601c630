"""What templates may use at most."""

from __future__ import annotations

from dataclasses import dataclass

READ_SECONDS = 0.5  # CPU time, to read and compile the templates of one request
SECONDS = 0.1  # CPU time, to work them out
GRACE_SECONDS = 0.1  # CPU time, after which the kernel ends what could not be interrupted
WAIT_SECONDS = 30.0  # for the machine to give that much CPU time
MEMORY_BYTES = 512 * 1024**2  # of a template's process, with what it read


@dataclass
class TimeBudget:
    """CPU seconds that several templates share: to read them, and to work them out."""

    reading: float = READ_SECONDS
    running: float = SECONDS
