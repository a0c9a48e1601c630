"""Sending to agents that call each other, and waiting for what becomes of it."""

import asyncio

import bridge
from apps.runtime import sending
from apps.runtime.sending import settled

SOON = 20


async def sent(principal, agent, message):
    return await sending.send(principal, agent, message)


async def ended(receipt, within=SOON):
    """The task once it has ended or asks."""
    async with asyncio.timeout(within):
        return await settled(receipt.context, receipt.task, 0, lambda task: task)


async def done(principal, agent, message):
    return await ended(await sent(principal, agent, message))


async def until(condition, within=SOON):
    """Wait until what is in the database is so."""
    async with asyncio.timeout(within):
        while not (found := await bridge.run(condition)):  # noqa: ASYNC110 - what is waited for is in the database
            await asyncio.sleep(0.02)
    return found


def words(task):
    return "".join(part.get("text", "") for part in task.status_message["parts"])
