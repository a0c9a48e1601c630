"""Hung agents do not slow down others, and streams need no thread each."""

from __future__ import annotations

import asyncio
import time

import pytest
from asgiref.sync import sync_to_async

from apps.record.execution import Run
from apps.record.models import TaskState
from tests.remote.conversing import Talk, is_whole, remote_agent, until
from tests.remote.hostile import villain as v
from tests.remote.hostile.ordeals import STREAM
from tests.remote.hostile.villain import Call, villain

pytestmark = pytest.mark.django_db(transaction=True)

HUNG = 20
STREAMS = 100
PROMPT = 30.0  # seconds on a busy machine; the others hang for longer. An idle machine needs a tenth


@pytest.fixture(autouse=True)
def _patient(_impatient, settings):
    settings.REMOTE_CONNECT_SECONDS = settings.REMOTE_IDLE_SECONDS = 60.0


async def talk_to(bad: v.Villain, ada, slug: str) -> Talk:
    return Talk(ada, await sync_to_async(remote_agent)(bad.card, slug))


@pytest.mark.services("turns that hang take no room from others")
async def test_hung_agents_hold_up_nobody(settings, worker, ada, echo):
    settings.RUNS_PER_PROCESS = 5

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
        bad.on = {}  # the same server has recovered
        assert (await hanging.ask("hello")).state == TaskState.COMPLETED
        assert await Run.objects.filter(state=Run.State.RUNNING).acount() == HUNG
        for task in hung:
            await hanging.cancel(task)
        await until(lambda: not Run.objects.filter(state=Run.State.RUNNING).exists())
    assert await sync_to_async(lambda: all(map(is_whole, hung)))()
