"""A claimed run with the input of its turn: message, history, references and memory."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypedDict

from agentkit import Message as Said
from agentkit import Project, ReferencedTask, UnreadableContent, UserMemory
from apps.accounts.models import User
from apps.accounts.principals import ANONYMOUS, Principal
from apps.agents.models import Agent
from apps.engine.accept import SOME_AGENTS
from apps.engine.queue import Lane
from apps.engine.turns.output import Redaction
from apps.record import briefings, lineage, wire
from apps.record.content import blobs
from apps.record.events import JSON
from apps.record.execution import Run
from apps.record.ledger import AlsoWritten
from apps.record.models import Context, Message, Task
from apps.record.runs import Lease
from apps.record.sql import TASKS
from parley.telemetry import tracing

current_assignment: ContextVar[Assignment | None] = ContextVar("current_assignment", default=None)
"""Of the turn that the current code works for."""
spends_for: ContextVar[Lane | None] = ContextVar("spends_for", default=None)
"""Whose budgets a use of a language model counts for outside of turns, such as for a title."""

ReleaseSlot = Callable[[], AbstractContextManager[None]]
"""Entered while a run only waits. It frees the run's slot for other runs."""


@dataclass
class Assignment:
    """A run that this process holds.

    Attributes:
        agent: the agent, in this turn's version. `task.agent` is set to it, even if it is a fallback.
        input_message: what the handler gets. A repeated turn has its original run's message.
        skill: the task's skill; None if a fallback lacks it.
        fallback_id: the key of `agent` if it is a fallback.
        span: the run's trace span.
        original: the turn's first run, if the turn is repeated because a child or a tool call continues.
        decisions: people's decisions about tool calls of the repeated turn, by the calls' keys.
        answered: the question that `message` answers, in a repeated turn.
        asked_by: the child whose question `message` answers.
        seconds: time since the turn first began.
        input: the snapshot of the turn's input (`Run.input`).
        told: what the agent is told beside the message (`record.briefings`).
        remote: earlier attempts' record of a remote agent's work (`Run.remote`).
        usage: tokens of earlier attempts.
        cost: of this attempt's uses of language models that have ended.
        tokens: of these uses, in and out.
        lent_services: those whose credentials the run received.
        lane: its place in the queue (`Run.lane`).
        read_until: the index of the newest message that the turn has read (`engine.turns.inbox`); 0: none.
        stop_after_step: is set when somebody asks the turn to end after its step.
        claimed_at: by the monotonic clock.
        at_end: what its executor writes with the turn's end.
    """

    lease: Lease
    agent: Agent
    task: Task
    message: Message
    input_message: Said
    turn: int
    attempt: int
    slot: JSON | None
    resumed: bool
    memory: JSON
    input_hash: str
    skill: str | None = None
    original: Run | None = None
    decisions: JSON = field(default_factory=dict)
    answered: JSON = field(default_factory=dict)
    asked_by: uuid.UUID | None = None
    seconds: float = 0.0
    input: JSON = field(default_factory=dict)
    told: JSON = field(default_factory=dict)
    remote: JSON = field(default_factory=dict)
    fallback_id: int | None = None
    span: str = ""
    usage: JSON = field(default_factory=dict)
    cost: float = 0.0
    tokens: int = 0
    history: list[Said] = field(default_factory=list)
    references: list[ReferencedTask] = field(default_factory=list)
    redaction: Redaction = field(default_factory=Redaction, compare=False)
    lent_services: set[str] = field(default_factory=set)
    lane: str = ""
    read_until: int = 0
    stop_after_step: asyncio.Event = field(default_factory=asyncio.Event, compare=False)
    claimed_at: float = field(default_factory=time.monotonic, compare=False)
    at_end: AlsoWritten = field(default_factory=AlsoWritten, compare=False)

    @property
    def context_id(self) -> uuid.UUID:
        return self.task.context_id

    @property
    def options(self) -> JSON:
        """The agent's settings in this conversation (`Context.options`)."""
        options: JSON = self.input.get("options", {})
        return options

    @property
    def project(self) -> Project | None:
        """What the turn's agent is told of the session's project."""
        return told_to_handler(self.told)["project"]

    @property
    def traceparent(self) -> str:
        """The span that calls of this turn are below: the current one, or while tracing is off, a new one."""
        return tracing.current_traceparent() or tracing.child_of(self.span)

    def hand_to(self, fallback: Agent) -> None:
        """Let a fallback take the turn, without the first agent's memory, and what only that one may be told."""
        self.agent = self.task.agent = fallback
        self.fallback_id, self.memory, self.remote = fallback.pk, {}, {}
        self.skill = skill_for(self.task, fallback)
        self.told = briefings.noted_before(self.told, by_fallback=True)

    @property
    def first_turn(self) -> int:
        return self.original.turn if self.original else self.turn

    @cached_property
    def stored_files(self) -> dict[str, JSON]:
        """Stored content that the turn may pass on, by SHA-256. Children's results are added."""
        said = [self.input_message, *self.history, *(one for task in self.references for one in task.messages)]
        parts = [part for message in said for part in message.parts]
        parts += [part for task in self.references for artifact in task.artifacts for part in artifact.parts]
        told = self.told.get("project", {}).get("files", [])
        return blobs.stored_files([*map(dict, parts), *told])

    def stored_file(self, sha256: str) -> JSON | None:
        return self.stored_files.get(sha256)


