"""AG-UI (https://docs.ag-ui.com): `POST /agui/<slug>` runs an agent and streams AG-UI events.

A thread is the caller's session of that name. A run's message has the id `run_key`, so that a run that is sent again
with `Last-Event-ID` goes on after that event.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from ag_ui.core import events, types
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt
from pydantic import ValidationError

from apps.a2a import http
from apps.a2a.errors import problem
from apps.a2a.protojson import invalid_fields
from apps.a2a.requests import checked_message
from apps.accounts.principals import WRITE, Principal
from apps.agents.models import Agent
from apps.doors import turns
from apps.doors.callers import called_agent, recheck
from apps.doors.clients import Wishes, json_or_text, results_message
from apps.doors.cors import Cors
from apps.doors.links import link_to, markdown_link
from apps.doors.turns import ClientCall, End, File, Piece, Progress, Text, ToolCall, ToolResult
from apps.engine import cancel
from apps.engine.repeats import Sent, sent_before
from apps.engine.send import send
from apps.limits import current as limits
from apps.record import wire
from apps.record.errors import InvalidParams, MethodNotAllowed, TaskNotCancelable, check_allowed
from apps.record.events import JSON
from apps.record.models import TaskState
from apps.record.reading import lookup
from parley import db

RESOURCE = "/agui"
REASONS = {TaskState.INPUT_REQUIRED: "input_required", TaskState.AUTH_REQUIRED: "auth_required"}
STATE: JSON = {"task": None, "session": "", "state": "working", "progress": None, "files": [], "question": None}
LAST_EVENT_ID = re.compile(r"\d{1,18}", re.ASCII)
CORS = Cors("POST, OPTIONS", "Authorization, Content-Type, Accept, Last-Event-ID")


@csrf_exempt
async def run_agent(request: HttpRequest, slug: str) -> HttpResponseBase:
    try:
        response = CORS.preflight() if request.method == "OPTIONS" else await _run(request, slug)
    except Exception as error:
        response = _refusal(error)
    return CORS.allow(request, response, settings.AGUI_ORIGINS)


def _refusal(error: Exception) -> HttpResponse:
    refused = problem(error)
    return http.json_response(refused.brief, refused.codes.a2a, refused.http_headers)


async def _run(request: HttpRequest, slug: str) -> HttpResponseBase:
    if request.method != "POST":
        raise MethodNotAllowed(["POST"])
    http.check_content_type(request)
    incoming = await http.authenticate_request(request, slug, f"{RESOURCE}/{slug}")
    principal, agent = incoming.principal, called_agent(incoming)
    check_allowed(principal, WRITE)
    asked = await incoming.work_on_body(_read, await http.read_object(incoming))
    after = _last_event_id(request)
    warning = ""
    with ExitStack() as stack:
        stack.callback(limits.open_stream(principal, incoming.address, agent.pk))
        if given_up := _given_up(asked):
            sent = await db.run(_cancel, principal, agent, given_up)
            pieces = _canceled()
        else:
            wished, warning = await _wishes(asked).told(agent)
            message = await db.run(_message, principal, agent, asked, wished)
            if after:
                sent = await db.run(_earlier, principal, agent, message)
            else:
                trace = request.headers.get("traceparent", "")
                sent = await send(principal, agent, message, finds_question=True, traceparent=trace)
            left = sent.task if settings.AGUI_CANCEL_ON_LEAVE else None
            pieces = turns.stopping(turns.at_once(turns.follow(sent)), principal, agent, left)
        run = Run(asked.thread_id, asked.run_id, sent, _own_state(asked), after)
        check = recheck(request, slug, WRITE)
        frames = http.checked_frames(pieces, run.frames, run.error, check)
        return wire.EventStream(frames, stack.pop_all().close, {"Warning": warning} if warning else {})


def _read(body: JSON) -> types.RunAgentInput:
    """Raises InvalidFields."""
    messages = body.get("messages")
    for message in messages if isinstance(messages, list) else []:
        if isinstance(message, dict) and isinstance(message.get("content"), list):
            message["content"] = [_modern(part) for part in message["content"]]
    try:
        return types.RunAgentInput.model_validate(body)
    except ValidationError as error:
        raise invalid_fields(error) from None


def _modern(part: Any) -> Any:
    """A part as AG-UI 1.0 has it: clients before it send files as `binary`."""
    if not isinstance(part, dict) or part.get("type") != "binary":
        return part
    kind = next((name for name in ("data", "url") if part.get(name)), "file")
    source = {"type": kind, "value": part.get(kind, part.get("id")), "mimeType": part.get("mimeType")}
    return {"type": "document", "source": source, "metadata": {"filename": part.get("filename")}}


def _last_event_id(request: HttpRequest) -> int:
    """0 without one. Raises InvalidParams."""
    text = request.headers.get("Last-Event-ID", "0")
    if not LAST_EVENT_ID.fullmatch(text):
        raise InvalidParams("Must be the id of an event of this run.", "Last-Event-ID")
    return int(text)


def _wishes(asked: types.RunAgentInput) -> Wishes:
    fields = {"name", "description", "parameters"}
    return Wishes([one.model_dump(include=fields, exclude_none=True) for one in asked.tools or []])


def _earlier(principal: Principal, agent: Agent, message: JSON) -> Sent:
    """What this run's message led to, if the caller sent it before. Raises InvalidParams."""
    sent = sent_before(principal, agent, message)
    if sent is None:
        raise InvalidParams("There is no run of yours with this runId to go on with. Leave it out.", "Last-Event-ID")
    return sent


