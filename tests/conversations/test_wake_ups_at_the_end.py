"""Saying that a context has grown never fails: by then it is committed."""

import asyncio
import uuid

from apps.conversations import feed, wakeups


async def test_a_loop_that_ends_just_then_does_not_fail_who_announces(monkeypatch):
    """Between the look whether a follower's loop is there and the call, it may end."""
    feed.listening()
    context = uuid.uuid4()
    with feed._hub().reader(context) as reader:

        def ended(*_):
            raise RuntimeError("Event loop is closed")

        with monkeypatch.context() as patched:
            patched.setattr(asyncio.get_running_loop(), "call_soon_threadsafe", ended)
            wakeups._deliver(wakeups.REACHED, str(context), 3)
        assert reader._known == 0