def searcher(principal: Principal, *, temporary: bool) -> Principal:
    """Whose rights count for what an agent finds. In a temporary session nobody's: guests of chats and senders of
    webhooks write there in their owner's name.
    """
    return ANONYMOUS if temporary else principal


def searcher_in(assignment: Assignment) -> Principal:
    """The same in a turn: who wrote its message, with their present role.

    An agent that another one called searches for who wrote to the first. If this one's task came by a credential for
    some agents, only what was given to that agent is found.
    """
    task, author = assignment.task, assignment.message.author_id
    while task.parent_id is not None:
        task = Task.objects.select_related("context", "owner").get(pk=task.parent_id)
        said = Message.objects.filter(task=task.pk, role=Message.Role.USER)
        author = said.order_by("-index").values_list("author", flat=True).first()
    person = task.owner if author == task.owner_id else User.objects.filter(pk=author or 0, is_active=True).first()
    principal = person.principal_in(task.workspace_id) if person else ANONYMOUS
    if SOME_AGENTS in task.metadata:
        reached = Agent.objects.filter(tasks=task.pk).values_list("slug", flat=True)
        principal = replace(principal, agents=frozenset(reached))
    return searcher(principal, temporary=task.context.is_temporary)


def skill_for(task: Task, fallback: Agent) -> str | None:
    skill: str | None = task.metadata.get("skill")
    return skill if any(one.get("id") == skill for one in fallback.skills) else None


class Told(TypedDict):
    """What handlers are told beside the message: attributes of their task."""

    project: Project | None
    user_memory: UserMemory | None


def told_to_handler(told: JSON) -> Told:
    """What `briefings.read` has, for handlers. Files are loaded on demand."""
    project, memory = told.get("project"), told.get("user_memory")
    return {
        "project": Project.from_wire(project, _content_of) if project else None,
        "user_memory": UserMemory.from_wire(memory) if memory else None,
    }


def _content_of(part: JSON) -> bytes:
    try:
        return blobs.content_of(part)
    except FileNotFoundError:
        raise UnreadableContent("This file was removed from the project since.") from None


HISTORY_LENGTH = 100  # messages


def earlier_messages(context: Context, before: int | None = None) -> list[Message]:
    """A context's newest messages, oldest first, optionally before an index."""
    return lineage.newest_messages(context, HISTORY_LENGTH, before)


def handler_message(row: Message, context: Context) -> Said:
    """A recorded message for handlers. Stored content is loaded on demand."""
    return Said(row.stored(context), blobs.content_of)


def referenced_tasks(
    references: Sequence[str], owner: int | None, context: Context | None = None
) -> list[ReferencedTask]:
    """The referenced tasks of the owner and of the context, as the context shows them."""
    if not references:
        return []
    left = lineage.left_tasks(context) if context else {}
    found = TASKS.all([uuid.UUID(key) for key in references])
    here: set[uuid.UUID] = set()
    if context is not None and any(one.owner_id != owner for one in found):  # of a shared session
        here = {one.source for one in lineage.log_ranges(context, context.last_event)}
    by_key = {str(one.pk): one for one in found if one.owner_id == owner or one.context_id in here}
    ordered = [by_key[key] for key in references if key in by_key]
    left_at = {task: fork.payload["at"] for task, fork in left.items()}
    shown = wire.stored_tasks(ordered, left_at)
    return [ReferencedTask.from_wire(one, load=blobs.content_of) for one in shown]
