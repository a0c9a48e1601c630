"""A caller's tasks, as streams of updates and as lists; and their contexts (`contexts/list`).

A stream begins with the task at one event (`Snapshot`); updates follow in the order of the log. Lists are ordered by
time and key, which page tokens contain (A2A 1.0 §3.1.4).
"""

from __future__ import annotations

import datetime
import json
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial

from django.db.models import Count, Q

from apps.a2a.errors import JSON
from apps.a2a.requests import ListContextsRequest, ListTasksRequest
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine import cancel
from apps.record import wire
from apps.record.content import blobs
from apps.record.errors import InvalidParams, TaskNotFound
from apps.record.events import EventType
from apps.record.models import Artifact, Context, Event, Task, TaskQuerySet, TaskState
from apps.record.reading import feed, lookup, task_json
from apps.record.reading.lookup import cold_task_counts
from apps.record.sql import TASK
from apps.record.wire import SharedJSON, binding
from parley import db
from parley.db.sql import execute


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A task at an event, with the chunks of its unfinished artifacts."""

    task: JSON
    task_id: uuid.UUID
    context: Context
    state: TaskState
    index: int  # of the newest event included
    unfinished_chunks: list[Event]
    is_of_others: bool = False  # the caller sees it only because the session is shared

    @property
    def resume_index(self) -> int:
        """Where a stream of this task resumes."""
        return self.unfinished_chunks[0].index - 1 if self.unfinished_chunks else self.index


def find_task(principal: Principal, agent: Agent, task_id: str, history_length: int | None = None) -> str:
    """The task's JSON. Raises TaskNotFound."""
    find = partial(task_json.find, history_length=history_length)
    return lookup.read_agent_task(principal, agent, task_id, find).json


def cancel_task(principal: Principal, agent: Agent, task_id: str, check: cancel.Check | None = None) -> str:
    """Raises TaskNotFound, TaskNotCancelable, and what `check` raises."""
    cancel.cancel_by_id(principal, agent, task_id, check)
    return find_task(principal, agent, task_id)


def stop_after_step(principal: Principal, agent: Agent, task_id: str) -> str:
    """Raises TaskNotFound, UnsupportedOperation."""
    cancel.stop_by_id(principal, agent, task_id)
    return find_task(principal, agent, task_id)


def current_snapshot(principal: Principal, agent: Agent, task_id: str, history_length: int | None = None) -> Snapshot:
    """The caller's task at the newest event of its context. Raises TaskNotFound."""
    row = lookup.find_seen_task(principal, agent, task_id)
    snapshot = _make_snapshot(row, row.context.last_event, history_length)
    return replace(snapshot, is_of_others=principal.user_id not in (row.owner_id, row.context.owner_id))


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
    row.slot = event.payload.get("slot") if event else None
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


Update = tuple[int, SharedJSON]  # an event's index, a StreamResponse
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
    yield [(index, SharedJSON({"message": message}))]


async def task_stream(snapshot: Snapshot, is_last_state: ClosingRule) -> Updates:
    """The task, its unfinished artifacts, and updates until the stream closes."""
    yield [(snapshot.resume_index, SharedJSON({"task": snapshot.task}))]
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
            if snapshot.is_of_others and any(is_private_again(event) for event in events):
                return
            own = [event for event in events if event.task_id == snapshot.task_id]
            last = next((at for at, event in enumerate(own) if _is_closing(event, is_last_state)), None)
            updates = await _responses(own if last is None else own[: last + 1], snapshot.context)
            if updates:
                yield updates
            if last is not None or (ended_at is not None and events[-1].index >= ended_at):
                return


def is_private_again(event: Event) -> bool:
    """Whether a shared session is only its owner's from here on."""
    return event.type == EventType.SESSION_SHARED and event.payload["sharing"] == Context.Sharing.PRIVATE


def _is_closing(event: Event, is_last_state: ClosingRule) -> bool:
    return event.type == EventType.AGENT_STATUS and is_last_state(TaskState(event.payload["state"]))


async def _responses(events: Iterable[Event], context: Context) -> list[Update]:
    """The A2A updates of these events, made once for all streams of the context."""
    events = list(events)
    new = [event for event in events if SharedJSON not in event.shown]
    if blobs.stored_parts(new):
        await db.run_for_stream(_convert, new, context)  # reads files
    else:
        _convert(new, context)
    shown = ((event.index, event.shown[SharedJSON]) for event in events)
    return [(index, response) for index, response in shown if response is not None]


def _convert(events: Iterable[Event], context: Context) -> None:
    for event in events:
        response = wire.stream_response(event, context)
        event.shown[SharedJSON] = response and SharedJSON(response)


MAX_COUNTED = 10_000  # totalSize is exact up to here
MANY = 12_000  # tasks: so long a list is seldom below MAX_COUNTED within MANY_SECONDS
MANY_SECONDS = 5.0  # that it is not counted again

_many_until: dict[tuple[object, ...], float] = {}  # by filters that had MANY tasks, by `time.monotonic`
MOST_KEPT = 10_000

Filters = dict[str, object]
"""SQL conditions on tasks, each with its parameter."""


