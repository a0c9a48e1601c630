"""Calls from a task to other agents: each is a child task in a conversation of its own, found again after a crash.

The message of a call is remembered like any message of a known sender: the sender is the parent task, the message's id
is the name of the call. So a turn that is executed again finds its children, and calls nobody twice.

A task whose child asks for something asks for the same, and goes on when the child does. A child's context and its
parent's are never locked together: the parent is resumed after the child's commit, and the sweep finds those that
nobody resumed.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q

import db
from agentkit import AgentFailure, AuthRequired, Call, ChildResult, InputRequired, Progress, ReceivedArtifact, Suspended
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine import cancel
from apps.engine.accept import resume
from apps.engine.assignment import Assignment, ReleaseSlot
from apps.engine.output import clean, clean_parts
from apps.engine.recorder import Recorder
from apps.engine.send import accept_and_publish
from apps.engine.sql import SUSPENSION_BY_CHILD
from apps.record import feed, wire
from apps.record.content import blobs
from apps.record.content.strict_json import digest_of
from apps.record.errors import AlreadyAnswered, Refusal, TaskNotCancelable, TaskNotFound
from apps.record.events import JSON, EventType
from apps.record.models import (
    INTERRUPTED_STATES,
    TERMINAL_STATES,
    Accepted,
    Context,
    Event,
    Run,
    Suspension,
    Task,
    TaskState,
)

MAX_PROGRESS_LENGTH = 200  # characters of a child's progress that its parent repeats


@dataclass
class Delegation:
    """The calls of one turn: what the handler is given as `delegate`.

    Attributes:
        suspended: the question that ends the turn, once a child has asked.
        asking: that child, as it was then.
        is_used: may the task have children?
    """

    assignment: Assignment
    recorder: Recorder
    release_slot: ReleaseSlot
    suspended: Suspended | None = None
    asking: Task | None = None
    is_used: bool = False
    _names: Counter[str] = field(default_factory=Counter)
    _making: set[asyncio.Future[Task]] = field(default_factory=set)
    _waiting: int = 0
    _away: ExitStack = field(default_factory=ExitStack)
    _limits: CallLimits = field(init=False)

    def __post_init__(self) -> None:
        self._limits = CallLimits(self.assignment.task)
        self.is_used = self.assignment.original is not None

    async def __call__(self, call: Call) -> ChildResult:
        """Make the call and wait for its end. Raises Suspended, AgentFailure."""
        self.is_used = True
        parts = self.assignment.redaction(clean_parts(call.parts, self.assignment.given))
        name = self._name(call, parts)
        since = feed.start_listening()
        with self._waits():
            try:
                child = await self._make(call, parts, name)
                return await self._ended(call.agent, child, since)
            except Task.DoesNotExist:
                why = "its conversation was cleared"
                raise AgentFailure(f"The agent {call.agent!r} could not do its part: {why}.", "child_cleared") from None

    async def forward_answer(self) -> None:
        """Forward the user's answer to the child that asked, or report that the question was answered meanwhile."""
        asked_by = self.assignment.asked_by
        if asked_by is not None and not await db.persist(self._answer, asked_by):
            await self.recorder.relay(Progress(str(AlreadyAnswered())))

    async def made(self) -> None:
        """Wait for the children that are being made for calls that were stopped meanwhile."""
        while self._making:
            await asyncio.wait(self._making)

    async def _make(self, call: Call, parts: list[Any], name: str) -> Task:
        making = asyncio.ensure_future(db.run(self._child, call, parts, name))
        self._making.add(making)
        making.add_done_callback(self._making.discard)
        return await asyncio.shield(making)

    @contextmanager
    def _waits(self) -> Iterator[None]:
        if not self._waiting:
            self._away.enter_context(self.release_slot())
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._away.close()

    def _name(self, call: Call, parts: list[Any]) -> str:
        """What the call is known by when the turn is executed again. Raises ValueError for a key that was used."""
        if call.key is not None:
            name = f"key:{digest_of([call.agent, call.key])}"
            if self._names[name]:
                raise ValueError(f"The key {call.key!r} names two calls of {call.agent!r}; give each its own.")
        else:
            name = digest_of([call.agent, parts, call.metadata, call.reference_ids])
        self._names[name] += 1
        return f"{self.assignment.first_turn}:{name}:{self._names[name]}"

    def _child(self, call: Call, parts: list[Any], name: str) -> Task:
        """The child of a call: the one that was made for it before, or a new one.

        Raises AgentFailure, and Task.DoesNotExist for one that was cleared.
        """
        task = self.assignment.task
        sender = f"task:{task.pk}"
        known = Accepted.objects.filter(sender=sender, message_id=name, agent__slug=call.agent).first()
        if known is not None:
            if known.task_id is None:
                raise Task.DoesNotExist
            return _load_task(known.task_id)
        principal = principal_of(task)
        agent = Agent.objects.visible_to(principal).filter(slug=call.agent).first()
        if agent is None:
            raise AgentFailure(
                f"There is no agent {call.agent!r} that the owner of this task may use.", "unknown_agent"
            )
        self._limits.reserve()
        message: JSON = {"messageId": name, "role": "ROLE_USER", "parts": parts}
        more: JSON = {
            "metadata": self.assignment.redaction(clean(call.metadata)),
            "referenceTaskIds": call.reference_ids,
        }
        message |= {name: value for name, value in more.items() if value}
        try:
            span = self.assignment.traceparent
            made = accept_and_publish(principal, agent, message, sender=sender, parent=task.pk, traceparent=span)
            return _load_task(made.task)
        except Refusal as refusal:
            raise AgentFailure(f"The agent {call.agent!r} could not be called: {refusal}", "call_refused") from refusal

    async def _ended(self, slug: str, child: Task, since: float) -> ChildResult:
        """Wait, holding no thread and no connection, for the child's end, and tell what it says meanwhile."""
        heard: JSON | None = None
        async with aclosing(feed.growth(child.context_id, child.context.last_event, since=since)) as grown:
            while not TaskState(child.state).is_settled:
                if child.state == TaskState.WORKING and child.status_message not in (None, heard):
                    heard = child.status_message
                    await self._tell(child, heard or {})
                await anext(grown)
                child = await db.run(_load_task, child.pk)
        if TaskState(child.state).is_interrupted:
            raise self._suspend(child)
        return await db.run(self._result, slug, child)

    async def _tell(self, child: Task, said: JSON) -> None:
        text = next((part["text"] for part in said.get("parts", []) if part.get("text")), "")
        if line := text.strip().partition("\n")[0][:MAX_PROGRESS_LENGTH]:
            await self.recorder.relay(Progress(f"{child.agent.name}: {line}"))

    def _suspend(self, child: Task) -> Suspended:
        """The child's question as the parent's. The first of several ends the turn; the next is for the next turn."""
        question = question_of(child)
        self.assignment.given.update(blobs.stored_files(dict(part) for part in question.parts))
        if self.suspended is None:
            self.suspended, self.asking = Suspended(question, str(child.pk)), child
        return self.suspended

    def _result(self, slug: str, child: Task) -> ChildResult:
        [shown] = wire.stored_tasks([child])
        for artifact in shown["artifacts"]:
            self.assignment.given.update(blobs.stored_files(artifact["parts"]))
        said = (child.status_message or {}).get("parts", [])
        text = "\n".join(part["text"] for part in said if "text" in part)
        artifacts = [ReceivedArtifact.from_wire(artifact, blobs.content_of) for artifact in shown["artifacts"]]
        return ChildResult(str(child.pk), slug, child.state, text, artifacts)

    def _answer(self, child_id: uuid.UUID) -> bool:
        """Give the message to the child; False where somebody else answered what it had asked."""
        task, answer = self.assignment.task, self.assignment.message
        sender, span = f"task:{task.pk}", self.assignment.traceparent
        named = {"messageId": f"{self.assignment.turn}:answer", "taskId": str(child_id)}
        if Accepted.objects.filter(sender=sender, message_id=named["messageId"]).exists():
            return True  # by this turn, before it was lost
        try:
            child = _load_task(child_id)
            asked = Suspension.objects.filter(task=task, child=child, asked_at=child.status_at)
            if not TaskState(child.state).is_interrupted or not asked.exists():
                return False
            message = {**named, "role": "ROLE_USER", "parts": answer.parts, "metadata": answer.metadata}
            accept_and_publish(
                principal_of(task),
                child.agent,
                message,
                sender=sender,
                question_index=child.status_event,
                traceparent=span,
            )
        except AlreadyAnswered:
            return False
        except (Refusal, Task.DoesNotExist):
            pass  # the child refused the answer: it asks again in the repeated turn
        return True


