"""Hands what comes while a remote agent works to its task: messages, and the wish to stop after a step.

For agents whose card has the extension (`docs/extensions/steering-v1.md`). To others, a message is the next turn.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from itertools import takewhile

from google.protobuf.json_format import MessageToDict

from agentkit import TaskContext
from apps.engine.turns.inbox import TaskMail
from apps.record.events import JSON
from apps.record.models import Message
from apps.remote.a2a_client import Peer
from apps.remote.agent_cards.cards import STEERING_EXTENSION
from apps.remote.errors import RemoteError
from apps.remote.execution import runs, snapshots
from apps.remote.execution.runs import RemoteRun
from parley import db

log = logging.getLogger("parley.remote")

RETRY_SECONDS = 1.0
NEXT_TURN = "nextTurn"


class Steering:
    """The messages of one turn of a remote agent. One counts as read when the agent says so, or, if what it does not
    read is its own next turn, when it has taken it.

    Attributes:
        uri: of the extension, as the agent's card has it; "" if it has none.
    """

    def __init__(self, remote_run: RemoteRun, peer: Peer, task: TaskContext) -> None:
        declared = (one for one in peer.card.capabilities.extensions if one.uri.endswith(STEERING_EXTENSION))
        extension = next(declared, None)
        self._keeps = extension is not None and MessageToDict(extension.params).get("unread") == NEXT_TURN
        # One that would take a repeated message for another one gets none.
        is_usable = extension is not None and (peer.is_authenticated or not self._keeps)
        self.uri = extension.uri if extension is not None and is_usable else ""
        self._remote_run, self._peer, self._task = remote_run, peer, task
        self._run = remote_run.assignment.lease.run_id
        assert isinstance(task.mail, TaskMail)
        self._mail = task.mail
        self._named = asyncio.Event()
        self._noting = asyncio.Lock()
        self._tried: set[uuid.UUID] = set()  # the keys of messages that were sent, or are not
        self._is_refused = False  # was one not handed on? Then all after it are the next turn

    def begin(self) -> None:
        """The agent has named its task, which is at work."""
        self._named.set()

    def begin_again(self) -> None:
        """The turn begins again in another process of the agent, which has read nothing."""
        self._remote_run.assignment.read_until = 0
        self._tried.clear()
        self._is_refused = False

    @asynccontextmanager
    async def alongside(self) -> AsyncIterator[None]:
        """Forward in the block what comes."""
        works = [self._forward_messages(), self._forward_stop()] if self.uri else []
        tasks = [asyncio.create_task(one) for one in works]
        try:
            yield
        finally:
            for one in tasks:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)  # an error of the record also ends the turn

    async def taken_from(self, event: JSON) -> JSON:
        """The event without what it says of messages, which is recorded. Raises LeaseLost, RecordLost."""
        if not self.uri:
            return event
        for kind in ("statusUpdate", "task"):
            metadata = (event.get(kind) or {}).get("metadata") or {}
            if self.uri not in metadata:
                continue
            said = metadata[self.uri].get("read") if isinstance(metadata[self.uri], dict) else None
            await self._note_read([one for one in said or () if isinstance(one, str)])
            others = {name: one for name, one in metadata.items() if name != self.uri}
            body = {name: one for name, one in event[kind].items() if name != "metadata"}
            return {**event, kind: body | ({"metadata": others} if others else {})}
        return event

    async def _note_read(self, ids: list[str]) -> None:
        """They are read in their order: of what it says out of turn, the agent gets the rest as its next turn."""
        async with self._noting:
            waiting = await self._mail.unread() if ids else []
            rows = list(takewhile(lambda row: str(row.pk) in ids, waiting))
            if rows:
                await self._mail.note_read(rows)
                await db.persist(runs.save_seen, self._remote_run, rows[-1].message_id)

    async def _forward_messages(self) -> None:
        await self._named.wait()
        while True:
            for row in await self._mail.unread():
                if row.pk not in self._tried and not self._is_refused:
                    self._tried.add(row.pk)
                    self._is_refused = not await self._forward(row)
            await self._mail.arrival()

    async def _forward(self, row: Message) -> bool:
        """Whether the agent took it. Messages are read in their order, so none goes past one that it does not take."""
        message = await db.run(snapshots.steering_message, self._remote_run.assignment, row, self._remote_run.task_id)
        if message is None:
            return False
        message["extensions"] = [self.uri]
        while True:
            try:
                sending = self._peer.send(message, {"returnImmediately": True}, streaming=False)
                async with aclosing(sending) as events:
                    async for event in events:
                        await self.taken_from(event)
                break
            except RemoteError as error:
                if not error.is_transient:
                    log.info("the agent of run %s takes no message now: %s", self._run, error)
                    return False
                await asyncio.sleep(RETRY_SECONDS)
        if self._keeps:
            await self._note_read([str(row.pk)])
        return True

    async def _forward_stop(self) -> None:
        await self._task.stop_after_step.wait()
        await self._named.wait()
        try:
            await self._peer.cancel(self._remote_run.task_id, metadata={self.uri: {"afterStep": True}})
        except RemoteError as error:
            log.info("the agent of run %s does not stop after its step: %s", self._run, error)
