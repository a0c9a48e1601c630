"""Calls from a task to other agents. Each is a child task with its own conversation.

The parent task is the sender of the call's message; the messageId is the call's name. So a repeated turn finds its
children and calls nobody twice.

A child's question becomes its parent's. Whoever answers it at the child answers the parent too: the parent's log gets
the same answer. The two contexts are never locked together: the parent resumes after the child's commit, or by the
sweep.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, aclosing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q

from agentkit import (
    AgentFailure,
    AuthRequired,
    Call,
    ChildResult,
    Completed,
    InputRequired,
    Progress,
    ReceivedArtifact,
    Suspended,
)
from agentkit.context import FAILED_AGENT
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine import cancel
from apps.engine.accept import resume
from apps.engine.queue import Lane
from apps.engine.send import accept_and_publish
from apps.engine.sql import SUSPENSION_BY_CHILD
from apps.engine.turns import payments, questions
from apps.engine.turns.assignment import Assignment, ReleaseSlot
from apps.engine.turns.output import clean, clean_parts
from apps.engine.turns.recorder import Recorder
from apps.record import wire
from apps.record.content import blobs
from apps.record.content.composing import compose
from apps.record.content.strict_json import digest_of
from apps.record.errors import AlreadyAnswered, Refusal, TaskNotCancelable, TaskNotFound
from apps.record.events import JSON, EventType
from apps.record.execution import Accepted, Run, Suspension
from apps.record.models import INTERRUPTED_STATES, TERMINAL_STATES, Context, Event, Message, Task, TaskState
from apps.record.projection import AUTHOR_EVENTS, Author, read_authors
from apps.record.reading import feed
from parley import db

MAX_PROGRESS_LENGTH = 200
RELAYED = "relayed"
"""In the metadata of progress: its line begins with the name of the agent that works."""


@dataclass
class Delegation:
    """The calls of one turn: the handler's `delegate`.

    Attributes:
        is_used: may the task have children?
        suspended: a child's question, which ends the turn.
        asking: that child, as it was then.
        _answers: what ended children said, by their ids, and who wrote it.
    """

    assignment: Assignment
    recorder: Recorder
    release_slot: ReleaseSlot
    is_used: bool = False
    suspended: Suspended | None = None
    asking: Task | None = None
    _answers: dict[str, tuple[ChildResult, Author]] = field(default_factory=dict)
    _names: Counter[str] = field(default_factory=Counter)
    _making: set[asyncio.Future[Task]] = field(default_factory=set)
    _waiting: int = 0
    _released: ExitStack = field(default_factory=ExitStack)
    _children: int | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    async def __call__(self, call: Call) -> ChildResult:
        """Make the call and wait for its end. Raises Suspended, AgentFailure."""
        self.is_used = True
        parts = self.assignment.redaction(clean_parts(call.parts, self.assignment.stored_file))
        name = self._name(call, parts)
        since = feed.start_listening()
        with self._waits():
            try:
                child = await self._make(call, parts, name)
                return await self._ended(call.agent, child, since)
            except Task.DoesNotExist:
                why = f"The agent {call.agent!r} could not finish, because its conversation was cleared."
                raise AgentFailure(why, "child_cleared", metadata={FAILED_AGENT: call.agent}) from None

    async def forward_answer(self, child: uuid.UUID) -> None:
        """Forward the user's answer to the asking child, or report that somebody answered first."""
        if not await db.persist(self._answer, child):
            await self.recorder.relay(Progress(str(AlreadyAnswered())))

    def author_of(self, outcome: object) -> Author | None:
        """Who wrote the answer of a child that the outcome passes on unchanged; None for the task's own answer."""
        if not isinstance(outcome, Completed) or outcome.by not in self._answers:
            return None
        result, author = self._answers[outcome.by]
        return author if outcome.parts == (result.parts or [{"text": result.text}]) else None

    async def made(self) -> None:
        """Wait until children of stopped calls are created."""
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
            self._released.enter_context(self.release_slot())
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._released.close()

    def _name(self, call: Call, parts: list[Any]) -> str:
        """The call's name, equal when the turn is repeated. Raises ValueError for a reused key."""
        if call.key is not None:
            name = f"key:{digest_of([call.agent, call.key])}"
            if self._names[name]:
                raise ValueError(f"The key {call.key!r} names two calls of {call.agent!r}; give each its own.")
        else:
            name = digest_of([call.agent, parts, call.metadata, call.reference_ids])
        self._names[name] += 1
        return f"{self.assignment.first_turn}:{name}:{self._names[name]}"

    def _child(self, call: Call, parts: list[Any], name: str) -> Task:
        """The call's child, which an earlier attempt may have created.

        Raises AgentFailure, and Task.DoesNotExist if it was cleared.
        """
        task = self.assignment.task
        sender = f"task:{task.pk}"
        earlier = Accepted.objects.filter(sender=sender, message_id=name, agent__slug=call.agent).first()
        if earlier is not None:
            if earlier.task_id is None:
                raise Task.DoesNotExist
            return _load_task(earlier.task_id)
        principal = principal_of(task, self.assignment.lane)
        agent = Agent.objects.find_or_none(principal, call.agent)
        if agent is None:
            raise AgentFailure(
                f"There is no agent {call.agent!r} that the owner of this task may use.", "unknown_agent"
            )
        self._count_child()
        metadata, references = self.assignment.redaction(clean(call.metadata)), call.reference_ids
        message = compose(parts, key=name, metadata=metadata, references=references)
        more: JSON = {"sender": sender, "parent": task.pk, "traceparent": self.assignment.traceparent}
        more |= {"project": task.context.project, "temporary": task.context.is_temporary}
        try:
            # Before what has not begun: the parent's turn waits for it.
            receipt = accept_and_publish(principal, agent, message, priority=Run.Priority.CONTINUED, **more)
            return _load_task(receipt.task)
        except Refusal as refusal:
            why = f"{agent.name} could not be called: {refusal}"
            raise AgentFailure(why, "call_refused", metadata={FAILED_AGENT: agent.slug}) from refusal

    def _count_child(self) -> None:
        with self._lock:
            if self._children is None:
                check_depth(self.assignment.task)
                self._children = Task.objects.filter(parent=self.assignment.task.pk).count()
            most = settings.CHILDREN_PER_TASK
            if self._children >= most:
                raise AgentFailure(
                    f"A task may call at most {most} other agents. This task reached the limit.", "too_many_calls"
                )
            self._children += 1

    async def _ended(self, slug: str, child: Task, since: float) -> ChildResult:
        relayed: JSON | None = None
        async with aclosing(feed.growth(child.context_id, child.context.last_event, since=since)) as grown:
            while not TaskState(child.state).is_settled:
                if child.state == TaskState.WORKING and child.status_message not in (None, relayed):
                    relayed = child.status_message
                    await self._relay(child, relayed or {})
                await anext(grown)
                child = await db.run(_load_task, child.pk)
        if TaskState(child.state).is_interrupted:
            raise self._suspend(child)
        return await db.run(self._result, slug, child)

    async def _relay(self, child: Task, said: JSON) -> None:
        text = next((part["text"] for part in said.get("parts", []) if part.get("text")), "")
        if line := text.strip().partition("\n")[0][:MAX_PROGRESS_LENGTH]:
            is_named = said.get("metadata", {}).get(RELAYED) and child.agent.kind != Agent.Kind.REMOTE
            told = line if is_named else f"{child.agent.name}: {line}"
            await self.recorder.relay(Progress(told, metadata={RELAYED: True}))

    def _suspend(self, child: Task) -> Suspended:
        """The child's question as the parent's. The first of several ends the turn."""
        question = question_of(child)
        self.assignment.stored_files.update(blobs.stored_files(dict(part) for part in question.parts))
        if self.suspended is None:
            self.suspended, self.asking = Suspended(question, str(child.pk)), child
        return self.suspended

    def _result(self, slug: str, child: Task) -> ChildResult:
        [shown] = wire.stored_tasks([child])
        for artifact in shown["artifacts"]:
            self.assignment.stored_files.update(blobs.stored_files(artifact["parts"]))
        message = child.status_message or {}
        said, metadata = message.get("parts", []), message.get("metadata", {})
        self.assignment.stored_files.update(blobs.stored_files(said))
        text = "\n".join(part["text"] for part in said if "text" in part)
        artifacts = [ReceivedArtifact.from_wire(artifact, blobs.content_of) for artifact in shown["artifacts"]]
        last: JSON = {"name": child.agent.name, "parts": said, "metadata": metadata}
        result = ChildResult(str(child.pk), slug, child.state, text, artifacts, **last)
        self._answers[result.task_id] = result, author_of_answer(child)
        return result

    def _answer(self, child_id: uuid.UUID) -> bool:
        """Send the message to the child. Returns False if somebody answered first."""
        task, answer = self.assignment.task, self.assignment.message
        sender, span = f"task:{task.pk}", self.assignment.traceparent
        key = f"{self.assignment.turn}:answer"
        if Accepted.objects.filter(sender=sender, message_id=key).exists():
            return True
        try:
            child = _load_task(child_id)
            asked = Suspension.objects.filter(task=task, child=child, asked_at=child.status_at)
            if not TaskState(child.state).is_interrupted or not asked.exists():
                return False
            asking = questions.asking_task(child.slot) or child
            is_early = questions.asks_approval(asking.slot) and answer.created_at < child.status_at
            parts = [{"data": questions.unasked(answer.parts)}] if is_early else answer.parts
            metadata = payments.with_payload(answer.metadata, asking.pk)
            message = compose(parts, key=key, task=child_id, metadata=metadata)
            accept_and_publish(
                _answerer(task, answer),
                child.agent,
                message,
                sender=sender,
                question_index=child.status_event,
                traceparent=span,
            )
        except AlreadyAnswered:
            return False
        except (Refusal, Task.DoesNotExist):
            pass  # the repeated turn finds that the child still asks
        return True


