"""Follows a remote task until it settles: by its stream, by polling, or by webhook calls.

In each case only the task that the agent then returns counts.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress

from django.conf import settings

from agentkit import Emission, Progress
from apps.record.events import JSON
from apps.record.models import TaskState
from apps.record.runs import LeaseLost, add_note
from apps.remote import circuit_breaker
from apps.remote.a2a_client import Peer
from apps.remote.errors import CutOff, Misbehaved, OtherTask, Overloaded, Refused, RemoteError, Unreachable
from apps.remote.execution import cancellation, runs, webhooks
from apps.remote.execution.runs import RemoteRun
from apps.remote.execution.translation import TaskTranslator, is_settled, state_of
from parley import db

log = logging.getLogger("parley.remote")

AT_ONCE_SECONDS = 0.02  # within which a whole task is recorded in one transaction
STREAM_END_SECONDS = 0.1  # to wait for the end of a stream after its task ended
AWAY_POLL_SECONDS = 15.0  # the longest wait between looks for an agent that cannot be reached
HISTORY_LENGTH = 1  # the last message may be the answer
Emit = Callable[[Emission], Awaitable[None]]
TakenFrom = Callable[[JSON], Awaitable[JSON]]


class AnsweredWithMessage(Exception):
    """The agent answered with a message and no task."""

    def __init__(self, message: JSON) -> None:
        super().__init__()
        self.message = message


class AgentGone(Exception):
    """The agent was unreachable for too long during its work. `str()` is a sentence for people."""

    code = "agent_gone"


class AgentMoved(AgentGone):
    """The agent's process that had the task is on another machine."""

    code = "agent_moved"


