"""Who follows sessions hears each event once though the server dies under the line, and under what is being said."""

from __future__ import annotations

import asyncio

from tests.api.streaming import Client
from tests.api.test_cut_lines import logs_of
from tests.faults.calling import Caller
from tests.stack import Stack


async def test_a_client_outlives_a_server_that_is_killed(frail: Stack, countdown: Caller) -> None:
    clients = [Client(frail.url, frail.demo_key) for _ in range(3)]
    await asyncio.gather(*(client.begin() for client in clients))
    expected: list[tuple[int, str]] = []
    task = await asyncio.to_thread(countdown.send, "100")
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
    await asyncio.to_thread(frail.kill, "serve" if frail.is_embedded else "daphne")
    await asyncio.to_thread(frail.start)
    await asyncio.to_thread(countdown.ended, task, 120)
    expected += (await asyncio.to_thread(logs_of, frail, [session]))[session]
    await asyncio.to_thread(Caller(frail, "echo").send, "the end")
    async with asyncio.timeout(120):
        await asyncio.gather(*following)
    assert all(client.logs[session] == expected for client in clients)