def _answerer(task: Task, answer: Message) -> Principal:
    """The task's owner, with the role of who answered: only a manager may decide about some answers."""
    by = answer.author.principal_in(task.workspace_id) if answer.author and task.workspace_id else None
    return replace(principal_of(task), role=by.role if by else None)


def check_depth(task: Task) -> None:
    """Raises AgentFailure if the task may not call others because of its depth."""
    above, parent = 0, task.parent_id
    while parent is not None and above < settings.DELEGATION_DEPTH:
        above, parent = above + 1, Task.objects.filter(pk=parent).values_list("parent", flat=True).first()
    if above >= settings.DELEGATION_DEPTH:
        raise AgentFailure(
            f"Agents may call each other {settings.DELEGATION_DEPTH} levels deep. Check whether they call each "
            "other in a circle.",
            "too_deep",
        )


def principal_of(task: Task, lane: str = "") -> Principal:
    """The owner. With the `lane` of the task's run, what they send counts for the API key that sent the task."""
    name = task.owner.short_name if task.owner else ""
    return Principal(task.owner_id, task.workspace_id, name=name, key=Lane.read(lane).key)


def author_of_answer(task: Task) -> Author:
    """Who wrote the last words of an ended task: its agent, its fallback, or an agent that it called."""
    turns = Event.objects.filter(task=task, type__in=AUTHOR_EVENTS).order_by("index")
    found = read_authors(turns).get(task.status_event, Author())
    return found if found.agent is not None else Author(task.agent_id)


