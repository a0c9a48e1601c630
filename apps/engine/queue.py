"""The queue of runs: each broker message names one, and is worth one claim (see `engine.fairness`). The sweep finds
runs whose message was lost.

The kombu transport below is for `parley.celery`.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from functools import cache
from typing import Any, NamedTuple
from weakref import WeakSet

from django.conf import settings
from django.db.models import QuerySet
from kombu import Queue
from kombu.exceptions import OperationalError
from kombu.transport import memory

from apps.limits import current as limits
from apps.limits.current import Holder, LimitExceeded
from apps.limits.models import Kind, Whose
from apps.record.errors import LimitReached
from apps.record.execution import MAX_LANE, Run
from parley.work import connected_producer, send_job

log = logging.getLogger("parley.engine")

PUBLISH_WAITING = "engine.publish_waiting"
UNUSED_SECONDS = 24 * 60 * 60.0  # then RabbitMQ deletes a queue without consumers


@cache
def run_queue() -> Queue:
    is_redis = settings.CELERY_BROKER_URL.startswith(("redis://", "rediss://"))  # each message would cost a transaction
    return Queue(f"{settings.INSTALLATION}.runs", expires=None if is_redis else UNUSED_SECONDS)


class Lane(NamedTuple):
    """Whose turn a run takes: the text of `Run.lane`."""

    workspace: int
    agent: int
    key: str = ""  # the public name of the API key, if one was used

    def __str__(self) -> str:
        return f"{self.workspace}:{self.agent}:{self.key}"[:MAX_LANE]

    @classmethod
    def read(cls, text: str) -> Lane:
        """Runs that were never put in a lane are in one of their own."""
        workspace, _, rest = text.partition(":")
        agent, _, key = rest.partition(":")
        return cls(int(workspace or 0), int(agent or 0), key)


LOOKUPS = {Whose.WORKSPACE: ("startswith", "{}:"), Whose.AGENT: ("contains", ":{}:"), Whose.KEY: ("endswith", ":{}")}
"""How to find a holder's lanes."""


def runs_of(holder: Holder, state: Run.State) -> QuerySet[Run]:
    """The runs in this unfinished state that count for the holder."""
    lookup, text = LOOKUPS[holder.whose]
    return Run.objects.unfinished().filter(state__any_of=(state,), **{f"lane__{lookup}": text.format(holder.key)})


def check_depth(lane: Lane) -> None:
    """Raises LimitReached if as many runs wait, also for other tasks, as a workspace, key or agent may have queued.

    Asks the database only where there is such a limit.
    """
    for holder, limit in limits.snapshot().limits(Kind.QUEUED, lane.workspace, lane.key, lane.agent):
        used = runs_of(holder, Run.State.QUEUED)[:limit].count()
        lookup, text = LOOKUPS[holder.whose]
        waiting = Run.objects.filter(state=Run.State.WAITING, **{f"lane__{lookup}": text.format(holder.key)})
        if (used := used + waiting[:limit].count()) >= limit:
            raise LimitReached(LimitExceeded(Kind.QUEUED, holder.whose, limit, used, limits.QUEUE_RETRY_SECONDS))


PRIORITY = "priority"
"""In the metadata of a message: "high", "normal" or "low"."""
ASKED_FOR = {"high": Run.Priority.HIGH, "normal": Run.Priority.NORMAL, "low": Run.Priority.LOW}

_declared: WeakSet[Any] = WeakSet()  # channels of the broker where the queue is known


def publish(run_id: uuid.UUID) -> None:
    """Send a run's message to the workers, after the commit. If the broker is away, this is only logged."""
    queue = run_queue()
    try:
        with connected_producer() as producer:
            is_declared = producer.connection.connected and producer.channel in _declared
            producer.publish(
                json.dumps({"run": str(run_id)}),
                content_type="application/json",
                content_encoding="utf-8",
                routing_key=queue.name,
                declare=[] if is_declared else [queue],
                retry=True,
                retry_policy=settings.CELERY_TASK_PUBLISH_RETRY_POLICY,
            )
            if not is_declared:
                _declared.add(producer.channel)
    except (OperationalError, ConnectionError, OSError) as error:
        log.warning("the broker is away; run %s waits for the sweep: %s", run_id, error)


def publish_resumed() -> None:
    """Have a worker publish the runs of resumed agents. Like `publish`."""
    send_job(PUBLISH_WAITING)


_message_arrived = threading.Event()
POLL_SECONDS = 1.0


class MemoryChannel(memory.Channel):  # type: ignore[misc]
    """The embedded profile's queues. They wake the worker, which need not poll."""

    def basic_publish(self, message: Any, exchange: str, routing_key: str, **kwargs: Any) -> None:
        super().basic_publish(message, exchange, routing_key, **kwargs)
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
                super().drain_events(connection, timeout=0)
            except TimeoutError:
                left = POLL_SECONDS if deadline is None else min(POLL_SECONDS, deadline - time.monotonic())
                if left <= 0:
                    raise TimeoutError from None
                _message_arrived.wait(left)
            else:
                _message_arrived.set()
                return