class TaskFollower:
    """Follows one remote task from its first event until it settles.

    Attributes:
        hints: the metadata of the last status update.
        ended_at_once: did the agent stream the whole task in its first moment, so that nothing of it is stored yet?
    """

    def __init__(
        self, peer: Peer, remote_run: RemoteRun, emit: Emit, taken_from: TakenFrom, *, streams_whole: bool
    ) -> None:
        """`taken_from`: takes out of an event what extensions say in it. `streams_whole`: see `StateKeeper`."""
        self._is_alive = self.ended_at_once = False
        self._taken_from, self._streams_whole = taken_from, streams_whole
        self.hints: JSON = {}
        self._peer, self._remote_run, self._emit = peer, remote_run, emit
        self._run = remote_run.assignment.lease.run_id
        self._name = remote_run.assignment.agent.name
        self._streams = peer.streams
        self._has_webhook: bool | None = None if peer.calls_webhooks else False
        self._loop = asyncio.get_running_loop()
        self._has_other_context = False
        self._last_news = self._loop.time()
        self._backoff = Backoff()
        self._whole: JSON = {}  # the task as its stream tells
        self._settled: JSON | None = None  # the stream's update that settled the task
        self._unreadable: Misbehaved | None = None  # why the stream could not be read
        self.translator = self._make_translator()

    async def settled(self, stream: AsyncIterator[JSON] | None = None) -> JSON:
        """The settled task; `stream` is the answer to a message. Emits what the task says.

        Raises AnsweredWithMessage, AgentGone, RemoteError.
        """
        if stream is None and self._streams:
            stream = self._subscribe()
        with webhooks.nudges_of(self._run) as nudged:
            while True:
                if stream is not None:
                    await self._read(stream)
                    if self.ended_at_once:
                        return self._whole
                # An agent that does not stream has just returned the task.
                if self._streams or stream is None or self._settled is not None or self._unreadable is not None:
                    task = await self._confirm_settled()
                    if task is not None:
                        return task
                await self._pause(nudged)
                stream = self._subscribe() if self._streams else None

    async def finish(self) -> None:
        await self._emit_all(self.translator.finish())

    async def _read(self, stream: AsyncIterator[JSON]) -> None:
        try:
            async with aclosing(self._events(stream)) as events:
                async for event in events:
                    await self._handle_event(event)
                    if self._settled is not None and not self.ended_at_once:
                        await self._drain(events, self._settled)
                        return
        except RemoteError as error:
            if not self._remote_run.task_id or isinstance(error, OtherTask):
                raise
            if isinstance(error, Misbehaved):  # the task itself may be readable
                self._streams, self._unreadable = False, error
                await db.run(add_note, self._run, f"The stream could not be read: {error}")
            if isinstance(error, Refused):  # the task has ended, or the card wrongly promises streams
                self._streams = self._streams and error.is_transient
            log.info("the stream of run %s broke off: %s", self._run, error)
        else:
            if not self._remote_run.task_id:
                raise CutOff("The agent ended its answer without saying anything.")

    async def _events(self, stream: AsyncIterator[JSON]) -> AsyncGenerator[JSON]:
        """The events of a stream."""
        early, coming = list[JSON](), None
        if not self._remote_run.task_id:
            early, coming = await self._first_moment(stream)
        async with aclosing(stream):  # type: ignore[type-var]
            try:
                if early and coming is None:
                    await self._drain(stream, early[-1])
                for event in early:
                    yield event
                if coming is not None:
                    if (late := await coming) is None:
                        return
                    yield late
                async for event in stream:
                    yield event
            finally:  # a stream cannot be closed while it is read
                if coming is not None:
                    coming.cancel()
                    await asyncio.gather(coming, return_exceptions=True)

    async def _first_moment(self, stream: AsyncIterator[JSON]) -> tuple[list[JSON], asyncio.Future[JSON | None] | None]:
        """What a stream says of a new task at once, and its next event; None if the task has ended.

        Waits for the first event even if the turn is stopped: it names the task to cancel.
        """
        early, until = list[JSON](), math.inf
        while True:
            coming = asyncio.ensure_future(anext(stream, None))
            try:
                wait = max(0.0, until - self._loop.time()) if early else None
                await asyncio.wait({coming}, timeout=wait)
            except asyncio.CancelledError:
                cancellation.run_in_background(self._cancel_once_named(stream, coming, early))
                raise
            if not coming.done() or coming.exception() or (event := coming.result()) is None:
                return early, coming
            early.append(event)
            if not self._takes_whole_streams or "message" in event:
                return early, asyncio.ensure_future(anext(stream, None))
            if self._fold(event):
                self.ended_at_once = True
                return early, None
            if (event.get("statusUpdate") or {}).get("metadata"):  # a finished step, for example, is stored at once
                return early, asyncio.ensure_future(anext(stream, None))
            until = min(until, self._loop.time() + AT_ONCE_SECONDS)

    @property
    def _takes_whole_streams(self) -> bool:
        """May a stream's end be taken for the task's, without asking for the task?"""
        return self._streams_whole and not runs.has_payment(self._remote_run)

    def _fold(self, event: JSON) -> bool:
        """Add an event to the task that the stream tells. Has it settled?"""
        if "task" in event:
            self._whole = {**event["task"], "artifacts": [*event["task"].get("artifacts", [])]}
        elif (update := event.get("artifactUpdate")) is not None and self._whole:
            fold_artifact(self._whole["artifacts"], update)
        elif (update := event.get("statusUpdate")) is not None and self._whole:
            self._whole["status"] = update["status"]
        return bool(self._whole) and is_settled(self._whole)

    async def _drain(self, stream: AsyncIterator[JSON], last: JSON) -> None:
        """Read a stream to its end if that comes at once, so that its connection can be reused."""
        state = state_of((last.get("statusUpdate") or last.get("task") or last)["status"])
        if state is None or not state.is_terminal:
            return
        with suppress(TimeoutError, RemoteError):
            async with asyncio.timeout(STREAM_END_SECONDS):
                async for _ in stream:
                    pass

    async def _cancel_once_named(
        self, stream: AsyncIterator[JSON], coming: asyncio.Future[JSON | None], early: list[JSON]
    ) -> None:
        """Cancel the new task if the agent names it in time."""
        async with aclosing(stream):  # type: ignore[type-var]
            try:
                async with asyncio.timeout(settings.REMOTE_CANCEL_SECONDS):
                    task = event_task(early[0] if early else await coming or {})
            except (RemoteError, TimeoutError):
                return
            finally:
                coming.cancel()
                await asyncio.wait({coming})
        if task:
            with suppress(LeaseLost):
                await db.persist(runs.save_remote_task, self._remote_run, task, is_open=True)
            cancellation.cancel_if_unwanted(self._remote_run, is_late=False)

    async def _handle_event(self, event: JSON) -> None:
        self._note_alive()
        if named := event_task(event):
            await self._save_ids(named)
        event = await self._taken_from(event)
        if (message := event.get("message")) is not None:
            if self._remote_run.task_id:  # a message of the task, not its end
                await self._emit_all(self.translator.message(message))
                return
            raise AnsweredWithMessage(message)
        if named:
            await self._note_other_context(named["contextId"])
        if (task := event.get("task")) is not None:
            await self._emit_all(self.translator.task(task))
            self._note_settled(task)
            return
        await self._emit_all(self.translator.event(event))
        if (update := event.get("statusUpdate")) is not None:
            self.hints = update.get("metadata") or {}
            self._note_settled(update)

    def _note_alive(self) -> None:
        if not self._is_alive:
            self._is_alive = True
            circuit_breaker.note_success(self._remote_run.assignment.agent)

    def _note_settled(self, update: JSON) -> None:
        if is_settled(update):
            self._settled = update

    async def _save_ids(self, task: JSON) -> None:
        """Store the task's ids before anything else of it is recorded. Raises Misbehaved for another task."""
        known = self._remote_run.task_id or self._remote_run.answers_task
        if known and known != task["id"]:
            raise OtherTask(f"{self._name} spoke of another task than the one that it was asked about.")
        if not self._remote_run.task_id:
            state = state_of(task["status"])
            is_open = state is None or not state.is_terminal
            if self.ended_at_once:
                runs.note_remote_task(self._remote_run, task, is_open=False)
                self.translator = self._make_translator()
                return
            await db.persist(runs.save_remote_task, self._remote_run, task, is_open=is_open)
            self.translator = self._make_translator()

    async def _note_other_context(self, context_id: str) -> None:
        known = self._remote_run.remote_ids.get("contextId")
        if context_id and known and context_id != known and not self._has_other_context:
            self._has_other_context = True
            await db.run(add_note, self._run, f"The agent also spoke of the context {context_id}; it stays in {known}.")

    def _make_translator(self) -> TaskTranslator:
        status = self._remote_run.assignment.task.status_message or {}
        return TaskTranslator(
            prefix=self._remote_run.prefix,
            heard=str(status.get("messageId", "")),
            is_resumed=self._remote_run.is_resumed,
        )

    async def _confirm_settled(self) -> JSON | None:
        """The task as the agent returns it; None if it is unsettled.

        An end that a stream announced must be confirmed within REMOTE_CONFIRM_SECONDS. Raises AgentGone, RemoteError.
        """
        streamed = self._settled
        deadline = self._loop.time() + settings.REMOTE_CONFIRM_SECONDS
        while True:
            try:
                task = await self._get_task()
            except (Refused, Misbehaved, Unreachable) as refusal:
                if streamed is None:
                    raise self._unreadable or refusal from refusal
                await db.run(add_note, self._run, f"How the task ended could not be confirmed: {refusal}")
                return {**streamed, "artifacts": streamed.get("artifacts", [])}
            if streamed is not None and _takes_back_work(streamed, task):
                note = f"It said later that the task is {task['status'].get('state')}. What it delivered stays."
                await db.run(add_note, self._run, note)
                task = {**task, "status": streamed["status"]}
            await self._emit_all(self.translator.task(task, final=is_settled(task)))
            if is_settled(task):
                return task
            if streamed is None or not (state := state_of(streamed["status"])) or not state.is_terminal:
                self._settled = None  # its question was answered elsewhere
                return None
            if self._loop.time() > deadline:
                raise Misbehaved(f"{self._name} said that its task had ended, and then that it goes on.")
            await asyncio.sleep(self._backoff.next())

    async def _get_task(self) -> JSON:
        away_since: float | None = None
        wait = Backoff()
        while True:
            try:
                if away_since is not None and self._peer.start_again:
                    await self._peer.start_again()
                task = await self._peer.get(self._remote_run.task_id, history_length=HISTORY_LENGTH)
            except RemoteError as error:
                if not error.is_transient or (self._peer.runs_here and isinstance(error, Unreachable)):
                    raise  # only another connection starts its process again
                now = self._loop.time()
                if away_since is None:
                    away_since = now
                    await self._emit(
                        Progress(f"The connection to {self._name} was lost. Trying to find its work again.")
                    )
                if now - away_since > settings.REMOTE_AWAY_SECONDS:
                    raise AgentGone(
                        f"{self._name} could not be reached for {now - away_since:.0f} seconds, in the middle of its "
                        "work. What it has done is not known. Ask it again."
                    ) from error
                asked = error.retry_after if isinstance(error, Overloaded) else None
                await asyncio.sleep(min(wait.next(asked, longest=AWAY_POLL_SECONDS), settings.REMOTE_AWAY_SECONDS))
            else:
                self._note_alive()
                return dict((await self._taken_from({"task": task}))["task"])

    async def _pause(self, nudged: asyncio.Event) -> None:
        quiet = self._loop.time() - self._last_news
        if self._has_webhook is None and quiet > settings.REMOTE_PATIENCE_SECONDS:
            self._has_webhook = await self._register_webhook()
            self._streams = self._streams and not self._has_webhook
        longest = settings.REMOTE_BACKSTOP_SECONDS if self._has_webhook else settings.REMOTE_POLL_SECONDS[1]
        try:
            async with asyncio.timeout(self._backoff.next(longest=longest)):
                await nudged.wait()
        except TimeoutError:
            return
        nudged.clear()

    async def _register_webhook(self) -> bool:
        try:
            config = await db.run(webhooks.webhook_config, self._run)
            await self._peer.set_webhook(self._remote_run.task_id, config)
        except RemoteError as error:
            log.info("the agent of run %s does not call back: %s", self._run, error)
            return False
        return True

    async def _emit_all(self, emissions: list[Emission]) -> None:
        if emissions:
            self._last_news = self._loop.time()
            self._backoff.restart()
        for emission in emissions:
            try:
                await self._emit(emission)
            except ValueError as error:
                raise Misbehaved(f"{self._name} said something that cannot be kept: {error}") from error

    def _subscribe(self) -> AsyncIterator[JSON]:
        return self._peer.subscribe(self._remote_run.task_id, after=self._peer.event_id)


