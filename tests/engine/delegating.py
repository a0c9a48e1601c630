"""Sends messages and waits for results: by a worker, or turn by turn."""

import asyncio

from apps.engine import accept, send
from apps.engine.send import wait_until_settled
from apps.record import projection
from apps.record.execution import Run
from apps.record.models import Context, Task
from parley import db
from tests.working import carry_out

SOON = 20


async def sent(principal, agent, message):
    return await send.send(principal, agent, message)


async def ended(receipt, within=SOON):
    async with asyncio.timeout(within):
        return await wait_until_settled(receipt.context, receipt.task, 0, lambda task: task)


async def done(principal, agent, message):
    return await ended(await sent(principal, agent, message))


async def take_turn(principal, agent, message):
    """The task after its turn, which is executed here."""
    receipt = await db.run(accept.accept, principal, agent, message)
    if receipt.run is not None:
        await carry_out(receipt.run)
    assert await db.run(projection.differences, receipt.context) == []
    return await task_of(receipt.task)


async def carried_on(key):
    """The task after its next turn, if one waits, which is executed here."""
    if (run := await Run.objects.filter(task=key, state="queued").afirst()) is not None:
        await carry_out(run.pk)
    return await task_of(key)


async def task_of(key):
    return await Task.objects.select_related("context", "agent").aget(pk=key)


async def run_of(task):
    return await Run.objects.select_related("message").aget(task=task)


async def until(condition, within=SOON):
    async with asyncio.timeout(within):
        while not (found := await db.run(condition)):  # noqa: ASYNC110 - what is waited for is in the database
            await asyncio.sleep(0.02)
    return found


async def the_record_holds():
    for context in await db.run(list, Context.objects.all()):
        assert await db.run(projection.differences, context.pk) == []


def words(task):
    return "".join(part.get("text", "") for part in task.status_message["parts"])
