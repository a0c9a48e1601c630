"""Streams of a task: the task first, then its updates in the order of the log, each with its event's index."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing

import db
from apps.a2a.errors import JSON
from apps.a2a.snapshots import Snapshot
from apps.record import feed, wire
from apps.record.events import EventType
from apps.record.lifecycle import TaskState
from apps.record.models import Context, Event

Update = tuple[int, JSON]  # an event's index, a StreamResponse
Updates = AsyncGenerator[list[Update]]
Closing = Callable[[TaskState], bool]


def at_the_end(state: TaskState) -> bool:
    """How a subscription closes: when the task has ended."""
    return state.is_terminal


def at_a_question(state: TaskState) -> bool:
    """How a streaming send closes: also when the task asks its sender, but not while somebody signs in elsewhere."""
    return state.is_terminal or state == TaskState.INPUT_REQUIRED


async def answered(index: int, message: JSON) -> Updates:
    """The stream of an agent that answers with a message: that alone."""
    yield [(index, {"message": message})]


async def begun(snapshot: Snapshot, closes: Closing) -> Updates:
    """A stream that begins with the task, shows the artifacts that are being made, and goes on to the end."""
    yield [(snapshot.start, {"task": snapshot.task})]
    if snapshot.begun:
        yield await _shown(snapshot.begun, snapshot.context)
    async with aclosing(_followed(snapshot, snapshot.index, closes)) as updates:
        async for batch in updates:
            yield batch


async def resumed(snapshot: Snapshot, after: int) -> Updates:
    """The updates after event `after` alone; of a task that has ended, those that were missed."""
    if snapshot.state.is_terminal and after >= snapshot.index:
        return
    async with aclosing(_followed(snapshot, after, at_the_end)) as updates:
        async for batch in updates:
            yield batch


async def _followed(snapshot: Snapshot, after: int, closes: Closing) -> Updates:
    ended_at = snapshot.index if snapshot.state.is_terminal else None
    async with aclosing(feed.follow(snapshot.context.pk, after)) as batches:
        async for events in batches:
            own = [event for event in events if event.task_id == snapshot.key]
            last = next((at for at, event in enumerate(own) if _closes(event, closes)), None)
            updates = await _shown(own if last is None else own[: last + 1], snapshot.context)
            if updates:
                yield updates
            if last is not None or (ended_at is not None and events[-1].index >= ended_at):
                return


def _closes(event: Event, closes: Closing) -> bool:
    return event.type == EventType.AGENT_STATUS and closes(TaskState(event.payload["state"]))


async def _shown(events: Iterable[Event], context: Context) -> list[Update]:
    """What of these events crosses the A2A border."""
    events = list(events)
    if any("stored" in part for event in events for part in event.parts):
        return await db.run(_shown_here, events, context)  # content is read from files
    return _shown_here(events, context)


def _shown_here(events: Iterable[Event], context: Context) -> list[Update]:
    shown = ((event.index, wire.stream_response(event, context)) for event in events)
    return [(index, response) for index, response in shown if response is not None]