@dataclass
class CallLimits:
    """How many children a task may have, and how deep tasks may call each other."""

    task: Task
    _made: int | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reserve(self) -> None:
        """One more child. Raises AgentFailure where that is too much."""
        with self._lock:
            if self._made is None:
                check_depth(self.task)
                self._made = Task.objects.filter(parent=self.task.pk).count()
            if self._made >= settings.CHILDREN_PER_TASK:
                most = settings.CHILDREN_PER_TASK
                raise AgentFailure(f"A task may call for at most {most} others, and this one has.", "too_many_calls")
            self._made += 1


def check_depth(task: Task) -> None:
    """May the task call others? Raises AgentFailure where it is called for too deep down itself."""
    above, parent = 0, task.parent_id
    while parent is not None and above < settings.DELEGATION_DEPTH:
        above, parent = above + 1, Task.objects.filter(pk=parent).values_list("parent", flat=True).first()
    if above >= settings.DELEGATION_DEPTH:
        raise AgentFailure(
            f"Agents may call each other {settings.DELEGATION_DEPTH} levels deep: do they call in a circle?",
            "too_deep",
        )


def principal_of(task: Task) -> Principal:
    """In whose name a task calls: its owner's. What is called for belongs to the workspace of the task."""
    name = task.owner.short_name if task.owner else ""
    return Principal(task.owner_id, task.workspace_id, name)


