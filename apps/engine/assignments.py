"""A run that a process holds, and what its turn is given."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property

from agentkit import Message as Said
from agentkit import ReferencedTask
from apps.agents.models import Agent
from apps.engine import earlier
from apps.engine.redaction import Redaction
from apps.record import blobs, tracing
from apps.record.events import JSON
from apps.record.leases import Hold
from apps.record.models import Message, Run, Task

Aside = Callable[[], AbstractContextManager[None]]
"""Entered while a run does nothing but wait, which frees its place for others."""


@dataclass
class Assignment:
    """A run that this process holds, with everything its turn is given; its agent has the version that it goes by.

    Attributes:
        agent: who takes the turn; here `task.agent` is the same one, even if the task is another's (`fallbacks`).
        stand_in: its key, where it was another.
        span: the run's place in its trace.
        original: the run whose turn is taken again, now that a child of it goes on; the handler is given what that was.
        asked_by: the child to which `message` is the answer.
        seconds: how long ago the turn was begun first.
        input: the snapshot of what the turn is given (`Run.input`).
        remote: what earlier attempts know of a remote agent's work (`Run.remote`).
    """

    hold: Hold
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
    stand_in: int | None = None
    span: str = ""
    usage: JSON = field(default_factory=dict)  # of earlier attempts
    quiet_until: int | None = None  # up to this event nothing but the run followed its message, if that is known
    history: list[Said] = field(default_factory=list)
    references: list[ReferencedTask] = field(default_factory=list)
    redaction: Redaction = field(default_factory=Redaction, compare=False)
    lent: set[str] = field(default_factory=set)  # services whose credentials the run was lent

    @property
    def context_id(self) -> uuid.UUID:
        return self.task.context_id

    @property
    def said(self) -> Said:
        return earlier.said(self.original.message if self.original else self.message, self.task.context)

    @property
    def skill(self) -> str | None:
        return skill_of(self.task, self.stand_in)

    @property
    def options(self) -> JSON:
        """How the agent is set up in this conversation (`Context.options`)."""
        options: JSON = self.input.get("options", {})
        return options

    @property
    def traceparent(self) -> str:
        """The header of what the turn calls for: a new span below the run's, each time."""
        return tracing.span_below(self.span)

    def hand_to(self, agent: Agent) -> None:
        """Let another agent take the turn, which knows nothing of what this one kept."""
        self.agent = self.task.agent = agent
        self.stand_in, self.memory, self.remote = agent.pk, {}, {}

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
        return blobs.kept(dict(part) for part in parts)


def skill_of(task: Task, stand_in: int | None) -> str | None:
    """The skill that was chosen for the task; one that its agent chose says nothing to whoever stands in for that."""
    skill: str | None = task.metadata.get("skill")
    is_known = stand_in is None or any(one.get("id") == skill for one in task.agent.skills)
    return skill if is_known else None