def question_of(child: Task) -> InputRequired | AuthRequired:
    message, slot = child.status_message or {}, child.slot or {}
    fields: JSON = {"schema": _ordered_schema(slot), "metadata": message.get("metadata", {})}
    if "service" in slot:  # the parent shows the same link and accepts no message instead
        fields |= {"service": slot["service"], "auth_type": fields["metadata"]["auth_type"]}
    kind = AuthRequired if child.state == TaskState.AUTH_REQUIRED else InputRequired
    return kind(message.get("parts", []), slot=slot.get("name", "input"), **fields)


def _load_task(key: uuid.UUID) -> Task:
    return Task.objects.select_related("context", "agent").get(pk=key)


def _ordered_schema(slot: JSON) -> JSON | None:
    """Restores the author's order of properties, which a database may change."""
    schema: JSON | None = slot.get("schema")
    if schema is None or "order" not in slot:
        return schema
    properties = schema.get("properties", {})
    return {**schema, "properties": {name: properties[name] for name in slot["order"] if name in properties}}


SUSPENSIONS_PER_SWEEP = 500
RESUME_REASON = "The calling agent continues."


def watch_child(child: uuid.UUID) -> None:
    """Make the ledger call `resume_parents` for the child's events."""
    Context.objects.filter(tasks=child, is_watched=False).update(is_watched=True)


