"""The draft of A2A 1.1 (its branch dev-1.1, ADR-002), as far as it can be read (docs/decisions/a2a.md).

It is 1.0 with more fields, made of the log: a task's `generation` is the number of its events that callers see.
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
from django.db.models import Count, QuerySet
from pydantic import Field

from apps.a2a import http
from apps.a2a.errors import JSON
from apps.a2a.operations import OPERATIONS, Call, Operation, execute
from apps.a2a.protojson import Integer, Line, ProtoMessage
from apps.a2a.requests import HistoryLength, TaskRequest
from apps.a2a.tasks import Update, Updates
from apps.engine.send import wait_for
from apps.limits import current as limits
from apps.record import wire
from apps.record.errors import TaskGenerationMismatch
from apps.record.events import EventType
from apps.record.ledger import Ledger
from apps.record.models import INTERRUPTED_STATES, Event, Message, Task, TaskState
from apps.record.reading import lookup
from parley import db

CHUNKS = (EventType.ARTIFACT_UPDATE, EventType.AGENT_TOKEN, EventType.AGENT_TOKEN_END)
SHOWN = (EventType.USER_MESSAGE, EventType.AGENT_STATUS, *CHUNKS)
"""The events that change what callers see of a task."""

ELICITATION_STATES = {True: "ELICITATION_STATE_BLOCKED", False: "ELICITATION_STATE_RESOLVED"}
"""By whether the task waits for the answer."""

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
    expected = options.configuration.if_generation_match if options.message.task_id else None
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
    if (current := generation_of(task)) != expected:
        raise TaskGenerationMismatch(str(task), expected, current)


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
            generations = await db.run_for_stream(_generations_in, batch)
            yield [
                (index, shown.in_form(http.V1_1, partial(_with_generation, generations.get(index, 0))))
                for index, shown in batch
            ]


def _generations_in(batch: list[Update]) -> dict[int, int]:
    """The generations of a stream's updates, by index."""
    [(kind, value)] = batch[0][1].value.items()
    if kind == "message":
        return {}
    first, last = batch[0][0], batch[-1][0]
    shown = shown_events(uuid.UUID(value["id" if kind == "task" else "taskId"])).order_by("index")
    before = shown.filter(index__lt=first).count()
    indexes = shown.filter(index__gte=first, index__lte=last).values_list("index", flat=True)
    # A stream may begin at an event of the context that is not of its task.
    return {first: before} | {index: before + number for number, index in enumerate(indexes, 1)}


def _with_generation(generation: int, response: JSON) -> JSON:
    [(kind, value)] = response.items()
    return response if kind == "message" else {kind: value | {"generation": str(generation)}}


def shown_events(*tasks: uuid.UUID) -> QuerySet[Event]:
    """The events that change what callers see of the tasks."""
    return Event.objects.filter(task__in=tasks, type__in=SHOWN).exclude(payload__has_key="kept")


def generation_of(task: uuid.UUID) -> int:
    return shown_events(task).count()


def _generations(tasks: list[uuid.UUID]) -> dict[uuid.UUID, int]:
    return dict(shown_events(*tasks).order_by().values_list("task").annotate(Count("pk")))


def _with_timeline(task: JSON, length: int | None) -> JSON:
    """The task with its generation, timeline and elicitations, and the generations of its artifacts.

    Numbers are texts (int64).
    """
    row = Task.objects.select_related("context").get(pk=task["id"])
    events = shown_events(row.pk).order_by("index").values_list("index", "artifact_id")
    generations: dict[int, int] = {}
    made: dict[str, JSON] = {}
    for generation, (index, artifact) in enumerate(events, 1):
        generations[index] = generation
        made.setdefault(artifact, {"startGeneration": str(generation)})["endGeneration"] = str(generation)
    more = {
        "timeline": _timeline(row, settings.DEFAULT_HISTORY_LENGTH if length is None else length, generations),
        "elicitations": _elicitations(row),
    }
    shown = {**task, "generation": str(len(generations))} | {name: value for name, value in more.items() if value}
    if "artifacts" in task:
        shown["artifacts"] = [one | made.get(one["artifactId"], {}) for one in task["artifacts"]]
    return shown


def _elicitations(task: Task) -> list[JSON]:
    """What the task asked, oldest first. The answer's form is in the metadata of the question's status."""
    asked = Event.objects.filter(task=task, type=EventType.AGENT_STATUS, payload__state__in=INTERRUPTED_STATES)
    return [
        {
            "id": event.payload["message"]["messageId"],
            "state": ELICITATION_STATES[event.index == task.status_event and TaskState(task.state).is_interrupted],
            "metadata": {"slot": event.payload.get("slot", {}).get("name", "")},
        }
        for event in asked.order_by("index")
    ]


def _timeline(task: Task, length: int, generations: dict[int, int]) -> list[JSON]:
    """The newest messages of people and statuses of the agent, in order."""
    said = Message.objects.filter(task=task, role=Message.Role.USER).order_by("-index")[:length]
    entries: dict[int, JSON] = {row.index: {"message": wire.message(row, task.context)} for row in said}
    for event in Event.objects.filter(task=task, type=EventType.AGENT_STATUS).order_by("-index")[:length]:
        if response := wire.stream_response(event, task.context):
            entries[event.index] = {"status": response["statusUpdate"]["status"]}
    known = [index for index in sorted(entries) if index in generations]  # others came after these were read
    newest = known[-length:] if length else []
    return [{"generation": str(generations[index]), **entries[index]} for index in newest]


NEXT_OPERATIONS: dict[str, Operation] = {
    "SendMessage": _send,
    "SendStreamingMessage": _send,
    "GetTask": _get,
    "ListTasks": _list,
    "CancelTask": _cancel,
    "SubscribeToTask": _subscribe,
}
"""The operations that differ from 1.0's."""