def list_tasks(principal: Principal, agent: Agent | None, request: ListTasksRequest) -> str:
    """The JSON of ListTasksResponse, newest status first; empty for anonymous callers. Raises InvalidParams.

    With an agent, the caller's tasks there. Without, all tasks that the caller may see, each with its agent in its
    metadata.
    """
    of, asked = agent.pk if agent else None, (request.context_id, request.status, request.status_timestamp_after)
    bound = binding("tasks", principal.sender, of, *asked)
    after = read_page_token(request.page_token, bound)
    count: Callable[[], int]
    if agent is None:
        visible = _visible_tasks(principal, request)
        rows, count = _visible_page(visible, after, request), visible[:MAX_COUNTED].count
    else:
        filters = _task_filters(principal, agent, request)
        rows, count = _task_page(filters, after, request) if filters else [], partial(_count, filters)
    page, has_more = rows[: request.page_size], len(rows) > request.page_size
    rest = {
        "nextPageToken": page_token((page[-1].status_at, page[-1].pk), bound) if has_more else "",
        "pageSize": request.page_size,
        "totalSize": len(page) if after is None and not has_more else count(),
    }
    texts = [row.json for row in page] if agent else _texts_with_agents(page)
    return f'{{"tasks":[{",".join(texts)}],{json.dumps(rest)[1:]}'


def _visible_tasks(principal: Principal, request: ListTasksRequest) -> TaskQuerySet:
    if not principal.is_known:
        return Task.objects.none()
    found = Task.objects.visible_to(principal)
    if request.context_id:
        found = found.filter(context=lookup.restored_or_none(lookup.context_of(principal, request.context_id)))
    if request.status is not None:
        found = found.filter(state=request.status)
    if request.status_timestamp_after is not None:
        found = found.filter(status_at__gte=request.status_timestamp_after)
    return found


def _visible_page(visible: TaskQuerySet, after: Cursor | None, request: ListTasksRequest) -> list[task_json.TaskText]:
    """One more than the page, to know whether there is another page."""
    found = visible.filter(_before(after, "status_at")) if after else visible
    keys = list(found.order_by("-status_at", "-pk").values_list("pk", flat=True)[: request.page_size + 1])
    if not keys:
        return []
    return task_json.select(
        f"task.id IN ({', '.join(['%s'] * len(keys))}) ORDER BY task.status_at DESC, task.id DESC",
        keys,
        history_length=request.history_length,
        with_artifacts=request.include_artifacts,
    )


def _texts_with_agents(page: Sequence[task_json.TaskText]) -> list[str]:
    agents = Agent.objects.only("slug", "name").in_bulk({row.agent_id for row in page})
    named = {key: {"agent": one.slug, "agentName": one.name} for key, one in agents.items()}
    return [row.json_with(named[row.agent_id]) for row in page]


def _task_filters(principal: Principal, agent: Agent, request: ListTasksRequest) -> Filters:
    """The filters of the caller's tasks; empty if none can match."""
    if not principal.is_known:
        return {}
    filters: Filters = {
        "task.owner_id = %s": principal.user_id,
        "task.workspace_id = %s": principal.workspace_id,
        "task.agent_id = %s": agent.pk,
    }
    if request.context_id:
        context = lookup.restored_or_none(lookup.context_of(principal, request.context_id))
        if context is None:
            return {}
        # All its tasks are the caller's to see. A filter by owner would make the database choose a slower index.
        filters = {"task.context_id = %s": context.pk, "task.agent_id = %s": agent.pk}
    if request.status is not None:
        filters["task.state = %s"] = request.status
    if request.status_timestamp_after is not None:
        filters["task.status_at >= %s"] = request.status_timestamp_after
    return filters


def _task_page(filters: Filters, after: Cursor | None, request: ListTasksRequest) -> list[task_json.TaskText]:
    """One more than the page, to know whether there is another page."""
    conditions, params = " AND ".join(filters), [*filters.values()]
    if after is not None:
        conditions += " AND (task.status_at, task.id) < (%s, %s)"
        params += after
    return task_json.select(
        f"{conditions} ORDER BY task.status_at DESC, task.id DESC LIMIT %s",
        [*params, request.page_size + 1],
        history_length=request.history_length,
        with_artifacts=request.include_artifacts,
    )


def _count(filters: Filters) -> int:
    """At most MAX_COUNTED, for which a list that had MANY tasks a moment ago is not counted again."""
    key, now = (*filters.items(),), time.monotonic()
    if _many_until.get(key, now) > now:
        return MAX_COUNTED
    table = Task._meta.db_table
    found = f"SELECT 1 FROM {table} AS task WHERE {' AND '.join(filters)} LIMIT {MANY}"  # noqa: S608
    count = int(execute(f"SELECT count(*) FROM ({found}) AS found", [*filters.values()]).fetchone()[0])  # noqa: S608
    if count == MANY:
        if len(_many_until) >= MOST_KEPT:
            _many_until.clear()
        _many_until[key] = now + MANY_SECONDS
    return min(count, MAX_COUNTED)


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
    found = Context.objects.of(principal).listed().filter(agent=agent)
    if after is not None:
        found = found.filter(_before(after, "updated_at"))
    return list(found.only("context_id", "updated_at").order_by("-updated_at", "-id")[:size])


def _task_counts(agent: Agent, contexts: Sequence[uuid.UUID]) -> dict[uuid.UUID, int]:
    if not contexts:
        return {}
    found = Task.objects.filter(context__in=contexts, agent=agent).values_list("context").annotate(Count("pk"))
    return {**cold_task_counts(contexts), **dict(found.order_by())}


Cursor = tuple[datetime.datetime, uuid.UUID]
"""The time and the key of the last row of a page, by which the list is ordered."""


def _before(last: Cursor, time: str) -> Q:
    """The rows after a page, in descending order by `time` and key."""
    at, key = last
    # The first condition is implied by the second; the index needs it.
    return Q(**{f"{time}__lte": at}) & (Q(**{f"{time}__lt": at}) | Q(pk__lt=key))


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