def resume_parents(context: Context, events: Sequence[Event]) -> None:
    """A ledger listener: after the commit, resumes the parents of children that continue or end."""
    if context.parent_task is None:
        return
    moved = {event.task_id for event in events if event.type == EventType.AGENT_STATUS and event.task_id}
    for task in moved:
        transaction.on_commit(lambda task=task: db.later(_resume_parents_of, task))  # type: ignore[misc]


def _resume_parents_of(child: uuid.UUID) -> None:
    if SUSPENSION_BY_CHILD.one(child) is not None:
        resume_suspended(Q(child=child))


def resume_suspended(which: Q) -> int:
    """Resume suspended tasks whose child no longer asks. Returns their number."""
    still_asks = Q(child__state__in=INTERRUPTED_STATES, child__status_at=F("asked_at"))
    waiting = Suspension.objects.filter(which, Q(child=None) | ~still_asks, task__state__in=INTERRUPTED_STATES)
    resumed = 0
    for suspension in waiting.select_related("task")[:SUSPENSIONS_PER_SWEEP]:
        asking = (suspension.task.slot or {}).get("child")
        if asking and (suspension.child_id is None or asking == str(suspension.child_id)):
            answer = answer_given(suspension)
            resumed += resume(suspension.task_id, because=RESUME_REASON, answer=answer)
        else:
            suspension.delete()
    return resumed


ANSWERED_TASK = "answeredTask"
"""In the metadata of an answer that was given to a child: the child's id."""


def answer_given(suspension: Suspension) -> JSON | None:
    """The answer to the child's question, for the parent's log; None if it continued without a message.

    A message resumes a task in one transaction, so the answer stands directly before the change of state.
    """
    if suspension.child_id is None:
        return None
    changes = Event.objects.filter(task=suspension.child_id, artifact_id="", type=EventType.AGENT_STATUS)
    asked = changes.filter(at=suspension.asked_at).order_by("-index").first()
    after = changes.filter(index__gt=asked.index).exclude(payload__has_key="kept") if asked else changes.none()
    moved = after.order_by("index").first()
    if moved is None or moved.payload["state"] != TaskState.WORKING or "because" in moved.payload:
        return None
    said = Message.objects.filter(task=suspension.child_id, index=moved.index - 1, role=Message.Role.USER).first()
    return copied_message(said) if said else None


def copied_message(said: Message) -> JSON:
    """A child's message as one of its parent's, without the ids of context and task. Its id is always the same."""
    return {
        "messageId": str(uuid.uuid5(said.task_id or uuid.UUID(int=0), said.message_id)),
        "role": "ROLE_USER" if said.role == Message.Role.USER else "ROLE_AGENT",
        "parts": said.parts,
        "metadata": {**said.metadata, ANSWERED_TASK: str(said.task_id)},
    }


def sweep_suspensions() -> None:
    """Repair what a crash left: suspended tasks, and unfinished children of ended tasks."""
    resume_suspended(Q())
    Suspension.objects.filter(task__state__in=TERMINAL_STATES).delete()
    orphans = Task.objects.unfinished().filter(parent__isnull=False, parent__state__in=TERMINAL_STATES)
    for child in orphans.select_related("context")[:SUSPENSIONS_PER_SWEEP]:
        with suppress(TaskNotCancelable, TaskNotFound):
            cancel.cancel_task(child)


def original_run(run: Run) -> Run:
    """The first run of a turn that was repeated after a question (`is_repeat`). Its `message` is loaded."""
    earlier = Run.objects.filter(task=run.task_id, turn__lt=run.turn).select_related("message").order_by("-turn")
    return next(one for one in earlier if not is_repeat(one))


def is_repeat(run: Run) -> bool:
    """Does the run repeat a turn, after the answer to a child's question or about a tool call?"""
    slot = run.slot
    return slot is not None and ("child" in slot or "repeats" in slot or questions.asks_approval(slot))
