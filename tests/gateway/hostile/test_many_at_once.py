"""Hung agents take nothing from the others of their worker, and its streams need no thread each."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from asgiref.sync import sync_to_async

from apps.conversations.lifecycle import TaskState
from apps.conversations.models import Run, Task
from tests.gateway.conversing import Talk, delivered, is_whole, remote_agent, until
from tests.gateway.hostile import villain as v
from tests.gateway.hostile.ordeals import STREAM, WELL
from tests.gateway.hostile.villain import Call, villain

pytestmark = pytest.mark.django_db(transaction=True)

HUNG = 20
STREAMS = 100
PROMPT = 30.0  # seconds on a busy machine, while the others hang for longer; it is a tenth of one on an idle one


@pytest.fixture(autouse=True)
def _patient(_impatient, settings):
    settings.REMOTE_CONNECT_SECONDS = settings.REMOTE_IDLE_SECONDS = 60.0


async def talk_to(bad: v.Villain, ada, slug: str) -> Talk:
    return Talk(ada, await sync_to_async(remote_agent)(bad.card, slug))


@pytest.mark.services("turns that hang take no room from others")
async def test_hung_agents_hold_up_nobody(settings, worker, ada, echo):
    settings.RUNS_PER_PROCESS = 5  # fewer than hang

    async def hangs(call: Call) -> None:
        if len(bad.called(STREAM)) % 2:
            await call.events(*v.conversation(call)[:3])
        await call.hang()

    async with villain() as bad, villain() as good:
        bad.on |= {STREAM: hangs, "GetTask": hangs, "SubscribeToTask": hangs}
        hanging = await talk_to(bad, ada, "hanging")
        hung = await asyncio.gather(*(Talk(ada, hanging.agent).say("Do it.") for _ in range(HUNG)))
        await until(lambda: Run.objects.filter(remote__sent=True).count() == HUNG)
        await until(lambda: len(bad.called(STREAM)) == HUNG)
        for healthy in (await talk_to(good, ada, "healthy"), Talk(ada, echo)):
            began = time.monotonic()
            task = await healthy.ask("hello")
            assert time.monotonic() - began < PROMPT
            assert task.state == TaskState.COMPLETED
        bad.on = {}  # it has recovered, and is still the same server
        assert (await hanging.ask("hello")).state == TaskState.COMPLETED
        assert await Run.objects.filter(state=Run.State.RUNNING).acount() == HUNG  # the others hang on
        for task in hung:
            await hanging.cancel(task)
        await until(lambda: not Run.objects.filter(state=Run.State.RUNNING).exists())
    assert await sync_to_async(lambda: all(map(is_whole, hung)))()


@pytest.mark.slow("a hundred streams at once")
async def test_a_hundred_streams_of_one_worker_need_no_thread_each(worker, ada):
    arrived, go_on = [], asyncio.Event()

    async def waits_for_all(call: Call) -> None:
        events = v.conversation(call)
        await call.events(*events[:3])
        arrived.append(call)
        await go_on.wait()
        for event in events[3:]:
            await call.event(event)

    async with villain() as good:
        good.on[STREAM] = waits_for_all
        talk = await talk_to(good, ada, "streaming")
        go_on.set()
        assert (await talk.ask("Do it.")).state == TaskState.COMPLETED  # what the first one needs is no part
        go_on.clear()
        before = threading.active_count()
        tasks = await asyncio.gather(*(Talk(ada, talk.agent).say("Do it.") for _ in range(STREAMS)))
        await until(lambda: len(arrived) == STREAMS + 1, within=60)
        assert threading.active_count() < before + 20
        go_on.set()
        await until(lambda: Task.objects.filter(state=TaskState.COMPLETED).count() == STREAMS + 1, within=60)
        assert threading.active_count() < before + 20

    def all_of() -> list[dict[str, str]]:
        return [delivered(task) for task in tasks]

    assert await sync_to_async(all_of)() == [{"answer": WELL}] * STREAMS