def run_key(asked: types.RunAgentInput) -> str:
    """The id of the run's message: a run's id is unique in its thread."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, json.dumps([asked.thread_id, asked.run_id])))


def _message(principal: Principal, agent: Agent, asked: types.RunAgentInput, wished: JSON) -> JSON:
    """The A2A message of what is new, with the front end's state, context and wishes as metadata.

    Raises InvalidFields, ContentTypeNotSupported.
    """
    told = {"state": _own_state(asked), "context": [one.model_dump(by_alias=True) for one in asked.context or []]}
    told |= {"forwardedProps": asked.forwarded_props}
    given, prompts = {name: value for name, value in told.items() if value}, _instructions(asked)
    metadata = wished | ({"agui": given} if given else {}) | ({"instructions": prompts} if prompts else {})
    said: JSON = {"messageId": asked.run_id, "contextId": asked.thread_id}
    said |= {"metadata": metadata} if metadata else {}
    message = checked_message(agent, said | _said(principal, agent, asked), _agui_name)
    return message | {"messageId": run_key(asked)}


def _said(principal: Principal, agent: Agent, asked: types.RunAgentInput) -> JSON:
    """The fields of the answer to an interrupt, or of results and the user's messages after the last answer."""
    answered = next((entry for entry in asked.resume or [] if entry.status == "resolved"), None)
    payload = answered.payload if answered else _commanded(asked.forwarded_props)
    if answered is not None or payload is not None:
        parts = [{"text": payload} if isinstance(payload, str) else {"data": payload}]
        return {"parts": parts} | ({"taskId": answered.interrupt_id} if answered else {})
    newest = _newest(asked.messages)
    results = {one.tool_call_id: _result(one) for one in newest if isinstance(one, types.ToolMessage)}
    answer = results_message(principal, agent, results, run_key(asked)) if results else None
    spoken = [one for one in newest if isinstance(one, types.UserMessage)]
    if answer is None:  # other results are the agent's own, unless nothing else is said
        return {"parts": [part for one in spoken or newest for part in _parts(one)]}
    parts = [part for one in spoken for part in _parts(one)]
    return {"parts": [*answer["parts"], *parts], "taskId": answer["taskId"]}


def _result(message: types.ToolMessage) -> Any:
    if message.error:
        return {"error": message.error}
    return json_or_text("".join(part["text"] for part in _parts(message) if "text" in part))


def _instructions(asked: types.RunAgentInput) -> str:
    """What the front end says to models: system prompts, and its context."""
    said = [one.content for one in asked.messages if isinstance(one, types.SystemMessage | types.DeveloperMessage)]
    return "\n\n".join([*said, *(f"{one.description}: {one.value}" for one in asked.context or [])])


