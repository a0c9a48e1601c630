"""Restoring an empty client, syncing it, and connections that are cut often."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx

from benchmarks.figures import Figures
from benchmarks.scale import Scale
from benchmarks.target import Target
from tests.clients.streaming import Client
from tests.faults.calling import Caller

RESTORE = "restore, s"
CUTS = 20
MOST_BYTES = 4000  # before a cut; all cuts together are less than the data
STREAMING = 8  # sessions that stream during cuts

_long: dict[str, str] = {}  # by target: the long session


def fill(target: Target, scale: Scale) -> None:
    made = target.inside.python("-m", "benchmarks.sessions", str(scale.sessions), str(scale.events))
    _long[target.name] = made.stdout.strip()


async def restore(target: Target, scale: Scale) -> Figures:
    headers = {"Authorization": f"Bearer {target.key}"}
    async with httpx.AsyncClient(base_url=f"{target.url}/api/v1", headers=headers, timeout=60) as http:
        began = time.perf_counter()
        (sessions, token), active = await asyncio.gather(_sessions(http), _whole(http, _long[target.name]))
        seconds = time.perf_counter() - began
        assert len(sessions) > scale.sessions
        assert len(active["events"]) >= scale.events
        quiet = await http.get("/sessions", params={"since": token})
        await http.patch(f"/sessions/{_long[target.name]}", json={"title": f"Renamed {began}"})
        changed = await http.get("/sessions", params={"since": quiet.json()["token"]})
        assert [one["id"] for one in changed.json()["items"]] == [_long[target.name]]
    sizes = {"quiet sync, bytes": float(len(quiet.content)), "sync of one change, bytes": float(len(changed.content))}
    return {RESTORE: seconds, **sizes}


async def _sessions(http: httpx.AsyncClient) -> tuple[list[Any], str]:
    """All sessions, and the sync cursor before the first page."""
    found: list[Any] = []
    token, cursor = "", ""
    while True:
        page = (await http.get("/sessions", params={"limit": 100, "cursor": cursor, "archived": "all"})).json()
        found, token, cursor = found + page["items"], token or page["token"], page["nextCursor"]
        if not cursor:
            return found, token


async def _whole(http: httpx.AsyncClient, session: str) -> Any:
    return (await http.get(f"/sessions/{session}", params={"events_limit": 10_000})).json()


async def cuts(target: Target, scale: Scale) -> Figures:
    """Clients of streaming sessions, cut at random bytes: lost and repeated events."""
    clients = [Client(target.url, target.key) for _ in range(scale.cut_clients)]
    await asyncio.gather(*(client.begin() for client in clients))
    caller = Caller(target.inside, "countdown")
    began = time.perf_counter()
    tasks = await asyncio.gather(*(asyncio.to_thread(caller.send, "60") for _ in range(STREAMING)))
    expected: dict[str, list[tuple[int, str]]] = {}

    def has_all(client: Client) -> bool:
        return bool(expected) and all(len(client.logs[session]) >= len(log) for session, log in expected.items())

    following = [
        asyncio.create_task(client.follow(lambda one=client: has_all(one), CUTS, seed, MOST_BYTES))  # type: ignore[misc]
        for seed, client in enumerate(clients)
    ]
    for task in tasks:
        await asyncio.to_thread(caller.ended, task, 300)
    expected |= await _logs(target, [task["contextId"] for task in tasks])
    await asyncio.to_thread(caller.send, "0")  # wakes up clients that wait for the end
    await asyncio.gather(*following)
    heard = [(client.logs[session], log) for client in clients for session, log in expected.items()]
    return {
        "lines": float(sum(client.lines for client in clients)),
        "lost": float(sum(len(set(log) - set(told)) for told, log in heard)),
        "doubled": float(sum(len(told) - len(set(told)) for told, _ in heard)),
        "until all had all, s": time.perf_counter() - began,
    }


async def _logs(target: Target, sessions: list[str]) -> dict[str, list[tuple[int, str]]]:
    headers = {"Authorization": f"Bearer {target.key}"}
    async with httpx.AsyncClient(base_url=f"{target.url}/api/v1", headers=headers, timeout=60) as http:
        found = [(session, (await _whole(http, session))["events"]) for session in sessions]
    return {session: [(event["index"], event["type"]) for event in events] for session, events in found}
