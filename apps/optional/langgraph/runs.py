"""Runs: a run is a turn, and has the id of the person's message that it answers. All of them can be joined later."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from contextlib import ExitStack, aclosing, suppress
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.http.response import HttpResponseBase

from apps.a2a import http
from apps.a2a.http import AuthenticatedRequest
from apps.a2a.requests import checked_message
from apps.accounts.errors import NotFound
from apps.accounts.principals import READ, WRITE, Principal
from apps.agents.models import Agent
from apps.api.framework.problems import Conflict
from apps.conversations.sessions import commands
from apps.doors import turns
from apps.doors.callers import recheck
from apps.doors.clients import results_message
from apps.doors.turns import End, Pieces
from apps.engine import cancel
from apps.engine.accept import DEPENDS_ON, Options
from apps.engine.repeats import Sent
from apps.engine.send import send
from apps.limits import current as limits
from apps.optional.langgraph.assistants import find_assistant
from apps.optional.langgraph.messages import KEPT, Answer, read_messages
from apps.optional.langgraph.requests import CancelQuery, JoinQuery, Mode, NewRun, RunsQuery, checkpoint_of, picked
from apps.optional.langgraph.streams import Events
from apps.optional.langgraph.threads import WORKING, Run, find_thread, run_json, runs_of, values_of
from apps.record import lineage, wire
from apps.record.errors import ContextNotFound, InvalidParams, TaskNotCancelable
from apps.record.events import JSON
from apps.record.ledger import Ledger
from apps.record.models import Context, Message, Task
from apps.record.reading import lookup
from parley import db

LAST_EVENT_ID = re.compile(r"-1|\d{1,18}", re.ASCII)
ADDRESS = "/threads/{}/runs/{}"
"""From where the API begins, as clients expect it."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A run, its thread with the runs before it, and what came of its message."""

    context: Context
    thread: str
    runs: Sequence[Run]
    sent: Sent

    @property
    def run(self) -> Run:
        return self.runs[-1]

    @property
    def agent(self) -> Agent:
        return self.run.task.agent if self.run.task else self.context.agent

    def headers(self, goes_on: str) -> dict[str, str]:
        """Where the run is, and where clients go on after a cut."""
        address = ADDRESS.format(self.thread, self.run.id)
        return {"Content-Location": address, "Location": f"{address}/{goes_on}"} if self.thread.isascii() else {}

    def events(self, modes: Sequence[Mode] = ("values",), after: int = 0) -> Events:
        earlier = [*values_of(self.runs[:-1])["messages"], self.run.messages[0]]
        answer = Answer(self.run.id, self.context.pk)
        return Events(self.run, self.thread, self.agent.slug, earlier, answer, modes, after)

    def pieces(self, principal: Principal, *, cancels: bool) -> Pieces:
        """What follows; of a run that a fork left behind, what is recorded.

        `cancels`: the task of a client that leaves is canceled.
        """
        if self.run.task is not None and self.run.end is None and self.run.state.is_settled:
            return self._recorded()
        is_of_others = principal.user_id not in (self.context.owner_id, self.run.row.author_id)
        left = self.sent.task if cancels else None
        followed = turns.at_once(turns.follow(self.sent, is_of_others=is_of_others))
        return turns.stopping(followed, principal, self.agent, left)

    async def _recorded(self) -> Pieces:
        assert self.sent.task is not None
        said = await db.run_for_stream(turns.recorded, self.context, self.sent.task, self.sent.index)
        yield [*said, (self.context.last_event, End(self.run.state))]


async def create(incoming: AuthenticatedRequest, asked: NewRun, thread_id: str = "") -> HttpResponseBase:
    """Begin a run in the background. Raises Refusal."""
    agent = await db.run(find_assistant, incoming.principal, asked.assistant_id)
    begun = await _begin(incoming, agent, asked, thread_id)
    shown = run_json(incoming.principal, begun.context, begun.run)
    return http.json_response(shown, headers=begun.headers("join"))


async def stream(incoming: AuthenticatedRequest, asked: NewRun, thread_id: str = "") -> HttpResponseBase:
    """Begin a run; its events as they come. Raises Refusal."""
    agent = await db.run(find_assistant, incoming.principal, asked.assistant_id)
    with _counted(incoming, agent) as stack:
        begun = await _begin(incoming, agent, asked, thread_id)
        cancels = asked.on_disconnect == "cancel"
        return _event_stream(incoming, begun, begun.events(asked.stream_mode), cancels=cancels, stack=stack)


