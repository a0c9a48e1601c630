"""A caller's tasks, as streams of updates and as lists; and their contexts (`contexts/list`).

A stream begins with the task at one event (`Snapshot`); updates follow in the order of the log. Lists are ordered by
time and key, which page tokens contain (A2A 1.0 §3.1.4).
"""

from __future__ import annotations

import datetime
import uuid
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from django.db.models import Count, Q

import db
from apps.a2a.errors import JSON
from apps.a2a.requests import ListContextsRequest, ListTasksRequest
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine import cancel
from apps.record import feed, lookup, wire
from apps.record.content import blobs
from apps.record.errors import InvalidParams, TaskNotFound
from apps.record.events import EventType
from apps.record.lookup import cold_task_counts
from apps.record.models import Artifact, Context, Event, Task, TaskState
from apps.record.sql import TASK
from apps.record.wire import binding


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A task at an event, with the chunks of its unfinished artifacts."""

    task: JSON
    task_id: uuid.UUID
    context: Context
    state: TaskState
    index: int  # of the newest event included
    unfinished_chunks: list[Event]

    @property
    def resume_index(self) -> int:
        """Where a stream of this task resumes."""
        return self.unfinished_chunks[0].index - 1 if self.unfinished_chunks else self.index


def find_task(principal: Principal, agent: Agent, task_id: str, history_length: int | None = None) -> JSON:
    """Raises TaskNotFound."""
    whole = partial(lookup.find_whole_task, history_length=history_length)
    return wire.load_task(lookup.find_agent_task(principal, agent, task_id, whole), history_length=history_length)


def cancel_task(principal: Principal, agent: Agent, task_id: str) -> JSON:
    """Raises TaskNotFound, TaskNotCancelable."""
    cancel.cancel_by_id(principal, agent, task_id)
    return find_task(principal, agent, task_id)


def load_task(task: uuid.UUID, show: Callable[[Task], JSON]) -> JSON:
    """Does not check the owner. Raises TaskNotFound."""
    return show(_task_row(task))


def current_snapshot(principal: Principal, agent: Agent, task_id: str, history_length: int | None = None) -> Snapshot:
    """The caller's task at the newest event of its context. Raises TaskNotFound."""
    row = lookup.find_agent_task(principal, agent, task_id)
    return _make_snapshot(row, row.context.last_event, history_length)


def accepted_snapshot(task: uuid.UUID, index: int, history_length: int | None) -> Snapshot:
    """A task when it accepted the message of event `index`."""
    row = _task_row(task)
    if row.context.last_event > index:
        _restore_status(row, index)
        if TaskState(row.state).is_interrupted:
            index += 1  # an answer sets the task to work at once
            _restore_status(row, index)
    return _make_snapshot(row, index, history_length)


def task_at(task: uuid.UUID, index: int) -> JSON:
    """A task as it was at an event."""
    row = _task_row(task)
    if row.context.last_event > index:
        _restore_status(row, index)
    return wire.load_task(row, up_to=index)


def _task_row(task: uuid.UUID) -> Task:
    row = TASK.one(task)
    if row is None:
        raise TaskNotFound  # deleted just now
    return row


def _restore_status(row: Task, index: int) -> None:
    """Restore the status at an earlier event."""
    statuses = Event.objects.filter(task=row, type=EventType.AGENT_STATUS, index__lte=index)
    event = statuses.order_by("-index").first()
    row.state = TaskState(event.payload["state"]) if event else TaskState.SUBMITTED
    row.status_message = event.payload.get("message") if event else None
    row.status_at = event.at if event else row.created_at


def _make_snapshot(row: Task, index: int, history_length: int | None) -> Snapshot:
    state = TaskState(row.state)
    shown = wire.load_task(row, history_length=history_length, up_to=index)
    return Snapshot(shown, row.pk, row.context, state, index, _unfinished_chunks(row, state, index))


def _unfinished_chunks(row: Task, state: TaskState, index: int) -> list[Event]:
    """Chunks of artifacts that the task shows only when it ends."""
    if state.is_terminal or state == TaskState.SUBMITTED:
        return []
    artifacts = Artifact.objects.filter(task=row, first_event__lte=index).exclude(state=Artifact.State.DISCARDED)
    ids = list(artifacts.values_list("artifact_id", flat=True))
    if not ids:
        return []
    return list(Event.objects.filter(task=row, artifact_id__in=ids, index__lte=index).order_by("index"))


