"""A client that disconnects leaves only the task, which continues."""

import asyncio

import pytest

from apps.record import feed
from apps.record.models import Task
from tests.a2a.agents import steps
from tests.a2a.calling import message

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("streams follow the log")]


def followed() -> int:
    """The number of followed contexts in this event loop."""
    return sum(reader.followers for reader in feed.running_hub()._readers.values())


async def until(condition, seconds=60.0):
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - it happens in another thread or process
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("streams", [True, False])
async def test_who_stops_waiting_frees_their_place_and_their_task_goes_on(worker, ada_at, stepping, streams):
    seen = []

    async def listens():
        async for event in ada_at("stepping").stream("SendStreamingMessage", {"message": message("1")}):
            seen.append(event)

    async def waits():
        return followed() == 1 and len(seen) == (2 if streams else 0)

    listening = asyncio.create_task(listens() if streams else ada_at("stepping").send(message("1")))
    await until(waits)
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    assert followed() == 0
    steps.allow(10)
    await until(Task.objects.filter(state="completed").aexists)
