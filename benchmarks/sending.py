"""A blocking SendMessage to echo, compared with a request that does nothing."""

from __future__ import annotations

import time

from benchmarks.figures import Figures, latencies
from benchmarks.load import timed
from benchmarks.rpc import Client
from benchmarks.scale import Scale
from benchmarks.target import Target


async def nothing(target: Target, scale: Scale) -> Figures:
    """GET /healthz: the cost of client, connection and server."""
    figures: Figures = {}
    for at_once, count in scale.requests.items():
        seconds, whole = await timed(
            target, lambda client: client.fetch("GET", "/healthz"), count=count, at_once=at_once
        )
        figures |= latencies(seconds, f"{at_once} at once", 50) | {f"{at_once} at once, requests/s": count / whole}
    return figures


async def send(target: Target, scale: Scale) -> Figures:
    figures: Figures = {}
    for at_once, count in scale.requests.items():
        worked = time.process_time()
        seconds, whole = await timed(target, _echo, count=count, at_once=at_once)
        figures |= latencies(seconds, f"{at_once} at once", 50, 95, 99)
        figures[f"{at_once} at once, requests/s"] = count / whole
        figures[f"{at_once} at once, client's own ms"] = (time.process_time() - worked) / (count + at_once) * 1000
    return figures


async def _echo(client: Client) -> None:
    task = await client.send("echo")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
