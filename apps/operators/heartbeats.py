"""Calls that tell a watcher outside, such as healthchecks.io or Cronitor, that all is well.

Where they stop, the watcher tells somebody: also when nothing here can.
"""

from __future__ import annotations

import asyncio
import logging

from django.conf import settings

from parley import outbound
from parley.db.sql import database_time
from parley.outbound.targets import allowed_hosts

log = logging.getLogger("parley.operators")

LIMITS = outbound.Limits(seconds=30.0, connect_seconds=20.0, bytes=64 * 1024)


def tell_all_works() -> str | None:
    """The periodic job: beat, the broker, a worker and the database work. Gives a line for the page of jobs.

    Raises DatabaseError.
    """
    database_time()
    return tell(settings.HEARTBEAT_URL) if settings.HEARTBEAT_URL else None


def tell(url: str) -> str:
    """GET the watcher's address, which may be private, because an operator set it. Gives a line; raises nothing."""
    try:
        status = asyncio.run(_call(url))
    except (outbound.OutboundError, OSError) as error:
        said = f"The watcher cannot be called: {error}"
    else:
        if status < 300:
            return "The watcher was told."
        said = f"The watcher answered with status {status}."
    log.warning(said)
    return said


async def _call(url: str) -> int:
    exchange = outbound.exchange(LIMITS, also=allowed_hosts(url))
    async with exchange as way, way.send("GET", url, {}) as answer:
        return answer.status
