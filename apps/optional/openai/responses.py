"""POST /v1/responses, and a response's own address: a response is one turn of a task.

`previous_response_id` goes on with its session. The events of a stream are numbered by the record, so that a stream
that is asked for again goes on where the first was cut.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.a2a.http import AuthenticatedRequest, json_response
from apps.accounts.principals import READ, Principal
from apps.agents.models import Agent
from apps.doors import turns
from apps.doors.callers import called_agent
from apps.doors.links import markdown_link
from apps.doors.turns import ClientCall, End, File, Piece, Progress, Text, ToolCall, ToolResult
from apps.engine import cancel
from apps.engine.repeats import Sent
from apps.optional.openai import serving, threads
from apps.optional.openai.errors import NothingToCancel, ResponseNotFound
from apps.optional.openai.requests import ResponseRequest
from apps.optional.openai.serving import Turn
from apps.record import wire
from apps.record.errors import InvalidParams, TaskNotCancelable, TaskNotFound
from apps.record.events import JSON
from apps.record.models import Message, Task, TaskState
from apps.record.reading import lookup
from parley import db

RESPONSE_ID = re.compile(r"resp_([0-9a-f]{32})_(\d{1,18})", re.ASCII)
STATUS = {
    TaskState.SUBMITTED: "queued",
    TaskState.WORKING: "in_progress",
    TaskState.FAILED: "failed",
    TaskState.REJECTED: "failed",
    TaskState.CANCELED: "cancelled",
}
"""By the task's state; a question completes a response."""
LAST_EVENTS = {"cancelled": "incomplete"}
"""Of a stream, by the status, where it has another name."""


async def create(incoming: AuthenticatedRequest, body: Any) -> HttpResponseBase:
    """The agent's response, at once, as a stream, or in the background. Raises Refusal."""
    request = await incoming.work_on_body(ResponseRequest.read, body)
    agent = called_agent(incoming)
    with serving.open_stream(incoming, agent) as stack:
        session = request.session
        if request.previous_response_id:
            session = await db.run(_session_of, incoming.principal, agent, request.previous_response_id)
        messages = await db.run(threads.resolved, incoming.principal, request.messages)
        turn = await serving.begin(incoming, agent, messages, session, request.wishes(body), require_task=True)
        response = Response(turn, request.model, request.background, echoed_of(request))
        if request.stream:
            pieces = replace(turn, is_kept=turn.is_kept or request.background).pieces()
            close = stack.pop_all().close
            return serving.event_stream(incoming.request, agent, pieces, response.frames(), close, turn.headers)
        if not request.background:
            response.read(await serving.collect(turn.pieces()))
        return json_response(response.as_json(), headers=turn.headers)


UNASKED: JSON = {
    "conversation": None,
    "instructions": None,
    "max_output_tokens": None,
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
}
"""Fields of a response that repeat the request's."""


def echoed_of(request: ResponseRequest) -> JSON:
    given = request.model_dump(include={*UNASKED}, exclude_unset=True)
    if isinstance(told := given.get("text"), dict):
        given["text"] = UNASKED["text"] | told
    return {name: value for name, value in given.items() if value is not None and value != ""}


def _session_of(principal: Principal, agent: Agent, response_id: str) -> str:
    """The session's name. Raises InvalidParams, ResponseNotFound."""
    _, task = _find(principal, response_id)
    if task.agent_id != agent.pk:
        raise InvalidParams("The previous response is another model's.", "previous_response_id")
    return task.context.name_for(principal)


