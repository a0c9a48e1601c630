"""Following a remote task to where it settles: by its stream, by looking at it now and then, by its calling back.

However the news comes, what the agent says when it is asked for the task is what counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress

from django.conf import settings

import db
from agentkit import Emission, Progress
from apps.record import notes
from apps.record.events import JSON
from apps.record.leases import LeaseLost
from apps.remote import attaching, breaker, canceling, nudges, receiving
from apps.remote.attaching import Attachment
from apps.remote.connecting import Peer
from apps.remote.errors import CutOff, Misbehaved, Overloaded, Refused, RemoteError
from apps.remote.transforming import Transformation, is_settled, state_of

log = logging.getLogger("parley.remote")

ENDING_SECONDS = 0.1  # that a stream may take to end once its task has
HISTORY = 1  # messages of a task that are asked for: its last may be what it says at the end
Emit = Callable[[Emission], Awaitable[None]]


class Answered(Exception):
    """The agent answered with a message and no task."""

    def __init__(self, message: JSON) -> None:
        super().__init__()
        self.message = message


class Gone(Exception):
    """The agent was away for too long, in the middle of its work. `str()` is a sentence for people."""

    code = "agent_gone"


class Following:
    """One remote task, from the first that is heard of it to where it settles.

    Attributes:
        hints: the metadata of the last status update.
    """

    def __init__(self, peer: Peer, attachment: Attachment, emit: Emit) -> None:
        self._heard = False
        self.hints: JSON = {}
        self.said: Transformation
        self._peer, self._attachment, self._emit = peer, attachment, emit
        self._run = attachment.assignment.hold.run_id
        self._name = attachment.assignment.agent.name
        self._streams = peer.streams
        self._calls_back: bool | None = None if peer.calls_webhooks else False
        self._loop = asyncio.get_running_loop()
        self._news_at = self._loop.time()
        self._wait = Wait()
        self._settled: JSON | None = None  # the update by which a stream said so
        self._ids: set[str] = set()
        self.said = self._transformation()

    async def settled(self, stream: AsyncIterator[JSON] | None = None) -> JSON:
        """The task when it settles; `stream` is what a message led to. What it says on the way is said.

        Raises Answered, Gone, RemoteError.
        """
        if stream is None and self._streams:
            stream = self._subscribed()
        with nudges.listening(self._run) as nudged:
            while True:
                if stream is not None:
                    await self._read(stream)
                # What an agent that does not stream has just said need not be asked for.
                if self._streams or stream is None or self._settled is not None:
                    task = await self._confirmed()
                    if task is not None:
                        return task
                await self._pause(nudged)
                stream = self._subscribed() if self._streams else None

    async def finish(self) -> None:
        """Say what is left to be said once the task has completed."""
        await self._say(self.said.ending())

    async def _read(self, stream: AsyncIterator[JSON]) -> None:
        """Take in a stream until it ends, or the task settles. Raises what leaves nothing to be followed."""
        try:
            async with aclosing(self._events(stream)) as events:
                async for event in events:
                    await self._take_in(event)
                    if self._settled is not None:
                        await self._let_end(events)
                        return
        except RemoteError as error:
            if not self._attachment.task_id or isinstance(error, Misbehaved):
                raise
            if isinstance(error, Refused):  # it has ended, or the card says of streams what is not so
                self._streams = self._streams and error.is_transient
            log.info("the stream of run %s broke off: %s", self._run, error)
        else:
            if not self._attachment.task_id:
                raise CutOff("The agent ended its answer without saying anything.")

    async def _events(self, stream: AsyncIterator[JSON]) -> AsyncGenerator[JSON]:
        """The events of a stream. What its task is called is heard even if the turn is stopped before it is said."""
        begun: JSON | None = None
        if not self._attachment.task_id:
            first = asyncio.ensure_future(anext(stream, None))
            try:
                begun = await asyncio.shield(first)
            except asyncio.CancelledError:
                canceling.in_background(self._listen_on(stream, first))
                raise
        async with aclosing(stream):  # type: ignore[type-var]
            if begun is not None:
                yield begun
            async for event in stream:
                yield event

    async def _let_end(self, stream: AsyncIterator[JSON]) -> None:
        """A stream ends right after its task. One that was read to its end leaves its connection to the next call."""
        state = state_of((self._settled or {})["status"])
        if state is None or not state.is_terminal:
            return
        with suppress(TimeoutError, RemoteError):
            async with asyncio.timeout(ENDING_SECONDS):
                async for _ in stream:
                    pass  # what follows the end is none of the task's

    async def _listen_on(self, stream: AsyncIterator[JSON], first: asyncio.Future[JSON | None]) -> None:
        """Have what the agent has begun canceled there, if it names it before long."""
        async with aclosing(stream):  # type: ignore[type-var]
            try:
                async with asyncio.timeout(settings.REMOTE_CANCEL_SECONDS):
                    task = task_in(await first or {})
            except (RemoteError, TimeoutError):
                return
        if task:
            with suppress(LeaseLost):
                await db.persist(attaching.learn, self._attachment, task, is_open=True)
            canceling.soon(self._attachment, is_late=False)

    async def _take_in(self, event: JSON) -> None:
        self._is_there()
        if (message := event.get("message")) is not None:
            if self._attachment.task_id:  # it belongs to the task, and is not the task's end
                await self._say([*self.said.event({"statusUpdate": {"status": {"message": message}}})])
                return
            raise Answered(message)
        if named := task_in(event):
            await self._know(named)
        if (task := event.get("task")) is not None:
            await self._say(self.said.task(task))
            self._settle(task)
            return
        await self._say(self.said.event(event))
        if (update := event.get("statusUpdate")) is not None:
            self.hints = update.get("metadata") or {}
            self._settle(update)

    def _is_there(self) -> None:
        """The agent answers: its breaker need not wait for the end of the turn."""
        if not self._heard:
            self._heard = True
            db.later(breaker.succeeded, self._attachment.assignment.agent)

    def _settle(self, update: JSON) -> None:
        if is_settled(update):
            self._settled = update

    async def _know(self, task: JSON) -> None:
        """Write the task's ids down before anything else of it is taken in. Raises Misbehaved for another task."""
        known = self._attachment.task_id or self._attachment.continues
        if known and known != task["id"]:
            raise Misbehaved(f"{self._name} spoke of another task than the one that it was asked about.")
        if not self._attachment.task_id:
            state = state_of(task["status"])
            is_open = state is None or not state.is_terminal
            await db.persist(attaching.learn, self._attachment, task, is_open=is_open)
            self.said = self._transformation()

    def _transformation(self) -> Transformation:
        status = self._attachment.assignment.task.status_message or {}
        return Transformation(prefix=self._attachment.prefix, heard=str(status.get("messageId", "")))

    async def _confirmed(self) -> JSON | None:
        """The task as the agent says that it is when it is asked; None where it goes on.

        What a stream said of the end and the agent does not repeat for some time, it did not mean. Raises Gone,
        RemoteError.
        """
        streamed = self._settled
        deadline = self._loop.time() + settings.REMOTE_CONFIRM_SECONDS
        while True:
            try:
                task = await self._present()
            except Refused as refusal:
                if streamed is None:
                    raise
                await self._note(f"How the task ended could not be confirmed: {refusal}")
                return {**streamed, "artifacts": streamed.get("artifacts", [])}
            await self._say(self.said.task(task, final=is_settled(task)))
            if is_settled(task):
                return task
            if streamed is None or not (state := state_of(streamed["status"])) or not state.is_terminal:
                self._settled = None  # what it asked for it was given by another way
                return None
            if self._loop.time() > deadline:
                raise Misbehaved(f"{self._name} said that its task had ended, and then that it goes on.")
            await asyncio.sleep(self._wait.next())

    async def _present(self) -> JSON:
        """The task as it is now; tried again for some time while the agent is away. Raises Gone, RemoteError."""
        away_since: float | None = None
        wait = Wait()
        while True:
            try:
                task = await self._peer.get(self._attachment.task_id, history_length=HISTORY)
            except RemoteError as error:
                if not error.is_transient:
                    raise
                now = self._loop.time()
                if away_since is None:
                    away_since = now
                    await self._emit(
                        Progress(f"The connection to {self._name} was lost. Trying to find its work again.")
                    )
                if now - away_since > settings.REMOTE_AWAY_SECONDS:
                    raise Gone(
                        f"{self._name} could not be reached for {now - away_since:.0f} seconds, in the middle of its "
                        "work. What it has done is not known. Ask it again."
                    ) from error
                asked = error.retry_after if isinstance(error, Overloaded) else None
                await asyncio.sleep(min(wait.next(asked), settings.REMOTE_AWAY_SECONDS))
            else:
                self._is_there()
                return task

    async def _pause(self, nudged: asyncio.Event) -> None:
        """Wait for a while before the task is looked at again, or until the agent calls back."""
        quiet = self._loop.time() - self._news_at
        if self._calls_back is None and quiet > settings.REMOTE_PATIENCE_SECONDS:
            self._calls_back = await self._ask_to_call_back()
            self._streams = self._streams and not self._calls_back
        longest = settings.REMOTE_BACKSTOP_SECONDS if self._calls_back else settings.REMOTE_POLL_SECONDS[1]
        try:
            async with asyncio.timeout(self._wait.next(longest=longest)):
                await nudged.wait()
        except TimeoutError:
            return
        nudged.clear()

    async def _ask_to_call_back(self) -> bool:
        try:
            config = await db.run(receiving.webhook_for, self._run)
            await self._peer.set_webhook(self._attachment.task_id, config)
        except RemoteError as error:
            log.info("the agent of run %s does not call back: %s", self._run, error)
            return False
        return True

    async def _say(self, emissions: list[Emission]) -> None:
        if emissions:
            self._news_at = self._loop.time()
            self._wait.restart()
        for emission in emissions:
            try:
                await self._emit(emission)
            except ValueError as error:
                raise Misbehaved(f"{self._name} said something that cannot be kept: {error}") from error

    async def _note(self, text: str) -> None:
        await db.run(notes.leave, self._run, text)

    def _subscribed(self) -> AsyncIterator[JSON]:
        return self._peer.subscribe(self._attachment.task_id, after=self._peer.event_id)


def task_in(event: JSON) -> JSON | None:
    """The task that an event is of, with what the event says of it: its ids and its status."""
    if (task := event.get("task")) is not None:
        return dict(task)
    update = event.get("statusUpdate") or event.get("artifactUpdate") or {}
    if not update.get("taskId"):
        return None
    return {"id": update["taskId"], "contextId": update.get("contextId", ""), "status": update.get("status", {})}


class Wait:
    """Ever longer waits."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self._seconds: float = settings.REMOTE_POLL_SECONDS[0]

    def next(self, at_least: float | None = None, longest: float | None = None) -> float:
        """Seconds to wait now."""
        seconds = min(self._seconds, longest or settings.REMOTE_POLL_SECONDS[1])
        self._seconds = seconds * 1.5
        return max(seconds, at_least or 0.0)