def question_of(child: Task) -> InputRequired | AuthRequired:
    """What a child asks, as a question of its parent."""
    said, slot = child.status_message or {}, child.slot or {}
    about: JSON = {"schema": _ordered_schema(slot), "metadata": said.get("metadata", {})}
    if "service" in slot:  # the parent passes on the link, and takes no message in place of a credential either
        about |= {"service": slot["service"], "auth_type": about["metadata"]["auth_type"]}
    kind = AuthRequired if child.state == TaskState.AUTH_REQUIRED else InputRequired
    return kind(said.get("parts", []), slot=slot.get("name", "input"), **about)


def _load_task(key: uuid.UUID) -> Task:
    return Task.objects.select_related("context", "agent").get(pk=key)


def _ordered_schema(slot: JSON) -> JSON | None:
    """The schema with its properties in their author's order, which a database may have changed."""
    schema: JSON | None = slot.get("schema")
    if schema is None or "order" not in slot:
        return schema
    properties = schema.get("properties", {})
    return {**schema, "properties": {name: properties[name] for name in slot["order"] if name in properties}}


SUSPENSIONS_PER_SWEEP = 500
RESUME_REASON = "The agent that had asked goes on."


def watch_child(child: uuid.UUID) -> None:
    """Have `resume_parents` called when the child moves."""
    Context.objects.filter(tasks=child, is_watched=False).update(is_watched=True)


def resume_parents(context: Context, events: Sequence[Event]) -> None:
    """A ledger listener: a child that goes on, or ends, takes its parent along, after the commit."""
    if context.parent_task is None:
        return
    moved = {event.task_id for event in events if event.type == EventType.AGENT_STATUS and event.task_id}
    for task in moved:
        transaction.on_commit(lambda task=task: db.later(_resume_parents_of, task))  # type: ignore[misc]


def _resume_parents_of(child: uuid.UUID) -> None:
    if SUSPENSION_BY_CHILD.one(child) is not None:
        resume_suspended(Q(child=child))


def resume_suspended(which: Q) -> int:
    """Let those of these suspended tasks go on whose child asks that no longer; gives how many did."""
    asks_still = Q(child__state__in=INTERRUPTED_STATES, child__status_at=F("asked_at"))
    gone_on = Q(child=None) | ~asks_still
    waiting = Suspension.objects.filter(which, gone_on, task__state__in=INTERRUPTED_STATES)
    went = 0
    for suspension in waiting.select_related("task")[:SUSPENSIONS_PER_SWEEP]:
        asking = (suspension.task.slot or {}).get("child")
        if asking and (suspension.child_id is None or asking == str(suspension.child_id)):
            went += resume(suspension.task_id, because=RESUME_REASON)
        else:
            suspension.delete()  # it is of an earlier question; now the task asks one of its own
    return went


def sweep_suspensions() -> None:
    """Find what a crash left: suspended tasks that nobody told, and children of tasks that have ended."""
    resume_suspended(Q())
    Suspension.objects.filter(task__state__in=TERMINAL_STATES).delete()
    orphans = Task.objects.unfinished().filter(parent__isnull=False, parent__state__in=TERMINAL_STATES)
    for child in orphans.select_related("context")[:SUSPENSIONS_PER_SWEEP]:
        with suppress(TaskNotCancelable, TaskNotFound):
            cancel.cancel_task(child)


def repeats_turn(run: Run) -> bool:
    """Does the run take a turn again that a child's question had ended?"""
    return bool(run.slot and run.slot.get("child"))


def answered_child(run: Run) -> uuid.UUID | None:
    """The child to which the message of the run is the answer, if it is one."""
    return uuid.UUID(run.slot["child"]) if run.slot and repeats_turn(run) and not run.resumed else None


def original_run(run: Run) -> Run:
    """The run whose turn is taken again: the handler is given what that was given. Its `message` is loaded."""
    earlier = Run.objects.filter(task=run.task_id, turn__lt=run.turn).select_related("message").order_by("-turn")
    return next(one for one in earlier if not repeats_turn(one))
