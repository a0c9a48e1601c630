"""Sends to agents that call each other, and waits for results."""

import asyncio

import db
from apps.engine import send
from apps.engine.send import wait_until_settled

SOON = 20


async def sent(principal, agent, message):
    return await send.send(principal, agent, message)


async def ended(receipt, within=SOON):
    async with asyncio.timeout(within):
        return await wait_until_settled(receipt.context, receipt.task, 0, lambda task: task)


async def done(principal, agent, message):
    return await ended(await sent(principal, agent, message))


async def until(condition, within=SOON):
    async with asyncio.timeout(within):
        while not (found := await db.run(condition)):  # noqa: ASYNC110 - what is waited for is in the database
            await asyncio.sleep(0.02)
    return found


def words(task):
    return "".join(part.get("text", "") for part in task.status_message["parts"])
