"""kill -9 between a webhook's call and the note of it: it is called again, and what follows keeps its order."""

from __future__ import annotations

import asyncio

from tests.a2a.receiving import receiver
from tests.faults.calling import Caller, message
from tests.faults.test_killed_workers import kill_the_worker
from tests.stack import Stack


async def test_a_call_that_was_not_noted_is_made_again(frail: Stack, countdown: Caller) -> None:
    async with receiver() as hook:
        hook.waits_for = answering = asyncio.Event()
        configuration = {"returnImmediately": True, "taskPushNotificationConfig": {"url": hook.url}}
        sent = await asyncio.to_thread(countdown.call, "SendMessage", message=message("1"), configuration=configuration)
        await hook.have(1)
        await asyncio.to_thread(countdown.ended, sent["task"], within=30)
        await asyncio.to_thread(kill_the_worker, frail)
        hook.waits_for = None
        answering.set()
        await hook.have_heard("completed")
    assert hook.told[0] == "working"
    once = hook.told[1:]
    assert once[0] == "working"
    assert once[-1] == "completed"
    assert once[1:-1] == ["artifact"] * len(once[1:-1])
    assert hook.calls[0].body == hook.calls[1].body
