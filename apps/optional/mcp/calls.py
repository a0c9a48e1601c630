"""tools/call: a message to an agent, and what follows of it as one result."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial

import mcp_types as types
from django.conf import settings
from django.urls import reverse

from apps.a2a.http import AuthenticatedRequest
from apps.a2a.requests import checked_message
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.doors import turns
from apps.doors.links import link_to
from apps.doors.turns import End, File, Piece, Progress, Text
from apps.engine import cancel
from apps.engine.repeats import Sent
from apps.engine.send import send
from apps.optional.mcp import forms, resources, tools
from apps.optional.mcp.forms import ANSWER
from apps.optional.mcp.protocol import Call, McpError, invalid
from apps.optional.mcp.tools import CANCEL_TASK, GET_TASK, Arguments, TaskArgument
from apps.record.content import json_schema
from apps.record.error_table import sentence_of
from apps.record.errors import InvalidParams, Refusal
from apps.record.events import JSON
from apps.record.models import Message, Task, TaskState
from apps.record.reading import lookup
from parley import db

RELATED_TASK = "io.modelcontextprotocol/related-task"
SMALLEST_STEP = 0.001  # of progress, which must grow


@dataclass(frozen=True, slots=True)
class Prepared:
    """A message to an agent. `question` is the index of the event that it answers."""

    agent: Agent
    message: JSON
    session: str = ""
    question: int | None = None


@dataclass(slots=True)
class Turn:
    """What a call waits for. `seconds`: at most; None: until it settles. `is_ours`: it stops if the client leaves."""

    call: Call
    principal: Principal
    agent: Agent
    tool: str
    sent: Sent
    session: str
    seconds: float | None
    is_ours: bool = False
    may_ask: bool = True
    is_of_others: bool = False
    progress: float = field(default=0.0, init=False)

    async def messages(self) -> AsyncGenerator[list[JSON]]:
        """Notifications of progress, then the response."""
        pieces: list[tuple[int, Piece]] = []
        has_left = True
        try:
            async with aclosing(self._pieces()) as batches:
                async for batch in batches:
                    pieces += batch
                    notes = [self._note(piece) for _, piece in batch if isinstance(piece, Progress)]
                    if notes and self.call.progress_token is not None:
                        yield notes
            has_left = False
            yield [self._response(pieces)]
        finally:
            if has_left and self.is_ours and self.sent.task is not None:
                db.later(_stop, self.principal, self.agent, self.sent.task)

    async def _pieces(self) -> AsyncGenerator[list[tuple[int, Piece]]]:
        deadline = None if self.seconds is None else asyncio.get_running_loop().time() + self.seconds
        async with aclosing(turns.follow(self.sent, is_of_others=self.is_of_others)) as batches:
            while True:
                try:
                    async with asyncio.timeout_at(deadline):
                        batch = await anext(batches)
                except (TimeoutError, StopAsyncIteration):
                    return
                yield batch

    def _note(self, piece: Progress) -> JSON:
        done = piece.done or 0.0
        self.progress = done if done > self.progress else self.progress + SMALLEST_STEP
        params = {"progressToken": self.call.progress_token, "progress": self.progress, "message": piece.text}
        if piece.total is not None:
            params["total"] = piece.total
        return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}

    def _response(self, pieces: list[tuple[int, Piece]]) -> JSON:
        index, last = pieces[-1] if pieces else (0, None)
        end = last if isinstance(last, End) else None
        if end and end.state == TaskState.INPUT_REQUIRED and self.may_ask:
            form = forms.form_of(end.slot)
            words = end.words or "What is your answer?"
            if form.schema and self.call.takes_forms:
                words += f"\n\nTo add files, answer at {self.page} instead." if form.takes_files else ""
                asked = types.ElicitRequestFormParams(message=words, requested_schema=form.schema)
                return self.call.result(self._question(index, asked))
            if not form.schema and self.call.takes_addresses:
                return self.call.result(
                    self._question(index, types.ElicitRequestURLParams(message=words, url=self.page))
                )
        return self.call.result(self._result([piece for _, piece in pieces], end))

    @property
    def page(self) -> str:
        """The session's page, where people answer with files, and forms of any kind."""
        return f"{settings.PUBLIC_BASE_URL}{reverse('web:session', args=[self.sent.context])}"

    def _question(self, index: int, asked: types.ElicitRequestParams) -> types.InputRequiredResult:
        state = f"{self.sent.task}.{index}"
        return types.InputRequiredResult(
            input_requests={ANSWER: types.ElicitRequest(params=asked)}, request_state=state
        )

    def _result(self, pieces: list[Piece], end: End | None) -> types.CallToolResult:
        text = "".join(piece.text for piece in pieces if isinstance(piece, Text)).strip()
        files = [piece for piece in pieces if isinstance(piece, File)]
        state = end.state if end else TaskState.WORKING
        is_error = state in (TaskState.FAILED, TaskState.REJECTED, TaskState.CANCELED)
        if is_error and end:
            text = end.words or f"The agent's task was {state}."
        told: JSON = {"state": str(state), "text": text, "session": self.session}
        if self.sent.task:
            told["task"] = str(self.sent.task)
        if files:
            told["files"] = [self._file(file) for file in files]
        if end and state.is_interrupted and end.slot and end.slot.get("schema"):
            told["form"] = end.slot["schema"]
            told["page"] = self.page
        content: list[types.ContentBlock] = [types.TextContent(text=text)] if text else []
        if self.call.takes_links:
            content += [resources.link_of(file) for file in files]
        content.append(types.TextContent(text=self._hint(state), annotations=FOR_MODELS))
        related = {RELATED_TASK: {"taskId": told["task"]}} if self.call.method == "tasks/result" else None
        return types.CallToolResult(content=content, structured_content=told, is_error=is_error, _meta=related)

    def _file(self, file: File) -> JSON:
        link = resources.link_of(file)
        return {
            "name": file.name,
            "mimeType": file.media_type,
            "uri": link.uri,
            "url": link_to(file, self.sent.context),
        }

    def _hint(self, state: TaskState) -> str:
        """What can be done next, for the model."""
        if state == TaskState.INPUT_REQUIRED:
            by_tool = f"To answer, call {self.tool} with task={self.sent.task} and the answer as message."
            return f"{by_tool} A person can answer at {self.page}, also with files."
        if not state.is_settled or state == TaskState.AUTH_REQUIRED:
            waits = "waits for a credential" if state == TaskState.AUTH_REQUIRED else "still works"
            return f"The task {self.sent.task} {waits}. Call {GET_TASK} to wait for it, or {CANCEL_TASK} to stop it."
        return f"To go on with this conversation, call {self.tool} with session={self.session}"