async def wait(incoming: AuthenticatedRequest, asked: NewRun, thread_id: str = "") -> HttpResponseBase:
    """Begin a run; the thread's values after it. Raises Refusal."""
    agent = await db.run(find_assistant, incoming.principal, asked.assistant_id)
    with _counted(incoming, agent):
        begun = await _begin(incoming, agent, asked, thread_id)
        return await _result(incoming, begun, cancels=asked.on_disconnect == "cancel")


def list_runs(principal: Principal, query: RunsQuery, thread_id: str) -> list[JSON]:
    """The newest first. Raises Refusal."""
    context = find_thread(principal, thread_id)
    found = [run_json(principal, context, run) for run in reversed(runs_of(context))]
    rows = [one for one in found if query.status in (None, one["status"])]
    return picked(rows[query.offset : query.offset + query.limit], query.select)


def show(principal: Principal, thread_id: str, run_id: str) -> JSON:
    begun = _find(principal, thread_id, run_id)
    return run_json(principal, begun.context, begun.run)


async def join(incoming: AuthenticatedRequest, query: JoinQuery, thread_id: str, run_id: str) -> HttpResponseBase:
    """The thread's values once the run has ended. Raises Refusal."""
    begun = await db.run(_find, incoming.principal, thread_id, run_id)
    with _counted(incoming, begun.agent):
        return await _result(incoming, begun, cancels=query.cancel_on_disconnect)


async def join_stream(
    incoming: AuthenticatedRequest, query: JoinQuery, thread_id: str, run_id: str
) -> HttpResponseBase:
    """The run's events, or those after `Last-Event-ID`. Raises Refusal."""
    after = incoming.request.headers.get("Last-Event-ID") or "-1"
    if not LAST_EVENT_ID.fullmatch(after):
        raise InvalidParams("Must be the id of an event of this run.", "Last-Event-ID")
    begun = await db.run(_find, incoming.principal, thread_id, run_id)
    with _counted(incoming, begun.agent) as stack:
        events, cancels = begun.events(query.stream_mode, int(after)), query.cancel_on_disconnect
        return _event_stream(incoming, begun, events, cancels=cancels, stack=stack, scope=READ)


def cancel_run(principal: Principal, query: CancelQuery, thread_id: str, run_id: str) -> HttpResponse:
    """Stop the agent. Raises Refusal."""
    begun = _find(principal, thread_id, run_id)
    if begun.run.task is None or not begun.run.is_last_of_task:
        raise TaskNotCancelable
    cancel.cancel_for(principal, begun.run.task)
    return HttpResponse(status=204 if query.wait else 202)


def _counted(incoming: AuthenticatedRequest, agent: Agent) -> ExitStack:
    """Counts a request that waits or streams, until it is closed. Raises QuotaExceeded."""
    stack = ExitStack()
    stack.callback(limits.open_stream(incoming.principal, incoming.address, agent.pk))
    return stack


def _event_stream(
    incoming: AuthenticatedRequest,
    begun: Begun,
    events: Events,
    *,
    cancels: bool,
    stack: ExitStack,
    scope: str = WRITE,
) -> wire.EventStream:
    pieces = begun.pieces(incoming.principal, cancels=cancels)
    check = recheck(incoming.request, begun.agent.slug, scope)
    frames = http.checked_frames(pieces, events.frames, events.error, check)
    return wire.EventStream(frames, stack.pop_all().close, begun.headers("stream"))


async def _result(incoming: AuthenticatedRequest, begun: Begun, *, cancels: bool) -> HttpResponseBase:
    events = begun.events()
    async with aclosing(begun.pieces(incoming.principal, cancels=cancels)) as batches:
        async for batch in batches:
            for _, piece in batch:
                list(events.read(piece))
    return http.json_response(events.result, headers=begun.headers("join"))


async def _begin(incoming: AuthenticatedRequest, agent: Agent, asked: NewRun, thread_id: str) -> Begun:
    message = await db.run(_message, incoming.principal, agent, thread_id, asked)
    options: Options = {"finds_question": True, "traceparent": incoming.request.headers.get("traceparent", "")}
    if asked.multitask_strategy == "reject":
        options["extra_writes"] = _refuse_second
    sent = await send(incoming.principal, agent, message, **options)
    return await db.run(_begun, incoming.principal, sent)


