"""A queue, the broker or a server is lost, also with many callers."""

from __future__ import annotations

import asyncio

import pytest

from tests.clients.streaming import Client, logs_of
from tests.faults.calling import Caller
from tests.faults.goings import work_on_without

pytestmark = pytest.mark.services("several processes and a real broker", only=True)


def test_broker_may_be_out_of_reach(frail, broker_line, tmp_path):
    work_on_without(frail, broker_line.cut, broker_line.mend, tmp_path)


async def test_client_hears_each_event_once_despite_kill(frail, countdown):
    clients = [Client(frail.url, frail.demo_key) for _ in range(3)]
    await asyncio.gather(*(client.begin() for client in clients))
    expected: list[tuple[int, str]] = []
    task = await asyncio.to_thread(countdown.send, "60")
    session = task["contextId"]

    def is_told(client: Client) -> bool:
        return bool(expected) and len(client.logs[session]) >= len(expected)

    following = [
        asyncio.create_task(client.follow(lambda c=client: is_told(c), cuts=5, seed=seed, most=2000))  # type: ignore[misc]
        for seed, client in enumerate(clients)
    ]
    async with asyncio.timeout(60):
        while min(len(client.logs[session]) for client in clients) < 15:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await asyncio.to_thread(frail.kill, "web")
    await asyncio.to_thread(frail.start)
    await asyncio.to_thread(countdown.ended, task, 120)
    expected += (await asyncio.to_thread(logs_of, frail, [session]))[session]
    await asyncio.to_thread(Caller(frail, "echo").send, "the end")
    async with asyncio.timeout(120):
        await asyncio.gather(*following)
    assert all(client.logs[session] == expected for client in clients)
