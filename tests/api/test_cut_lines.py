"""Lines that are cut at any byte lose nothing and double nothing: clients end with exactly the log."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.api.streaming import Client
from tests.faults.calling import Caller
from tests.stack import Stack

CLIENTS, CUTS, SESSIONS = 20, 20, 8

LOGS = """
import django, json, sys
django.setup()
from apps.conversations.models import Event
logs = {key: list(Event.objects.filter(context=key).order_by("index").values_list("index", "type"))
        for key in json.loads(sys.argv[1])}
print(json.dumps(logs))
"""


def logs_of(stack: Stack, sessions: list[str]) -> dict[str, list[tuple[int, str]]]:
    """What the database has of each session."""
    found: dict[str, Any] = json.loads(stack.python("-c", LOGS, json.dumps(sessions)).stdout)
    return {session: [(index, name) for index, name in log] for session, log in found.items()}


def count_down(stack: Stack, number: int, start: int) -> list[dict[str, Any]]:
    """Begin so many sessions that count down; gives their tasks as they are in the end."""
    caller = Caller(stack, "countdown")
    with ThreadPoolExecutor(number) as threads:
        tasks = list(threads.map(lambda n: caller.send(f"{start + n}"), range(number)))
        return list(threads.map(lambda task: caller.ended(task, 120), tasks))


async def heard(stack: Stack, clients: list[Client], cuts: int) -> list[str]:
    """Have clients be told what some sessions stream, through so many cuts; gives the sessions."""
    await asyncio.gather(*(client.begin() for client in clients))
    streaming = asyncio.create_task(asyncio.to_thread(count_down, stack, SESSIONS, 40))
    expected: dict[str, list[tuple[int, str]]] = {}

    def all_is_told(client: Client) -> bool:
        return bool(expected) and all(len(client.logs[session]) >= len(log) for session, log in expected.items())

    following = [
        asyncio.create_task(client.follow(lambda c=client: all_is_told(c), cuts, seed))  # type: ignore[misc]
        for seed, client in enumerate(clients)
    ]
    sessions = [task["contextId"] for task in await streaming]
    expected |= await asyncio.to_thread(logs_of, stack, sessions)
    nudge = asyncio.create_task(asyncio.to_thread(Caller(stack, "echo").send, "the end"))
    async with asyncio.timeout(120):
        await asyncio.gather(*following, nudge)
    for client in clients:
        assert {session: client.logs[session] for session in sessions} == expected
    return sessions


async def test_clients_that_are_cut_often_end_with_exactly_the_log(server: Stack) -> None:
    clients = [Client(server.url, server.demo_key) for _ in range(CLIENTS)]
    await heard(server, clients, CUTS)
    assert all(client.lines > CUTS for client in clients)


async def test_two_tabs_and_a_phone_see_the_same(server: Stack) -> None:
    tabs, phone = [Client(server.url, server.demo_key) for _ in range(2)], Client(server.url, server.demo_key)
    sessions, _ = await asyncio.gather(heard(server, tabs, 0), phone.begin())
    seen = {session: tabs[0].logs[session] for session in sessions}
    async with asyncio.timeout(120):
        await phone.follow(lambda: all(len(phone.logs[one]) >= len(seen[one]) for one in seen), 30, 5, 20_000)
    assert {session: tabs[1].logs[session] for session in sessions} == seen
    assert {session: phone.logs[session] for session in sessions} == seen
