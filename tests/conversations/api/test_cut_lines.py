"""Clients with cut connections end with exactly the log."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.clients.streaming import Client
from tests.faults.calling import Caller
from tests.stack import Stack

LOGS = """
import django, json, sys
django.setup()
from apps.record.models import Event
logs = {key: list(Event.objects.filter(context=key).order_by("index").values_list("index", "type"))
        for key in json.loads(sys.argv[1])}
print(json.dumps(logs))
"""


def logs_of(stack: Stack, sessions: list[str]) -> dict[str, list[tuple[int, str]]]:
    found: dict[str, Any] = json.loads(stack.python("-c", LOGS, json.dumps(sessions)).stdout)
    return {session: [(index, name) for index, name in log] for session, log in found.items()}


def count_down(stack: Stack, number: int, start: int) -> list[dict[str, Any]]:
    caller = Caller(stack, "countdown")
    with ThreadPoolExecutor(number) as threads:
        tasks = list(threads.map(lambda n: caller.send(f"{start + n}"), range(number)))
        return list(threads.map(lambda task: caller.ended(task, 120), tasks))


@pytest.mark.parametrize(
    ("number", "cuts", "most", "sessions"),
    [(3, 8, 1500, 2), pytest.param(20, 20, 8000, 8, marks=pytest.mark.slow("twenty clients, each cut twenty times"))],
)
async def test_cut_and_late_clients_get_exactly_the_log(
    server: Stack, number: int, cuts: int, most: int, sessions: int
) -> None:
    clients = [Client(server.url, server.demo_key) for _ in range(number)]
    late = Client(server.url, server.demo_key)
    await asyncio.gather(*(client.begin() for client in (*clients, late)))
    streaming = asyncio.create_task(asyncio.to_thread(count_down, server, sessions, 40))
    expected: dict[str, list[tuple[int, str]]] = {}

    def all_is_told(client: Client) -> bool:
        return bool(expected) and all(len(client.logs[session]) >= len(log) for session, log in expected.items())

    following = [
        asyncio.create_task(client.follow(lambda c=client: all_is_told(c), cuts, seed, most))  # type: ignore[misc]
        for seed, client in enumerate(clients)
    ]
    expected |= await asyncio.to_thread(logs_of, server, [task["contextId"] for task in await streaming])
    nudge = asyncio.create_task(asyncio.to_thread(Caller(server, "echo").send, "the end"))
    async with asyncio.timeout(120):
        await asyncio.gather(*following, nudge)
        await late.follow(lambda: all_is_told(late), cuts, 99, most)
    for client in (*clients, late):
        assert {session: client.logs[session] for session in expected} == expected
    assert all(client.lines > cuts for client in clients)
