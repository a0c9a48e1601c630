"""The messages that arrive for a task while its turn runs: what `task.inbox` reads of the record.

Reading is an event, written before the handler has the message, with the fence of the run. A turn that reads nothing
asks the database for nothing. What a turn has read when it ends waits for no turn of its own (`finish`); after a crash
it waits again (`claim`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing

from agentkit import Message as Said
from apps.engine.sql import LATER_MESSAGES
from apps.engine.turns.assignment import Assignment, handler_message
from apps.engine.turns.guarding import SteeredMessages
from apps.engine.turns.output import NewEvent
from apps.engine.turns.recorder import Recorder
from apps.record.events import EventType
from apps.record.execution import Run
from apps.record.models import Message
from apps.record.reading import feed
from parley import db

MOST_AT_ONCE = 20  # messages


class TaskMail:
    """The `agentkit.inbox.Mail` of one turn."""

    def __init__(self, assignment: Assignment, recorder: Recorder) -> None:
        self._assignment, self._recorder = assignment, recorder
        self._steered = SteeredMessages(assignment, recorder)
        self._one_at_a_time = asyncio.Lock()
        self._again: deque[Message] | None = None if assignment.original is not None else deque()
        self._looked_at: float | None = None  # when the record was last asked
        self._reached = 0  # the newest event that an arrival was told of

    async def take(self, most: int | None = None) -> list[Said]:
        """Raises LeaseLost, RecordLost; then nothing was read."""
        async with self._one_at_a_time:
            if self._again is None:
                self._again = deque(await self._steered.checked(await db.run(_read_before, self._assignment)))
            if self._again:
                return self._said([self._again.popleft() for _ in range(min(most or MOST_AT_ONCE, len(self._again)))])
            rows = await self.unread(most)
            if rows:
                await self.note_read(rows)
            return self._said(rows)

    async def unread(self, most: int | None = None) -> list[Message]:
        """The messages that wait, oldest first. This does not count as reading them."""
        self._looked_at = feed.start_listening()
        return await self._steered.checked(await db.run(_unread, self._assignment, most or MOST_AT_ONCE))

    async def note_read(self, rows: list[Message]) -> None:
        """Record that the turn has read these, up to the last one. If this is canceled, they count as unread.

        Raises LeaseLost, RecordLost.
        """
        until = rows[-1].index
        read = NewEvent(EventType.AGENT_READ, {"messages": [one.message_id for one in rows], "until": until})
        await asyncio.shield(self._recorder.record_now(read))
        self._assignment.read_until = until

    async def arrival(self) -> None:
        context, since = self._assignment.context_id, self._looked_at
        async with aclosing(feed.growth(context, self._reached, since=since, settled=True)) as grown:
            self._reached = await anext(grown)

    def _said(self, rows: list[Message]) -> list[Said]:
        context = self._assignment.task.context
        return [handler_message(row, context) for row in rows]


def _unread(assignment: Assignment, most: int) -> list[Message]:
    after = max(assignment.message.index, assignment.read_until)
    return LATER_MESSAGES.all(assignment.task.pk, after, most)


def _read_before(assignment: Assignment) -> list[Message]:
    """What earlier runs of a repeated turn have read: it reads that again."""
    earlier = Run.objects.filter(
        task=assignment.task.pk, turn__gte=assignment.first_turn, turn__lt=assignment.turn, read_until__gt=0
    )
    ranges = earlier.order_by("turn").values_list("message__index", "read_until")
    return [
        row
        for after, until in ranges
        for row in Message.objects.filter(
            task=assignment.task.pk, role=Message.Role.USER, index__gt=after, index__lte=until
        )
    ]
