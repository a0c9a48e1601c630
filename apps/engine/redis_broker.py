"""Redis as the broker, with one client for all that a channel publishes: making one takes longer than publishing."""

from __future__ import annotations

from typing import Any

from kombu.transport import redis


class Channel(redis.Channel):  # type: ignore[misc]
    _publishing: Any = None

    def _create_client(self, asynchronous: bool = False) -> Any:
        """The one that polls for work is another, as in kombu."""
        if asynchronous:
            return super()._create_client(asynchronous=True)
        if self._publishing is None:
            self._publishing = super()._create_client()
        return self._publishing


class Transport(redis.Transport):  # type: ignore[misc]
    Channel = Channel