def _commanded(forwarded: Any) -> Any:
    """The answer of front ends that know interrupts as LangGraph's: `forwardedProps.command.resume`."""
    command = forwarded.get("command") if isinstance(forwarded, dict) else None
    return command.get("resume") if isinstance(command, dict) else None


def _own_state(asked: types.RunAgentInput) -> Any:
    """The front end's state without what came from here."""
    if not isinstance(asked.state, dict):
        return asked.state
    return {name: value for name, value in asked.state.items() if name not in STATE}


def _agui_name(path: str) -> str:
    names = {"message.messageId": "runId", "message.contextId": "threadId", "message.taskId": "resume[0].interruptId"}
    return names.get(path, path.replace("message.parts", "messages.content"))


def _newest(messages: Sequence[types.Message]) -> list[types.UserMessage | types.ToolMessage]:
    newest: list[types.UserMessage | types.ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, types.UserMessage | types.ToolMessage):
            newest.append(message)
        elif isinstance(message, types.AssistantMessage):
            break
    return newest[::-1]


def _parts(message: types.UserMessage | types.ToolMessage) -> Iterator[JSON]:
    """Raises InvalidParams."""
    if isinstance(message.content, str):
        yield {"text": message.content}
        return
    for part in message.content:
        if isinstance(part, types.TextPart):
            yield {"text": part.text}
            continue
        source = part.source
        if isinstance(source, types.FileSource):
            raise InvalidParams("Send the content or a link: files by id are not kept here.", "messages.content.source")
        about = {"mediaType": source.mime_type} if source.mime_type else {}
        name = part.metadata.get("filename") if isinstance(part.metadata, dict) else None
        about |= {"filename": name} if name else {}
        yield {"raw" if isinstance(source, types.DataSource) else "url": source.value, **about}


def _given_up(asked: types.RunAgentInput) -> str:
    """The task whose question the person does not answer."""
    return next((entry.interrupt_id for entry in asked.resume or [] if entry.status == "cancelled"), "")


def _cancel(principal: Principal, agent: Agent, task_id: str) -> Sent:
    """Raises TaskNotFound. A task that has ended stays as it is."""
    task = lookup.find_agent_task(principal, agent, task_id)
    with suppress(TaskNotCancelable):
        cancel.cancel_task(task)
    return Sent(task.context_id, 0, task=task.pk)


async def _canceled() -> AsyncGenerator[list[tuple[int, Piece]]]:
    yield [(0, End(TaskState.CANCELED))]