async def show(incoming: AuthenticatedRequest, response_id: str) -> HttpResponseBase:
    """GET: the response as it is, or with `stream=true` its events after `starting_after`. Raises Refusal."""
    request, principal = incoming.request, incoming.principal
    after = _starting_after(request)
    index, task = await db.run(_find, principal, response_id)
    sent, session = Sent(task.context_id, index, task.pk), task.context.name_for(principal)
    is_of_others = principal.user_id not in (task.owner_id, task.context.owner_id)
    turn = Turn(incoming, task.agent, sent, session, is_kept=True, is_of_others=is_of_others)
    response = Response(turn, task.agent.slug, True, created=int(task.created_at.timestamp()))
    if request.GET.get("stream") == "true":
        with serving.open_stream(incoming, task.agent) as stack:
            frames, close = response.frames(after), stack.pop_all().close
        return serving.event_stream(request, task.agent, turn.pieces(), frames, close, turn.headers, READ)
    response.read(await db.run(turns.recorded, task.context, task.pk, index))
    response.begin(TaskState(task.state))
    return json_response(response.as_json(), headers=turn.headers)


async def cancel_response(incoming: AuthenticatedRequest, response_id: str) -> HttpResponseBase:
    """POST …/cancel. Raises ResponseNotFound, NothingToCancel."""
    await db.run(_cancel, incoming.principal, response_id)
    return await show(incoming, response_id)


def _cancel(principal: Principal, response_id: str) -> None:
    _, task = _find(principal, response_id)
    try:
        cancel.cancel_for(principal, task)
    except TaskNotCancelable:
        raise NothingToCancel from None


def _find(principal: Principal, response_id: str) -> tuple[int, Task]:
    """The index of a response's message, and its task with agent and context. Raises ResponseNotFound."""
    named = RESPONSE_ID.fullmatch(response_id)
    if named is None:
        raise ResponseNotFound
    try:
        task = lookup.find_task(principal, named[1])
    except TaskNotFound:
        raise ResponseNotFound from None
    index = int(named[2])
    if not Message.objects.filter(context=task.context_id, task=task, index=index, role=Message.Role.USER).exists():
        raise ResponseNotFound
    return index, task


def _starting_after(request: HttpRequest) -> int:
    text = request.GET.get("starting_after", "-1")
    with suppress(ValueError):
        return int(text)
    raise InvalidParams("Must be the sequence_number of an event.", "starting_after")


