"""Transactions that write."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from django.db import connection, transaction

_embedded_writer = threading.RLock()  # SQLite has one writer: queueing here is faster than its busy timeout


@contextmanager
def transacting() -> Iterator[None]:
    """A transaction that will write: on SQLite it queues for the one writer before it begins."""
    with _embedded_writer if connection.vendor == "sqlite" else nullcontext(), transaction.atomic():
        yield