@dataclass(slots=True)
class Run:
    """The events of a run, made of its pieces; those up to event `after` of the record were sent before.

    `own_state` is the front end's part of the state.
    """

    thread: str
    id: str
    sent: Sent
    own_state: Any = None
    after: int = 0
    _state: JSON = field(init=False)
    _has_begun: bool = False
    _messages: int = 0
    _is_open: bool = False
    _asks: bool = False  # the front end to run tools

    def __post_init__(self) -> None:
        self._state = self.own_state if isinstance(self.own_state, dict) else {}
        self._state |= {**STATE, "task": self._task, "session": self.thread, "files": []}

    def frames(self, pieces: list[tuple[int, Piece]]) -> Iterator[bytes]:
        """Server-sent events. An id comes with the last event of each event of the record."""
        fresh = [(index, piece) for index, piece in pieces if index > self.after or isinstance(piece, End)]
        for _, piece in pieces[: len(pieces) - len(fresh)]:
            list(self._events(piece))
        reached = pieces[-1][0] if pieces else 0
        if not self._has_begun and (fresh or reached >= self.after):
            self._has_begun = True
            yield from map(_frame, self._begin())
        for place, (index, piece) in enumerate(fresh):
            made = list(self._events(piece))
            is_last = place + 1 == len(fresh) or fresh[place + 1][0] != index
            yield from map(_frame, made[:-1])
            for one in made[-1:]:
                yield _frame(one, index if is_last and index else None)

    def _begin(self) -> Iterator[events.BaseEvent]:
        """Clients check each stream by itself, so one that goes on opens the cut message again."""
        yield events.RunStartedEvent(thread_id=self.thread, run_id=self.id)
        yield events.StateSnapshotEvent(snapshot=self._state)
        if self._is_open:
            yield events.TextMessageStartEvent(message_id=self._message, role="assistant")

    def error(self, error: Exception) -> bytes:
        refused = problem(error)
        return _frame(events.RunErrorEvent(**refused.brief["error"]))

    def _events(self, piece: Piece) -> Iterator[events.BaseEvent]:
        match piece:
            case Text(text):
                yield from self._say(text)
            case Progress(text, done, total):
                progress = {"text": text, "done": done, "total": total}
                yield self._set("progress", progress)
                yield events.ActivitySnapshotEvent(
                    message_id=f"{self.id}-progress", activity_type="progress", content=progress
                )
            case ToolCall() | ClientCall():
                self._asks = self._asks or isinstance(piece, ClientCall)
                yield from self._close()
                yield events.ToolCallStartEvent(tool_call_id=piece.id, tool_call_name=piece.name)
                yield events.ToolCallArgsEvent(tool_call_id=piece.id, delta=wire.json_text(piece.arguments))
                yield events.ToolCallEndEvent(tool_call_id=piece.id)
            case ToolResult():
                text = piece.result if isinstance(piece.result, str) else wire.json_text(piece.result)
                key = f"{self.id}-{piece.id}"
                yield events.ToolCallResultEvent(message_id=key, tool_call_id=piece.id, content=text)
            case File():
                about = {"name": piece.name, "mediaType": piece.media_type, "url": link_to(piece, self.sent.context)}
                self._state["files"].append(about)
                yield _changed("add", "/files/-", about)
                yield from self._say(markdown_link(piece, self.sent.context))
            case End():
                yield from self._close()
                yield from self._end(piece)

    def _say(self, text: str) -> Iterator[events.BaseEvent]:
        if not self._is_open:
            self._is_open = True
            yield events.TextMessageStartEvent(message_id=self._message, role="assistant")
        yield events.TextMessageContentEvent(message_id=self._message, delta=text)

    def _close(self) -> Iterator[events.BaseEvent]:
        if self._is_open:
            yield events.TextMessageEndEvent(message_id=self._message)
            self._is_open, self._messages = False, self._messages + 1

    def _end(self, end: End) -> Iterator[events.BaseEvent]:
        yield self._set("state", str(end.state))
        usage = [_usage(model, counts) for model, counts in end.usage.get("models", {}).items()] or None
        if end.state in (TaskState.FAILED, TaskState.REJECTED):
            code = end.code or str(end.state)
            yield events.RunErrorEvent(message=end.words or "The agent failed.", code=code, usage=usage)
            return
        outcome: Any = events.RunFinishedSuccessOutcome()
        if end.state == TaskState.CANCELED:
            outcome = events.RunFinishedCancelledOutcome()
        elif end.state.is_interrupted and not self._asks:
            yield self._set("question", {"text": end.words, "schema": (end.slot or {}).get("schema")})
            outcome = events.RunFinishedInterruptOutcome(interrupts=[self._interrupt(end)])
        yield events.RunFinishedEvent(thread_id=self.thread, run_id=self.id, outcome=outcome, usage=usage)

    def _set(self, name: str, value: Any) -> events.StateDeltaEvent:
        self._state[name] = value
        return _changed("replace", f"/{name}", value)

    def _interrupt(self, end: End) -> types.Interrupt:
        schema = (end.slot or {}).get("schema")
        return types.Interrupt(
            id=self._task or "", reason=REASONS[end.state], message=end.words, response_schema=schema
        )

    @property
    def _message(self) -> str:
        return f"{self.id}-{self._messages}"

    @property
    def _task(self) -> str | None:
        return str(self.sent.task) if self.sent.task else None


def _usage(model: str, counts: JSON) -> events.TokenUsage:
    read, written = counts.get("inputTokens", 0), counts.get("outputTokens", 0)
    return events.TokenUsage(model=model, input_tokens=read, output_tokens=written, total_tokens=read + written)


def _changed(operation: str, place: str, value: Any) -> events.StateDeltaEvent:
    """A JSON Patch (RFC 6902)."""
    return events.StateDeltaEvent.model_validate({"delta": [{"op": operation, "path": place, "value": value}]})


def _frame(event: events.BaseEvent, index: int | None = None) -> bytes:
    return wire.text_frame(event.model_dump_json(by_alias=True), id_=index)
