"""Lists of work: declared once, they have a job, a part of the sweep and numbers for operators."""

from __future__ import annotations

import logging
import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from celery import current_app
from django.db.models import Model, QuerySet
from kombu import Producer
from kombu.exceptions import OperationalError

from parley.registry import added
from parley.telemetry import metrics

log = logging.getLogger("parley.work")

EXPIRE_SECONDS = 15.0  # until when a worker takes a message of the sweep

_idle_producers: dict[int, deque[Producer]] = defaultdict(deque)  # by process: a fork may not use its parent's


@contextmanager
def connected_producer() -> Iterator[Producer]:
    """A producer for the broker, for one thread at a time. After an error it is not used again.

    Celery's pool prepares producer and connection for each message, which takes as long as publishing.
    """
    idle = _idle_producers[os.getpid()]
    try:
        producer = idle.pop()
    except IndexError:
        producer = Producer(current_app.connection_for_write())
    try:
        yield producer
    except BaseException:
        producer.connection.release()
        raise
    idle.append(producer)


def send_job(name: str, *args: str, expires: float | None = None) -> bool:
    """Have a worker run a Celery job, after the commit. False, with a line in the log, if the broker is away."""
    try:
        with connected_producer() as producer:
            current_app.send_task(name, args, expires=expires, producer=producer)
    except (OperationalError, ConnectionError, OSError) as error:
        log.warning("the broker is away; %s waits for the sweep: %s", name, error)
        return False
    return True


@dataclass(frozen=True)
class WorkList:
    """What waits in a table, and what a job does to it. Apps name theirs in `work_lists`.

    Attributes:
        name: of the list in metrics.
        job: the name of its Celery job, which gets a key.
        work: does what is due for a key, which it claims itself. A function that awaits runs on the process's event
            loop, where it holds neither a thread nor a connection while it waits; another one in Celery's thread.
        model: the model whose keys these are.
        since: the field of the rows that `waiting` gives which says since when one waits.
        due: the keys that may be worked at now, the oldest first; by default those of rows of work that are due. Some
            write before they look, such as rows for what is new.
        waiting: the rows that are not done, for metrics; by default the model's unfinished ones.
        url_of: the URL that `work` calls for a key; None for none. With it `work` gets the loop's `Exchange`, too.
        host_of: whom `work` waits for, such as an agent, if it makes its calls itself; by default the key.
        at_once: keys that one process works at side by side, if `work` awaits.
        per_host: the same for one host of `url_of`, or one of `host_of`, so that a silent host does not take all.
        swept_at_once: keys that one sweep publishes; None: all.
    """

    name: str
    job: str
    work: Callable[..., Any]
    model: type[Model]
    since: str = "created_at"
    due: Callable[[], QuerySet[Any, Any] | Sequence[Any]] | None = None
    waiting: Callable[[], QuerySet[Any]] | None = None
    url_of: Callable[[Any], str] | None = None
    host_of: Callable[[Any], str] | None = None
    at_once: int = 100
    per_host: int = 10
    swept_at_once: int | None = 500

    def key_of(self, text: str) -> Any:
        """A key as it is in Python."""
        return self.model._meta.pk.to_python(text)

    def due_keys(self) -> QuerySet[Any, Any] | Sequence[Any]:
        """What the sweep publishes, besides what was published before and waits for a worker."""
        if self.due is not None:
            return self.due()
        rows: Any = self.model._default_manager
        keys: QuerySet[Any, Any] = rows.due().values_list("pk", flat=True)
        return keys

    def unfinished(self) -> QuerySet[Any]:
        """What metrics count."""
        rows: Any = self.model._default_manager
        return self.waiting() if self.waiting is not None else rows.unfinished()

    def publish(self, *keys: Any, expires: float | None = None) -> None:
        """Have workers do what is due for these keys, after the commit. What is lost, the sweep finds."""
        for key in keys:
            if not send_job(self.job, str(key), expires=expires):
                return

    def sweep(self) -> int:
        """Publish what is due. A later sweep does it again, so these messages expire and do not pile up."""
        keys = list(self.due_keys()[: self.swept_at_once])
        self.publish(*keys, expires=EXPIRE_SECONDS)
        metrics.SWEPT[f"due_{self.name}"].inc(len(keys))
        return len(keys)


def work_lists() -> tuple[WorkList, ...]:
    """Those that apps add."""
    found: tuple[WorkList, ...] = added["work_lists"]
    return found


class SweepFailed(Exception):
    """Some lists could not be swept."""


def sweep() -> int:
    """Gives workers what is due in all lists: what waited, and what messages and dead workers lost."""
    found, failed = 0, []
    for one in work_lists():
        try:
            found += one.sweep()
        except Exception:
            log.exception("the sweep of %s failed; it is tried again with the next", one.name)
            failed.append(one.name)
    if failed:
        raise SweepFailed(f"The log says why: {', '.join(failed)}.")
    return found