def _message(principal: Principal, agent: Agent, thread_id: str, asked: NewRun) -> JSON:
    """The A2A message of a run, once its thread is ready for it. Raises Refusal."""
    context = _thread(principal, thread_id, asked) if thread_id else None
    said = _said(principal, agent, context, asked)
    if context is None:
        return checked_message(agent, said | ({"contextId": thread_id} if thread_id else {}), _name)
    if context.agent_id != agent.pk:
        commands.switch_agent(principal, context.pk, agent)
    said["contextId"] = context.name_for(principal)
    working = list(Task.objects.select_related("context").filter(context=context, state__in=WORKING))
    if working and asked.multitask_strategy == "reject":
        raise _busy()
    if asked.multitask_strategy == "interrupt":
        for task in working:
            with suppress(TaskNotCancelable):
                cancel.cancel_for(principal, task)
    elif working and "taskId" not in said:
        said["metadata"] = said.get("metadata", {}) | {DEPENDS_ON: [str(one.pk) for one in working]}
    return checked_message(agent, said, _name)


def _thread(principal: Principal, thread_id: str, asked: NewRun) -> Context | None:
    """None for one that the run makes. Raises ContextNotFound, Conflict for another checkpoint than the newest."""
    try:
        context = find_thread(principal, thread_id)
    except ContextNotFound:
        if asked.if_not_exists == "create" and principal.is_known:
            return None
        raise
    newest = lineage.messages(context).filter(role=Message.Role.USER).order_by("-index").first()
    checkpoint = asked.checkpoint_id or checkpoint_of(asked.checkpoint)
    if checkpoint and (newest is None or checkpoint != str(newest.pk)):
        raise Conflict("A run goes on from the newest checkpoint. Read the thread again, or copy it.")
    return context


def _said(principal: Principal, agent: Agent, context: Context | None, asked: NewRun) -> JSON:
    """The fields of a message: an answer to what the thread asks, or new words. Raises InvalidParams, Conflict."""
    given = asked.input if isinstance(asked.input, dict) else {"messages": asked.input or []}
    said = read_messages(given.get("messages") or [])
    others = {name: value for name, value in given.items() if name != "messages"}
    told = {"id": said.id, "input": others, **asked.model_dump(include={"metadata", "config", "context"})}
    kept = {name: value for name, value in told.items() if value}
    metadata = ({KEPT: kept} if kept else {}) | ({"instructions": said.instructions} if said.instructions else {})
    fields: JSON = {"messageId": str(uuid.uuid4()), **({"metadata": metadata} if metadata else {})}
    if asked.command is not None:
        return fields | _resumed(principal, context, asked.command.resume)
    if said.results and (answer := results_message(principal, agent, said.results)):
        return fields | answer | {"parts": [*answer["parts"], *said.parts]}
    if not said.parts:
        raise InvalidParams("Send a message of a person with content, or a command with resume.", "input.messages")
    return fields | {"parts": said.parts}


def _resumed(principal: Principal, context: Context | None, value: Any) -> JSON:
    """An answer to the newest question, or to that which an object of one interrupt's id names. Raises Conflict."""
    asking = lookup.find_asking(principal, context.agent, context) if context else None
    if asking is None:
        raise Conflict("Nothing waits for an answer in this thread.")
    if isinstance(value, dict) and value.keys() == {asking.pk.hex}:
        value = value[asking.pk.hex]
    return {"taskId": str(asking.pk), "parts": [{"text": value} if isinstance(value, str) else {"data": value}]}


def _name(path: str) -> str:
    """The client's name of a field of the A2A message."""
    return path.replace("message.contextId", "thread_id").replace("message.parts", "input.messages.content")


def _busy() -> Conflict:
    return Conflict("The thread has a run that has not ended. Wait for it, or send multitask_strategy: enqueue.")


def _refuse_second(log: Ledger, task: uuid.UUID) -> None:
    """Raises Conflict if another task works in the thread."""
    if Task.objects.filter(context=log.context.pk, state__in=WORKING).exclude(pk=task).exists():
        raise _busy()


def _begun(principal: Principal, sent: Sent) -> Begun:
    """The run of a sent message."""
    context = lookup.find_session(principal, sent.context)
    index = sent.index if sent.task else sent.index - 1  # an answer follows its message
    upto = [run for run in runs_of(context) if run.row.index <= index]
    return Begun(context, context.name_for(principal), upto, sent)


def _find(principal: Principal, thread_id: str, run_id: str) -> Begun:
    """Raises ContextNotFound, NotFound."""
    context = find_thread(principal, thread_id)
    found = runs_of(context)
    run = next((one for one in found if one.id == run_id), None)
    if run is None:
        raise NotFound("There is no such run in this thread.")
    if run.task is not None:
        sent = Sent(context.pk, run.row.index, task=run.task.pk)
    else:
        said = lineage.messages(context).filter(role=Message.Role.AGENT, index=run.row.index + 1).first()
        sent = Sent(context.pk, run.row.index, answer=wire.message(said, context) if said else None)
    return Begun(context, context.name_for(principal), found[: found.index(run) + 1], sent)
