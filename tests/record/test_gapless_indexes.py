"""With concurrent writers, indexes are gapless from 1, and no reader sees N+1 before N."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing

import pytest
from django.db import connection

import db
from apps.engine import accept
from apps.engine.send import send, wait_until_settled
from apps.record import feed, ledger, projection, wire
from apps.record.events import EventType
from apps.record.models import Event, Task

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("writers wait for each other")]
WRITERS, EACH = 8, 15


def write_often(context, name):
    try:
        for number in range(EACH):
            with ledger.writing(context) as log:
                for step in "ab":
                    log.add(EventType.SESSION_RENAMED, {"title": f"{name}.{number}{step}"})
    finally:
        connection.close()


async def read_to(context, last):
    """A follower's indexes, up to `last`."""
    seen = []
    async with aclosing(feed.follow(context)) as batches:
        async for events in batches:
            seen += [event.index for event in events]
            if seen[-1] >= last:
                break
    return seen


async def test_eight_writers_and_their_readers(ada, echo, said):
    context = (await db.run(accept.accept, ada.principal, echo, said())).context
    last = 1 + WRITERS * EACH * 2
    readers = [asyncio.create_task(read_to(context, last)) for _ in range(3)]
    with ThreadPoolExecutor(WRITERS) as threads:
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(threads, write_often, context, n) for n in range(WRITERS)))
    for seen in await asyncio.gather(*readers):
        assert seen == list(range(1, last + 1))
    stored = await db.run(lambda: list(Event.objects.filter(context=context).values_list("index", flat=True)))
    assert stored == list(range(1, last + 1))
    assert await db.run(projection.differences, context) == []


async def test_16_tasks_of_one_context_work_side_by_side(worker, ada, countdown, said):
    first = await send(ada.principal, countdown, said("1", contextId="shared"))
    await wait_until_settled(first.context, first.task, first.index, wire.load_task)
    sent = await asyncio.gather(*(send(ada.principal, countdown, said("2", contextId="shared")) for _ in range(16)))
    await asyncio.gather(*(wait_until_settled(one.context, one.task, one.index, wire.load_task) for one in sent))
    assert {one.context for one in sent} == {first.context}
    states = await db.run(lambda: set(Task.objects.values_list("state", flat=True)))
    assert states == {"completed"}
    assert await db.run(projection.differences, first.context) == []


async def test_a_transaction_that_fails_leaves_no_gap(ada, echo, said):
    context = (await db.run(accept.accept, ada.principal, echo, said())).context

    def write_and_fail():
        with ledger.writing(context) as log:
            log.add(EventType.SESSION_RENAMED, {"title": "never"})
            raise RuntimeError("after an index was given out")

    with pytest.raises(RuntimeError):
        await db.run(write_and_fail)
    await db.run(write_often, context, "next")
    assert await db.run(projection.differences, context) == []