FOR_MODELS = types.Annotations(audience=["assistant"], priority=0.2)


def _stop(principal: Principal, agent: Agent, task: uuid.UUID) -> None:
    with suppress(Refusal):
        cancel.cancel_by_id(principal, agent, str(task))


Act = Callable[[AuthenticatedRequest, Call], Awaitable[Turn | JSON]]


async def begin(incoming: AuthenticatedRequest, call: Call) -> Turn | JSON:
    """Do what the call says; returns what to wait for, or the response. A tool's refusals are results.

    Raises McpError for an unknown tool.
    """
    by_name: dict[str, Act] = {GET_TASK: _wait_for_task, CANCEL_TASK: _cancel_task}
    act = by_name.get(call.params.name, _send)
    try:
        return await act(incoming, call)
    except McpError:
        raise
    except Refusal as refusal:  # so that a model can do better (MCP 2025-11-25, Tools, Error Handling)
        return call.result(types.CallToolResult(content=[types.TextContent(text=sentence_of(refusal))], is_error=True))


async def _send(incoming: AuthenticatedRequest, call: Call) -> Turn:
    principal, params = incoming.principal, call.params
    agent, skill = tools.find_tool(incoming.agent, params.name)
    needs_rows = params.request_state is not None or "task" in (params.arguments or {})
    prepare = partial(_prepare, principal, agent, skill, call)
    prepared = await db.run(prepare) if needs_rows else prepare()
    if isinstance(prepared, Turn):
        return prepared
    sent = await send(
        principal,
        prepared.agent,
        prepared.message,
        require_task=params.task is not None,
        question_index=prepared.question,
        traceparent=incoming.request.headers.get("traceparent", ""),
    )
    session = prepared.session or str(sent.context)
    seconds = settings.MCP_WAIT_SECONDS
    return Turn(call, principal, prepared.agent, params.name, sent, session, seconds, is_ours=call.is_modern)


