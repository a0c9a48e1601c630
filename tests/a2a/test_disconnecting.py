"""Who goes away leaves nothing behind but the task, which goes on."""

import asyncio

import httpx
import pytest

import bridge
from apps.conversations import feed
from apps.conversations.models import Task
from tests.a2a.agents import steps
from tests.a2a.calling import message

pytestmark = pytest.mark.django_db(transaction=True)


def followed() -> int:
    """How many contexts are being followed in this event loop."""
    return len(feed._hub()._readers)


async def until(condition, seconds=10.0):
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - it happens in another thread or process
            await asyncio.sleep(0.01)


async def ended():
    return await bridge.run(Task.objects.filter(state="completed").exists)


async def test_a_caller_that_stops_waiting_frees_its_place_and_its_task_goes_on(worker, ada_at, stepping):
    async def waits():
        return followed() == 1

    waiting = asyncio.create_task(ada_at("stepping").send(message("1")))
    await until(waits)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert followed() == 0
    steps.allow(10)
    await until(ended)


async def test_a_stream_that_is_left_frees_its_place_and_its_task_goes_on(worker, ada_at, stepping):
    seen = []

    async def listens():
        async for event in ada_at("stepping").stream("SendStreamingMessage", {"message": message("1")}):
            seen.append(event)

    async def waits():
        return len(seen) == 2 and followed() == 1

    listening = asyncio.create_task(listens())
    await until(waits)
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    assert followed() == 0
    steps.allow(10)
    await until(ended)


async def test_a_client_that_hangs_up_does_not_stop_its_task(server):
    headers = {"Authorization": f"Bearer {server.demo_key}", "A2A-Version": "1.0"}
    sent = {"message": message("40", contextId="hung up")}
    async with httpx.AsyncClient(base_url=server.url, headers=headers) as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": sent}
        with pytest.raises(httpx.ReadTimeout):
            await http.post("/a2a/countdown", json=body, timeout=1.0)

        async def completed():
            listing = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"contextId": "hung up"}}
            answer = (await http.post("/a2a/countdown", json=listing)).json()
            return [task["status"]["state"] for task in answer["result"]["tasks"]] == ["TASK_STATE_COMPLETED"]

        await until(completed)