Update = tuple[int, JSON]  # an event's index, a StreamResponse
Updates = AsyncGenerator[list[Update]]
ClosingRule = Callable[[TaskState], bool]


def closes_at_end(state: TaskState) -> bool:
    """When a subscription closes."""
    return state.is_terminal


def closes_at_question(state: TaskState) -> bool:
    """When a streaming send closes: also at input-required, but not at auth-required."""
    return state.is_terminal or state == TaskState.INPUT_REQUIRED


async def message_stream(index: int, message: JSON) -> Updates:
    """The stream of a direct answer."""
    yield [(index, {"message": message})]


async def task_stream(snapshot: Snapshot, is_last_state: ClosingRule) -> Updates:
    """The task, its unfinished artifacts, and updates until the stream closes."""
    yield [(snapshot.resume_index, {"task": snapshot.task})]
    if snapshot.unfinished_chunks:
        yield await _responses(snapshot.unfinished_chunks, snapshot.context)
    async with aclosing(_follow(snapshot, snapshot.index, is_last_state)) as updates:
        async for batch in updates:
            yield batch


async def resumed_stream(snapshot: Snapshot, after: int) -> Updates:
    """The updates after event `after`."""
    if snapshot.state.is_terminal and after >= snapshot.index:
        return
    async with aclosing(_follow(snapshot, after, closes_at_end)) as updates:
        async for batch in updates:
            yield batch


async def _follow(snapshot: Snapshot, after: int, is_last_state: ClosingRule) -> Updates:
    ended_at = snapshot.index if snapshot.state.is_terminal else None
    async with aclosing(feed.follow(snapshot.context.pk, after)) as batches:
        async for events in batches:
            own = [event for event in events if event.task_id == snapshot.task_id]
            last = next((at for at, event in enumerate(own) if _is_closing(event, is_last_state)), None)
            updates = await _responses(own if last is None else own[: last + 1], snapshot.context)
            if updates:
                yield updates
            if last is not None or (ended_at is not None and events[-1].index >= ended_at):
                return


def _is_closing(event: Event, is_last_state: ClosingRule) -> bool:
    return event.type == EventType.AGENT_STATUS and is_last_state(TaskState(event.payload["state"]))


async def _responses(events: Iterable[Event], context: Context) -> list[Update]:
    """The A2A updates of these events."""
    events = list(events)
    if blobs.stored_parts(events):
        return await db.run(_convert, events, context)  # reads files
    return _convert(events, context)


def _convert(events: Iterable[Event], context: Context) -> list[Update]:
    shown = ((event.index, wire.stream_response(event, context)) for event in events)
    return [(index, response) for index, response in shown if response is not None]


MAX_COUNTED = 10_000  # totalSize is exact up to here
LISTED_FIELDS = ("state", "status_at", "status_message", "metadata", "context", "context__context_id")

Filters = dict[str, Any]
"""Lookups of tasks, each with a plain value."""


def list_tasks(principal: Principal, agent: Agent, request: ListTasksRequest) -> JSON:
    """ListTasksResponse, newest status first; empty for anonymous callers. Raises InvalidParams."""
    bound = binding(
        "tasks", principal.sender, agent.pk, request.context_id, request.status, request.status_timestamp_after
    )
    after = read_page_token(request.page_token, bound)
    filters = _task_filters(principal, agent, request)
    rows = _task_page(filters, after, request.page_size + 1) if filters else []
    page, has_more = rows[: request.page_size], len(rows) > request.page_size
    whole = after is None and not has_more
    return {
        "tasks": _tasks_json(page, request),
        "nextPageToken": page_token((page[-1].status_at, page[-1].pk), bound) if has_more else "",
        "pageSize": request.page_size,
        "totalSize": len(page) if whole else Task.objects.filter(**filters)[:MAX_COUNTED].count(),
    }