def _prepare(principal: Principal, agent: Agent, skill: str, call: Call) -> Prepared | Turn:
    """The call as a message; the turn that asked, if nobody answered its form. Raises McpError, Refusal."""
    if call.params.request_state is None:
        return _message(principal, agent, skill, call.params.arguments or {})
    return _answer(principal, agent, call)


def _message(principal: Principal, agent: Agent, skill: str, arguments: JSON) -> Prepared:
    """The arguments as a checked A2A message. Raises Refusal."""
    given = Arguments.read(arguments)
    task = lookup.find_seen_task(principal, agent, given.task) if given.task else None
    parts: list[JSON] = [{"text": given.message}] if given.message else []
    if given.inputs is not None:
        parts.append({"data": given.inputs})
    if given.answer is not None:
        parts.append({"data": json_schema.answer_data(task.slot if task else None, given.answer)})
    parts += [file.part for file in given.files]
    if not parts:
        raise InvalidParams("message: Say what to ask of the agent.", "message")
    session = task.context.name_for(principal) if task else given.session
    said: JSON = {"messageId": str(uuid.uuid4()), "parts": parts, "contextId": session, "taskId": given.task}
    if skill and not task:
        said["metadata"] = {"skillId": skill}
    return Prepared(agent, checked_message(agent, said), session)


def _answer(principal: Principal, agent: Agent, call: Call) -> Prepared | Turn:
    """What people answered in the form of a task; the task's turn if they did not. Raises McpError, Refusal."""
    name, _, index = call.params.request_state.partition(".")
    if not (index.isascii() and index.isdecimal() and len(index) < 19):
        raise invalid("requestState: not one of this server.")
    task = lookup.find_seen_task(principal, agent, name)
    given = (call.params.input_responses or {}).get(ANSWER)
    if not isinstance(given, types.ElicitResult) or given.action != "accept" or given.content is None:
        return turn_of(call, principal, task, call.params.name, settings.MCP_WAIT_SECONDS, may_ask=False)
    content = given.content
    if set(content) == {ANSWER} and isinstance(content[ANSWER], str) and not forms.has_field(task.slot, ANSWER):
        part: JSON = {"text": content[ANSWER]}
    else:
        part = {"data": json_schema.answer_data(task.slot, content)}
    said = {"parts": [part], "taskId": name, "messageId": f"mcp-{task.pk.hex}-{index}"}
    return Prepared(agent, checked_message(agent, said), task.context.name_for(principal), int(index))


def turn_of(
    call: Call, principal: Principal, task: Task, tool: str, seconds: float | None = None, *, may_ask: bool = True
) -> Turn:
    """The newest turn of a task that goes on."""
    asked = Message.objects.filter(context=task.context_id, task=task, role=Message.Role.USER).order_by("-index")
    index = asked.values_list("index", flat=True).first() or task.first_event
    sent = Sent(task.context_id, index, task.pk)
    session = task.context.name_for(principal)
    is_of_others = principal.user_id not in (task.owner_id, task.context.owner_id)
    return Turn(call, principal, task.agent, tool, sent, session, seconds, may_ask=may_ask, is_of_others=is_of_others)


async def _wait_for_task(incoming: AuthenticatedRequest, call: Call) -> Turn:
    asked = TaskArgument.read(call.params.arguments or {}).task

    def find() -> Turn:
        task = lookup.find_task(incoming.principal, asked)
        tool = tool_of(task)
        # The answer goes to the agent's own tool, so nobody is asked by a form here.
        return turn_of(call, incoming.principal, task, tool, settings.MCP_WAIT_SECONDS, may_ask=False)

    return await db.run(find)


def tool_of(task: Task) -> str:
    """The name of the tool that began the task, or of another of its agent."""
    skill = str(task.metadata.get("skill") or "")
    names = {tool.skill: tool.name for tool in tools.names_of(task.agent)}
    return names.get(skill, next(iter(names.values())))


async def _cancel_task(incoming: AuthenticatedRequest, call: Call) -> JSON:
    asked = TaskArgument.read(call.params.arguments or {}).task

    def stop() -> Task:
        task = lookup.find_task(incoming.principal, asked)
        cancel.cancel_for(incoming.principal, task)
        return task

    task = await db.run(stop)
    told = {"state": str(TaskState.CANCELED), "task": str(task.pk)}
    content: list[types.ContentBlock] = [types.TextContent(text=f"The task {task.pk} is canceled.")]
    return call.result(types.CallToolResult(content=content, structured_content=told))