@dataclass(slots=True)
class Response:
    """A response in the making: `read` takes pieces; each change is an event of the stream."""

    turn: Turn
    model: str
    background: bool
    echoed: JSON = field(default_factory=dict)  # fields of the request
    created: int = field(default_factory=lambda: int(time.time()))
    status: str = "in_progress"
    output: list[JSON] = field(default_factory=list)
    end: End | None = None
    _open: JSON | None = None  # the message item that text is added to
    _events: list[JSON] = field(default_factory=list)
    _number: int = 0

    @property
    def id(self) -> str:
        sent = self.turn.sent
        return f"resp_{sent.task.hex if sent.task else ''}_{sent.index}"

    def begin(self, state: TaskState) -> None:
        """Take the status of a task that has not settled."""
        if self.end is None:
            self.status = STATUS.get(state, self.status)

    def as_json(self) -> JSON:
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": self.status,
            "background": self.background,
            "error": self._error(),
            "incomplete_details": {"reason": "max_output_tokens"} if self.status == "incomplete" else None,
            "metadata": {"session": self.turn.session, "task": str(self.turn.sent.task)},
            "model": self.model,
            "output": [*self.output],
            **UNASKED,
            **self.echoed,
            "usage": _usage(self.end) if self.end else None,
        }

    def _error(self) -> JSON | None:
        if self.end is None or self.status != "failed":
            return None
        return {"code": "server_error", "message": self.end.words or "The agent failed."}

    def frames(self, after: int = -1) -> Callable[[list[tuple[int, Piece]]], Iterator[bytes]]:
        """Encodes pieces as the events with a number above `after`."""
        self._tell("response.created", response=self.as_json())
        self._tell("response.in_progress", response=self.as_json())

        def encode(pieces: list[tuple[int, Piece]]) -> Iterator[bytes]:
            self.read(pieces)
            told, self._events = self._events, []
            for event in told:
                if event["sequence_number"] > after:
                    yield wire.sse_frame(event, event=event["type"])

        return encode

    def read(self, pieces: list[tuple[int, Piece]]) -> None:
        for index, piece in pieces:
            match piece:
                case Text(text):
                    self._say(index, text)
                case File():
                    self._say(index, markdown_link(piece, self.turn.sent.context))
                case Progress(text):
                    self._tell("response.progress", message=text)
                case ToolCall():
                    self._call(piece)
                case ToolResult():
                    self._result(piece)
                case ClientCall():
                    self._ask(piece)
                case End():
                    self._finish(piece)

    def _tell(self, kind: str, **fields: Any) -> None:
        self._events.append({"type": kind, "sequence_number": self._number, **fields})
        self._number += 1

    def _say(self, index: int, text: str) -> None:
        if self._open is None:
            content = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            self._open = {"id": f"msg_{self.turn.sent.context.hex}_{index}", "type": "message", "role": "assistant"}
            self._open |= {"status": "in_progress", "content": [content]}
            self._add({**self._open, "content": []})
            self.output[-1] = self._open
            self._tell("response.content_part.added", **self._place(), part=dict(content))
        self._open["content"][0]["text"] += text
        self._tell("response.output_text.delta", **self._place(), delta=text, logprobs=[])

    def _place(self) -> JSON:
        return {"item_id": self.output[-1]["id"], "output_index": len(self.output) - 1, "content_index": 0}

    def _add(self, item: JSON) -> None:
        self.output.append(item)
        self._tell("response.output_item.added", output_index=len(self.output) - 1, item=item)

    def _close_message(self, status: str = "completed") -> None:
        if self._open is None:
            return
        self._open["status"], content = status, self._open["content"][0]
        self._tell("response.output_text.done", **self._place(), text=content["text"], logprobs=[])
        self._tell("response.content_part.done", **self._place(), part=content)
        self._tell("response.output_item.done", output_index=len(self.output) - 1, item=self._open)
        self._open = None

    def _call(self, call: ToolCall) -> None:
        """The agent runs its tools itself, as OpenAI's servers run those of MCP."""
        self._close_message()
        item: JSON = {"id": f"mcp_{call.id}", "type": "mcp_call", "server_label": self.model, "name": call.name}
        item |= {"arguments": wire.json_text(call.arguments), "output": None, "error": None, "status": "in_progress"}
        self._add(item)

    def _ask(self, call: ClientCall) -> None:
        """The client runs the tool."""
        self._close_message()
        arguments = wire.json_text(call.arguments)
        item = {"id": f"fc_{call.id}", "type": "function_call", "call_id": call.id, "name": call.name}
        self._add({**item, "arguments": "", "status": "in_progress"})
        self.output[-1] = {**item, "arguments": arguments, "status": "completed"}
        place = {"item_id": item["id"], "output_index": len(self.output) - 1}
        self._tell("response.function_call_arguments.delta", **place, delta=arguments)
        self._tell("response.function_call_arguments.done", **place, arguments=arguments, name=call.name)
        self._tell("response.output_item.done", output_index=len(self.output) - 1, item=self.output[-1])

    def _result(self, result: ToolResult) -> None:
        key = f"mcp_{result.id}"
        place = next((at for at, item in enumerate(self.output) if item["id"] == key), None)
        if place is None:
            return
        text = result.result if isinstance(result.result, str) else wire.json_text(result.result)
        self.output[place] = {**self.output[place], "output": text, "status": "completed"}
        if result.is_error:
            error = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text}]}
            self.output[place] |= {"output": None, "error": error, "status": "failed"}
        self._tell("response.output_item.done", output_index=place, item=self.output[place])

    def _finish(self, end: End) -> None:
        answered = "incomplete" if end.is_cut_off else "completed"
        self._close_message(answered)
        self.end, self.status = end, STATUS.get(end.state, answered)
        self._tell(f"response.{LAST_EVENTS.get(self.status, self.status)}", response=self.as_json())


def _usage(end: End) -> JSON:
    read, written = end.usage.get("inputTokens", 0), end.usage.get("outputTokens", 0)
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + written,
    }
