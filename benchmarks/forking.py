"""Forking a long session should cost the same as forking a short one."""

from __future__ import annotations

import time

import httpx

from benchmarks.figures import Figures, latencies
from benchmarks.scale import Scale
from benchmarks.target import Target

SHORT = 10  # messages of the short session
ONLY_MESSAGES = "2"

_made: dict[str, tuple[str, str]] = {}  # by target: the short session and the long one


def fill(target: Target, scale: Scale) -> None:
    short, long = (
        target.inside.python("-m", "benchmarks.sessions", "0", str(messages), ONLY_MESSAGES).stdout.strip()
        for messages in (SHORT, scale.messages)
    )
    _made[target.name] = short, long


async def fork(target: Target, scale: Scale) -> Figures:
    """A fork over HTTP; quotas allow `ACTS_PER_MINUTE`."""
    short, long = _made[target.name]
    places = {
        f"of {SHORT} messages": (short, SHORT),
        f"of {scale.messages:,} messages": (long, scale.messages),
        f"in the middle of {scale.messages:,}": (long, scale.messages // 2),
    }
    headers = {"Authorization": f"Bearer {target.key}"}
    async with httpx.AsyncClient(base_url=f"{target.url}/api/v1", headers=headers, timeout=60) as http:
        figures: Figures = {}
        for title, (session, at) in places.items():
            seconds = [await _forked(http, session, at) for _ in range(scale.forks)]
            figures |= latencies(seconds, title, 50, 100)
    return figures


async def _forked(http: httpx.AsyncClient, session: str, at: int) -> float:
    began = time.perf_counter()
    answer = await http.post(f"/sessions/{session}/fork", json={"at": at})
    seconds = time.perf_counter() - began
    assert answer.status_code == 201, answer.text
    assert answer.json()["session"]["metadata"]["forkedAt"] == at
    return seconds
