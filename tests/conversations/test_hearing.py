"""A follower hears of every event, also of one that is announced while it begins to follow."""

import asyncio
import threading
import uuid

from apps.conversations import feed


class Interrupting(dict):
    """While it is read, another thread announces an event, as far as it gets."""

    def __init__(self, announce):
        super().__init__()
        self._announce = announce
        self.thread = None

    def get(self, key, default=None):
        found = super().get(key, default)
        if self.thread is None:
            self.thread = threading.Thread(target=self._announce)
            self.thread.start()
            self.thread.join(0.2)
        return found


async def test_an_event_that_is_announced_while_somebody_begins_to_follow_is_heard():
    context = uuid.uuid4()
    hub = feed.Hub(asyncio.get_running_loop())
    try:
        hub._recent = recent = Interrupting(lambda: hub._reached(str(context), 7))
        with hub.reader(context) as reader:
            recent.thread.join()
            async with asyncio.timeout(1):
                await reader.grown_beyond(6)
    finally:
        hub._stop_listening()
        hub._poll.cancel()
