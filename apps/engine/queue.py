"""Waking the workers: one message names a run. The sweep finds runs whose message was lost.

Below are the transports of the brokers that Celery's messages go through, as `config.celery` names them.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from queue import Empty
from typing import Any

from celery import current_app
from django.conf import settings
from kombu import Queue
from kombu.exceptions import OperationalError
from kombu.transport import memory, redis

log = logging.getLogger("parley.engine")

SEND_QUEUED = "queue.send"
UNUSED_SECONDS = 24 * 60 * 60.0  # after which a broker drops a queue that no worker listens to


def run_queue() -> Queue:
    """The queue of messages that name runs. What it loses, the sweep finds."""
    return Queue(f"{settings.INSTALLATION}.runs", expires=UNUSED_SECONDS)


def publish(run_id: uuid.UUID) -> None:
    """Name a run to the workers. Call it after the commit; a broker that is away is logged, and no error."""
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
    """Name a session to the workers, whose queue may be due. As `publish`."""
    try:
        current_app.send_task(SEND_QUEUED, (str(context_id),))
    except (OperationalError, ConnectionError, OSError) as error:
        log.warning("the broker is away; the queue of session %s waits for the sweep: %s", context_id, error)


_message_arrived = threading.Event()
POLL_SECONDS = 1.0  # a backstop; nothing is expected to be found by it


class MemoryChannel(memory.Channel):  # type: ignore[misc]
    """The embedded profile's queues, whose worker is woken instead of polling for work."""

    def _put(self, queue: str, message: Any, **kwargs: Any) -> None:
        super()._put(queue, message, **kwargs)
        _message_arrived.set()

    def basic_ack(self, delivery_tag: Any, multiple: bool = False) -> None:
        super().basic_ack(delivery_tag, multiple)
        _message_arrived.set()  # a consumer that had its fill may take more


class MemoryTransport(memory.Transport):  # type: ignore[misc]
    Channel = MemoryChannel

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Deliver one message, waiting for it up to `timeout` seconds. Raises TimeoutError."""
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
                _message_arrived.set()  # there may be more for another consumer
                return


class RedisChannel(redis.Channel):  # type: ignore[misc]
    """One client for all that it publishes: making one takes longer than publishing."""

    _publishing: Any = None

    def _create_client(self, asynchronous: bool = False) -> Any:
        """The one that polls for work is another, as in kombu."""
        if asynchronous:
            return super()._create_client(asynchronous=True)
        if self._publishing is None:
            self._publishing = super()._create_client()
        return self._publishing


class RedisTransport(redis.Transport):  # type: ignore[misc]
    Channel = RedisChannel
