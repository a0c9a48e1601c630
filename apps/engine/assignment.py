"""A run that a process holds, and what its turn is given: the message, and what was said and done before it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property

from agentkit import Message as Said
from agentkit import ReferencedTask
from apps.agents.models import Agent
from apps.engine.output import Redaction
from apps.record import lineage, runs, wire
from apps.record.content import blobs
from apps.record.events import JSON
from apps.record.models import Context, Message, Run, Task
from apps.record.runs import Lease
from apps.record.sql import TASKS

ReleaseSlot = Callable[[], AbstractContextManager[None]]
"""Entered while a run does nothing but wait, which frees its place for others."""


@dataclass
class Assignment:
    """A run that this process holds, with everything its turn is given; its agent has the version that it goes by.

    Attributes:
        agent: who takes the turn; here `task.agent` is the same one, even if the task is another's (a fallback's).
        fallback_id: its key, where it is a fallback of the task's own agent.
        span: the run's place in its trace.
        original: the first run of the turn, where the turn is repeated because a child task goes on.
        asked_by: the child to which `message` is the answer.
        seconds: how long ago the turn began first.
        input: the snapshot of what the turn is given (`Run.input`).
        remote: what earlier attempts know of a remote agent's work (`Run.remote`).
    """

    lease: Lease
    agent: Agent
    task: Task
    message: Message
    turn: int
    attempt: int
    slot: JSON | None
    resumed: bool
    memory: JSON
    input_hash: str
    original: Run | None = None
    asked_by: uuid.UUID | None = None
    seconds: float = 0.0
    input: JSON = field(default_factory=dict)
    remote: JSON = field(default_factory=dict)
    fallback_id: int | None = None
    span: str = ""
    usage: JSON = field(default_factory=dict)  # of earlier attempts
    no_other_events_until: int | None = (
        None  # up to this event nothing but the run followed its message, if that is known
    )
    history: list[Said] = field(default_factory=list)
    references: list[ReferencedTask] = field(default_factory=list)
    redaction: Redaction = field(default_factory=Redaction, compare=False)
    lent: set[str] = field(default_factory=set)  # services whose credentials the run was lent

    @property
    def context_id(self) -> uuid.UUID:
        return self.task.context_id

    @cached_property
    def said(self) -> Said:
        return handler_message(self.original.message if self.original else self.message, self.task.context)

    @property
    def skill(self) -> str | None:
        """The skill that was chosen for the task, as far as whoever takes the turn has it."""
        return skill_of(self.task, self.fallback_id)

    @property
    def options(self) -> JSON:
        """How the agent is set up in this conversation (`Context.options`)."""
        options: JSON = self.input.get("options", {})
        return options

    @property
    def traceparent(self) -> str:
        """The header of what the turn calls for: a new span below the run's, each time."""
        return runs.new_span(self.span)

    def hand_to(self, agent: Agent) -> None:
        """Let another agent take the turn, which knows nothing of what this one kept."""
        self.agent = self.task.agent = agent
        self.fallback_id, self.memory, self.remote = agent.pk, {}, {}

    @property
    def first_turn(self) -> int:
        """The number of the turn when it was taken first."""
        return self.original.turn if self.original else self.turn

    @cached_property
    def given(self) -> dict[str, JSON]:
        """The content in files that the turn is given, and may pass on: more with each child that delivers some."""
        said = [self.said, *self.history, *(one for task in self.references for one in task.messages)]
        parts = [part for message in said for part in message.parts]
        parts += [part for task in self.references for artifact in task.artifacts for part in artifact.parts]
        return blobs.stored_files(dict(part) for part in parts)


def skill_of(task: Task, fallback_id: int | None) -> str | None:
    """The task's skill; None where a fallback agent takes the turn and has no such skill."""
    skill: str | None = task.metadata.get("skill")
    is_known = fallback_id is None or any(one.get("id") == skill for one in task.agent.skills)
    return skill if is_known else None


HISTORY_LENGTH = 100  # earlier messages that a handler is given


def earlier_messages(context: Context, before: int | None = None) -> list[Message]:
    """The newest messages of a context, oldest first; those before an index, if one is given."""
    return lineage.newest_messages(context, HISTORY_LENGTH, before)


def handler_message(row: Message, context: Context) -> Said:
    """A recorded message as handlers see it; content that is kept in files is loaded when it is read."""
    return Said.from_wire(wire.stored_message(row, context), load=blobs.content_of)


def referenced_tasks(
    references: Sequence[str], owner: int | None, context: Context | None = None
) -> list[ReferencedTask]:
    """The tasks that are referred to in a context, as far as they are the owner's, and as that shows them."""
    if not references:
        return []
    left = lineage.left_tasks(context) if context else {}
    found = TASKS.all([uuid.UUID(key) for key in references])
    by_key = {str(one.pk): one for one in found if one.owner_id == owner}
    ordered = [by_key[key] for key in references if key in by_key]
    left_at = {task: fork.payload["at"] for task, fork in left.items()}
    shown = wire.stored_tasks(ordered, left_at)
    return [ReferencedTask.from_wire(one, load=blobs.content_of) for one in shown]