def _task_filters(principal: Principal, agent: Agent, request: ListTasksRequest) -> Filters:
    """The filters of the caller's tasks; empty if none can match."""
    if not principal.is_known:
        return {}
    filters: Filters = {"owner": principal.user_id, "agent": agent.pk}
    if request.context_id:
        named = Context.objects.visible_to(principal).filter(context_id=request.context_id)
        context = lookup.restored_or_none(named.only("pk", "cold_file").first())
        if context is None:
            return {}
        # The context is the owner's. A filter by owner would make the database choose a slower index.
        filters = {"context": context.pk, "agent": agent.pk}
    if request.status is not None:
        filters["state"] = request.status
    if request.status_timestamp_after is not None:
        filters["status_at__gte"] = request.status_timestamp_after
    return filters


def _task_page(filters: Filters, after: Cursor | None, size: int) -> list[Task]:
    found = Task.objects.filter(**filters)
    if after is not None:
        at, key = after
        # The first condition is implied by the second; the index needs it.
        found = found.filter(Q(status_at__lte=at), Q(status_at__lt=at) | Q(pk__lt=key))
    return list(found.select_related("context").only(*LISTED_FIELDS).order_by("-status_at", "-id")[:size])


def _tasks_json(page: list[Task], request: ListTasksRequest) -> list[JSON]:
    length = settings.DEFAULT_HISTORY_LENGTH if request.history_length is None else request.history_length
    history = wire.newest_messages_by_task([row.pk for row in page], length) if length else None
    artifacts = None
    if request.include_artifacts:
        artifacts = _by_task(Artifact.objects.delivered().filter(task__in=page) if page else ())
    return [
        wire.task(
            row,
            history=None if history is None else history[row.pk],
            artifacts=None if artifacts is None else artifacts[row.pk],
        )
        for row in page
    ]


def _by_task(artifacts: Iterable[Artifact]) -> dict[uuid.UUID, list[Artifact]]:
    grouped: dict[uuid.UUID, list[Artifact]] = defaultdict(list)
    for artifact in artifacts:
        grouped[artifact.task_id].append(artifact)
    return grouped


def list_contexts(principal: Principal, agent: Agent, request: ListContextsRequest) -> JSON:
    """The caller's contexts with this agent, newest first; none for anonymous callers. Raises InvalidParams."""
    bound = binding("contexts", principal.sender, agent.pk)
    after = read_page_token(request.page_token, bound)
    rows = _context_page(principal, agent, after, request.page_size + 1) if principal.is_known else []
    page, has_more = rows[: request.page_size], len(rows) > request.page_size
    counts = _task_counts(agent, [row.pk for row in page])
    return {
        "contexts": [
            {
                "contextId": row.context_id,
                "taskCount": counts.get(row.pk, 0),
                "lastUpdated": wire.timestamp(row.updated_at),
            }
            for row in page
        ],
        "nextPageToken": page_token((page[-1].updated_at, page[-1].pk), bound) if has_more else "",
    }


def _context_page(principal: Principal, agent: Agent, after: Cursor | None, size: int) -> list[Context]:
    found = Context.objects.visible_to(principal).listed().filter(agent=agent)
    if after is not None:
        at, key = after
        # The first condition is implied by the second; the index needs it.
        found = found.filter(Q(updated_at__lte=at), Q(updated_at__lt=at) | Q(pk__lt=key))
    return list(found.only("context_id", "updated_at").order_by("-updated_at", "-id")[:size])


def _task_counts(agent: Agent, contexts: Sequence[uuid.UUID]) -> dict[uuid.UUID, int]:
    if not contexts:
        return {}
    found = Task.objects.filter(context__in=contexts, agent=agent).values_list("context").annotate(Count("pk"))
    return {**cold_task_counts(contexts), **dict(found.order_by())}


Cursor = tuple[datetime.datetime, uuid.UUID]
"""The time and the key of the last row of a page, by which the list is ordered."""


def page_token(last: Cursor, bound: str) -> str:
    at, key = last
    return wire.encode_cursor([at.isoformat(), key.hex], bound)


def read_page_token(text: str, bound: str) -> Cursor | None:
    """None for an empty token. Raises InvalidParams."""
    if not text:
        return None
    try:
        at, key = wire.decode_cursor(text, bound)
    except wire.InvalidCursor:
        raise InvalidParams(
            "This page token is not valid for this list. Start again without a page token.", "pageToken"
        ) from None
    return datetime.datetime.fromisoformat(at), uuid.UUID(key)