def _takes_back_work(streamed: JSON, task: JSON) -> bool:
    """Does a task that was completed end otherwise now? Terminal states do not change (A2A 1.0 §4.1.3)."""
    state = state_of(task["status"])
    was_completed = state_of(streamed["status"]) is TaskState.COMPLETED
    return was_completed and state is not None and state.is_terminal and state is not TaskState.COMPLETED


def event_task(event: JSON) -> JSON | None:
    """The ids and status of an event's task; None for a message."""
    if (task := event.get("task")) is not None:
        return {"contextId": "", **task}
    update = event.get("statusUpdate") or event.get("artifactUpdate") or {}
    if not update.get("taskId"):
        return None
    return {"id": update["taskId"], "contextId": update.get("contextId", ""), "status": update.get("status", {})}


def fold_artifact(artifacts: list[JSON], update: JSON) -> None:
    """Add an `artifactUpdate` to a task's artifacts (A2A 1.0 §4.2.2)."""
    piece = update["artifact"]
    known = next((n for n, one in enumerate(artifacts) if one["artifactId"] == piece["artifactId"]), None)
    if known is None:
        artifacts.append(piece)
    elif update.get("append"):
        artifacts[known] = {**artifacts[known], "parts": [*artifacts[known].get("parts", []), *piece.get("parts", [])]}
    else:
        artifacts[known] = piece


class Backoff:
    """Waits that grow by half."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self._seconds: float = settings.REMOTE_POLL_SECONDS[0]

    def next(self, at_least: float | None = None, longest: float | None = None) -> float:
        """Seconds to wait now."""
        seconds = min(self._seconds, longest or math.inf, settings.REMOTE_POLL_SECONDS[1])
        self._seconds = seconds * 1.5
        return max(seconds, at_least or 0.0)
