"""The queue of runs: each broker message names one. The sweep finds runs whose message was lost.

The kombu transports below are for `config.celery`.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from functools import cache
from queue import Empty
from typing import Any

from celery import current_app
from django.conf import settings
from kombu import Queue
from kombu.exceptions import OperationalError
from kombu.transport import memory, redis

log = logging.getLogger("parley.engine")

SEND_QUEUED = "queue.send"
UNUSED_SECONDS = 24 * 60 * 60.0  # then a broker deletes a queue without consumers


@cache
def run_queue() -> Queue:
    return Queue(f"{settings.INSTALLATION}.runs", expires=UNUSED_SECONDS)


def publish(run_id: uuid.UUID) -> None:
    """Send a run's message to the workers, after the commit. If the broker is away, this is only logged."""
    queue = run_queue()
    try:
        with current_app.producer_or_acquire() as producer:
            producer.publish(
                {"run": str(run_id)},
                routing_key=queue.name,
                declare=[queue],
                retry=True,
                retry_policy=current_app.conf.task_publish_retry_policy,
            )
    except (OperationalError, ConnectionError, OSError) as error:
        log.warning("the broker is away; run %s waits for the sweep: %s", run_id, error)


def publish_queue(context_id: uuid.UUID) -> None:
    """Have the workers check a session's message queue. Like `publish`."""
    try:
        current_app.send_task(SEND_QUEUED, (str(context_id),))
    except (OperationalError, ConnectionError, OSError) as error:
        log.warning("the broker is away; the queue of session %s waits for the sweep: %s", context_id, error)


_message_arrived = threading.Event()
POLL_SECONDS = 1.0


class MemoryChannel(memory.Channel):  # type: ignore[misc]
    """The embedded profile's queues. They wake the worker, which need not poll."""

    def _put(self, queue: str, message: Any, **kwargs: Any) -> None:
        super()._put(queue, message, **kwargs)
        _message_arrived.set()

    def basic_ack(self, delivery_tag: Any, multiple: bool = False) -> None:
        super().basic_ack(delivery_tag, multiple)
        _message_arrived.set()  # a consumer at its prefetch limit may take more


class MemoryTransport(memory.Transport):  # type: ignore[misc]
    Channel = MemoryChannel

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Deliver one message, waiting up to `timeout` seconds. Raises TimeoutError."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            _message_arrived.clear()
            try:
                self.cycle.get(self._deliver, timeout=timeout)
            except Empty:
                left = POLL_SECONDS if deadline is None else min(POLL_SECONDS, deadline - time.monotonic())
                if left <= 0:
                    raise TimeoutError from None
                _message_arrived.wait(left)
            else:
                _message_arrived.set()
                return


class RedisChannel(redis.Channel):  # type: ignore[misc]
    """Publishes with one client, because creating one takes longer than publishing."""

    _publishing: Any = None

    def _create_client(self, asynchronous: bool = False) -> Any:
        if asynchronous:
            return super()._create_client(asynchronous=True)
        if self._publishing is None:
            self._publishing = super()._create_client()
        return self._publishing


class RedisTransport(redis.Transport):  # type: ignore[misc]
    Channel = RedisChannel
