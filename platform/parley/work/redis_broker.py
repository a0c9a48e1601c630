"""kombu's Redis transport, for `parley.celery`: a module of its own, because not every installation has Redis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kombu.transport import redis


class RedisChannel(redis.Channel):  # type: ignore[misc]
    """Keeps the client that it publishes with. kombu makes one for each message, which takes a third of the time."""

    _kept: Any = None

    @contextmanager
    def conn_or_acquire(self, client: Any = None) -> Iterator[Any]:
        if client is None and (self._kept is None or self._kept.connection_pool is not self.pool):
            with super().conn_or_acquire() as self._kept:
                pass
        yield self._kept if client is None else client


class RedisTransport(redis.Transport):  # type: ignore[misc]
    Channel = RedisChannel
