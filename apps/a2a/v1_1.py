"""The draft of A2A 1.1 (its branch dev-1.1, ADR-002), as far as it can be read (docs/decisions/a2a.md).

It is 1.0 with more fields, made of the log: a task's `generation` is the index of its newest event that callers see.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, cast

from django.conf import settings
from django.db.models import Max, Min
from pydantic import Field

import db
from apps.a2a import http
from apps.a2a.errors import JSON, TaskGenerationMismatch
from apps.a2a.operations import OPERATIONS, Call, Operation, execute
from apps.a2a.protojson import Integer, Line, ProtoMessage
from apps.a2a.requests import HistoryLength, TaskRequest
from apps.a2a.tasks import Updates
from apps.engine.send import wait_for
from apps.limits import current as limits
from apps.record import lookup, wire
from apps.record.errors import InvalidParams
from apps.record.events import EventType
from apps.record.ledger import Ledger
from apps.record.models import Event, Message, Task, TaskState

CHUNKS = (EventType.ARTIFACT_UPDATE, EventType.AGENT_TOKEN, EventType.AGENT_TOKEN_END)
SHOWN = (EventType.USER_MESSAGE, EventType.AGENT_STATUS, *CHUNKS)
"""The events that change what callers see of a task."""

Generation = Annotated[Integer, Field(ge=0)]


async def execute_next(incoming: http.AuthenticatedRequest, method: str, params: Any) -> http.Answer:
    """Run an operation of 1.1. Webhooks are called as in 1.0. Raises Refusal, QuotaExceeded."""
    return await execute(incoming, method, params, operations=NEXT_OPERATIONS)


class TaskName(ProtoMessage):
    """What is read of a message: the task that it continues."""

    task_id: Line = ""


class TaskOptions(ProtoMessage):
    """What 1.1 adds to GetTask and CancelTask, and to the configuration of a send."""

    current_generation: Generation | None = None
    if_generation_match: Generation | None = None
    timeline_length: HistoryLength | None = None


class SendOptions(ProtoMessage):
    """What 1.1 reads of a send."""

    message: TaskName = TaskName()
    configuration: TaskOptions = TaskOptions()


async def _send(call: Call) -> JSON | str | Updates:
    """Raises TaskGenerationMismatch, and what it raises in 1.0."""
    options = SendOptions.read(call.params)
    expected = options.configuration.if_generation_match
    if expected is not None and not options.message.task_id:
        raise InvalidParams(
            "configuration.ifGenerationMatch is for a message with a taskId.", "configuration.ifGenerationMatch"
        )
    method = "SendStreamingMessage" if call.is_stream else "SendMessage"
    answer = await OPERATIONS[method](_checked(call, expected))
    if call.is_stream:
        return _numbered(cast(Updates, answer))
    if not isinstance(answer, str):
        return cast(JSON, answer)  # a message
    return {"task": await db.run(_with_timeline, json.loads(answer)["task"], options.configuration.timeline_length)}


def _checked(call: Call, expected: int | None) -> Call:
    return call if expected is None else replace(call, check=partial(_check_generation, expected))


def _check_generation(expected: int, log: Ledger, task: uuid.UUID) -> None:
    if generation_of(task) != expected:
        raise TaskGenerationMismatch


async def _get(call: Call) -> JSON:
    """GetTask; with `currentGeneration` it waits until the task is newer or has ended, for A2A_POLL_SECONDS at most."""
    options = TaskOptions.read(call.params)
    if options.current_generation is not None:
        await _wait_beyond(options.current_generation, call)
    return await _shown(call, "GetTask", options)


async def _cancel(call: Call) -> JSON:
    """Raises TaskGenerationMismatch, and what it raises in 1.0."""
    options = TaskOptions.read(call.params)
    return await _shown(_checked(call, options.if_generation_match), "CancelTask", options)


async def _shown(call: Call, method: str, options: TaskOptions) -> JSON:
    text = await OPERATIONS[method](call)
    return await db.run(_with_timeline, json.loads(cast(str, text)), options.timeline_length)


async def _wait_beyond(known: int, call: Call) -> None:
    """Wait without a thread or connection. It counts as an open stream."""
    request = TaskRequest.read(call.params, call.agent)
    task = await db.run(lookup.find_seen_task, call.principal, call.agent, request.id)
    close = limits.open_stream(call.principal, str(call.request.META.get("REMOTE_ADDR", "")), call.agent.pk)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(settings.A2A_POLL_SECONDS):
                await wait_for(task.context_id, task.context.last_event, partial(_has_news, task.pk, known))
    finally:
        close()


def _has_news(task: uuid.UUID, known: int) -> bool | None:
    """True for a newer task, and for one to which nothing more happens; else None."""
    state = Task.objects.filter(pk=task).values_list("state", flat=True).first()
    return state is None or TaskState(state).is_terminal or generation_of(task) > known or None


async def _list(call: Call) -> JSON:
    """Tasks of lists have no timeline."""
    listed: JSON = json.loads(cast(str, await OPERATIONS["ListTasks"](call)))
    generations = await db.run(_generations, [uuid.UUID(task["id"]) for task in listed["tasks"]])
    tasks = [task | {"generation": str(generations[uuid.UUID(task["id"])])} for task in listed["tasks"]]
    return listed | {"tasks": tasks}


async def _subscribe(call: Call) -> Updates:
    return _numbered(cast(Updates, await OPERATIONS["SubscribeToTask"](call)))


async def _numbered(updates: Updates) -> Updates:
    async with aclosing(updates):
        async for batch in updates:
            yield [(index, shown.in_form(http.V1_1, partial(_with_generation, index))) for index, shown in batch]


def _with_generation(index: int, response: JSON) -> JSON:
    [(kind, value)] = response.items()
    return response if kind == "message" else {kind: value | {"generation": str(index)}}


def generation_of(task: uuid.UUID) -> int:
    return _generations([task]).get(task, 0)


def _generations(tasks: list[uuid.UUID]) -> dict[uuid.UUID, int]:
    shown = Event.objects.filter(task__in=tasks, type__in=SHOWN).order_by()
    return dict(shown.values_list("task").annotate(Max("index")))


def _with_timeline(task: JSON, length: int | None) -> JSON:
    """The task with its generation, its timeline, and the generations of its artifacts. Numbers are texts (int64)."""
    row = Task.objects.select_related("context").get(pk=task["id"])
    timeline = _timeline(row, settings.DEFAULT_HISTORY_LENGTH if length is None else length)
    shown = {**task, "generation": str(generation_of(row.pk))} | ({"timeline": timeline} if timeline else {})
    if "artifacts" in task:
        chunks = Event.objects.filter(task=row, type__in=CHUNKS).order_by().values_list("artifact_id")
        made = {key: (first, last) for key, first, last in chunks.annotate(Min("index"), Max("index"))}
        shown["artifacts"] = [one | _span(*made.get(one["artifactId"], (0, 0))) for one in task["artifacts"]]
    return shown


def _span(first: int, last: int) -> JSON:
    return {"startGeneration": str(first), "endGeneration": str(last)} if last else {}


def _timeline(task: Task, length: int) -> list[JSON]:
    """The newest messages of people and statuses of the agent, in order."""
    said = Message.objects.filter(task=task, role=Message.Role.USER).order_by("-index")[:length]
    entries: dict[int, JSON] = {row.index: {"message": wire.message(row, task.context)} for row in said}
    for event in Event.objects.filter(task=task, type=EventType.AGENT_STATUS).order_by("-index")[:length]:
        if response := wire.stream_response(event, task.context):
            entries[event.index] = {"status": response["statusUpdate"]["status"]}
    newest = sorted(entries)[-length:] if length else []
    return [{"generation": str(index), **entries[index]} for index in newest]


NEXT_OPERATIONS: dict[str, Operation] = {
    "SendMessage": _send,
    "SendStreamingMessage": _send,
    "GetTask": _get,
    "ListTasks": _list,
    "CancelTask": _cancel,
    "SubscribeToTask": _subscribe,
}
"""The operations that differ from 1.0's."""
