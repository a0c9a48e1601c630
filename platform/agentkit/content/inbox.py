"""Messages that arrive for a task while its turn runs.

A message that the turn reads does not become a turn of its own. One that nobody has read when the turn ends does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from agentkit.content.messages import Message
from agentkit.errors import Stopped

STOPPED = "Stopped here, as you asked."
"""What an answer ends with whose agent was asked to stop after a step."""


class Mail(Protocol):
    """From the host: what has arrived for the task of a turn."""

    async def take(self, most: int | None = None) -> list[Message]:
        """The oldest messages that the turn has not read, which counts as reading them. It does not wait for any."""
        ...

    async def arrival(self) -> None:
        """Return once there may be a message to take. It may return early, and holds nothing while it waits."""
        ...


@dataclass
class Mailbox:
    """`Mail` in memory, for tests and for agents that serve themselves.

    Attributes:
        waiting: messages that nobody has read, oldest first.
        on_read: called with what was read.
    """

    waiting: deque[Message] = field(default_factory=deque)
    on_read: Callable[[list[Message]], object] | None = None
    _arrived: asyncio.Event = field(default_factory=asyncio.Event, init=False, repr=False)

    @classmethod
    def of(cls, messages: Iterable[Message]) -> Mailbox:
        return cls(deque(messages))

    def put(self, message: Message) -> None:
        """Add a message. Call it on the turn's event loop."""
        self.waiting.append(message)
        self._arrived.set()

    async def take(self, most: int | None = None) -> list[Message]:
        count = len(self.waiting) if most is None else min(most, len(self.waiting))
        taken = [self.waiting.popleft() for _ in range(count)]
        if taken and self.on_read is not None:
            self.on_read(taken)
        return taken

    async def arrival(self) -> None:
        if not self.waiting:
            self._arrived.clear()
            await self._arrived.wait()


@dataclass(frozen=True)
class Inbox:
    """A task's messages that arrive while its turn runs (`task.inbox`). Reading is up to the handler.

        for message in await task.inbox.unread():   # between two steps: never waits
            ...
        async for message in task.inbox:            # waits for each, until somebody asks to stop after this step
            ...

    After a stop, all of it raises `Stopped`.
    """

    mail: Mail
    stop_after_step: asyncio.Event
    is_stopped: Callable[[], bool]

    async def unread(self) -> list[Message]:
        """The messages that have arrived and that this turn has not read, oldest first. It does not wait."""
        self._check()
        return await self.mail.take()

    async def next(self) -> Message | None:
        """The next message. It waits for one; None once somebody asks to stop after this step.

        For less patience, use `asyncio.timeout`: a message that comes too late stays unread.
        """
        while True:
            self._check()
            if taken := await self.mail.take(1):
                return taken[0]
            if self.stop_after_step.is_set():
                return None
            await self._news()

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        message = await self.next()
        if message is None:
            raise StopAsyncIteration
        return message

    async def _news(self) -> None:
        waits = {asyncio.ensure_future(one) for one in (self.mail.arrival(), self.stop_after_step.wait())}
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            for one in waits:
                one.cancel()
            await asyncio.wait(waits)

    def _check(self) -> None:
        if self.is_stopped():
            raise Stopped
