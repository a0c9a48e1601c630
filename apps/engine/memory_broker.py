"""The broker of the embedded profile: Celery's in-memory queues, whose worker is woken instead of polling for work."""

from __future__ import annotations

import threading
import time
from queue import Empty
from typing import Any

from kombu.transport import memory

_arrived = threading.Event()
LOOK_AGAIN_SECONDS = 1.0  # a backstop; nothing is expected to be found by it


class Channel(memory.Channel):  # type: ignore[misc]
    def _put(self, queue: str, message: Any, **kwargs: Any) -> None:
        super()._put(queue, message, **kwargs)
        _arrived.set()


class Transport(memory.Transport):  # type: ignore[misc]
    Channel = Channel

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Deliver one message, waiting for it up to `timeout` seconds. Raises TimeoutError."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            _arrived.clear()
            try:
                self.cycle.get(self._deliver, timeout=timeout)
            except Empty:
                left = LOOK_AGAIN_SECONDS if deadline is None else min(LOOK_AGAIN_SECONDS, deadline - time.monotonic())
                if left <= 0:
                    raise TimeoutError from None
                _arrived.wait(left)
            else:
                _arrived.set()  # there may be more for another consumer
                return
