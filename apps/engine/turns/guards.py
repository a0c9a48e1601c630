"""What guards of apps (`turn_guards`) say about messages and answers, and the question that somebody is asked then."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, cast

from django.db import models

from agentkit import InputRequired, Usage
from apps.accounts.permissions import Permission
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.record.errors import Kind, Refusal
from apps.record.events import JSON
from parley.registry import added

GUARDED = "guarded"
"""In a run's input: what the agent is told instead of what was written, by message, and what was decided."""
NOT_READ = "[This message was withheld by a guardrail.]"
"""What agents are told in place of an earlier message that may not reach them."""
SLOT = "guardrail"
"""The name of the question."""


class Way(StrEnum):
    IN = "in"
    OUT = "out"


class Choice(StrEnum):
    """What somebody may answer who is asked."""

    SEND = "send"
    SHOW = "show"
    REDACT = "redact"
    STOP = "stop"


TITLES = {
    Choice.SEND: "Send it anyway",
    Choice.SHOW: "Show it",
    Choice.REDACT: "With what was found hidden",
    Choice.STOP: "Not at all",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a guard says about parts.

    Attributes:
        parts: one for one, as they may pass.
        decisions: payloads of events; none if nothing was found.
        blocked: why they must not pass, in a sentence that says what to do; "" if they may.
        asks: what somebody is asked first; "" if nobody is.
        safe: for who is asked: the parts without what was found; None if it cannot be taken out.
        by_managers: only managers of the workspace decide.
        used: of language models.
    """

    parts: list[JSON]
    decisions: list[JSON] = field(default_factory=list)
    blocked: str = ""
    asks: str = ""
    safe: list[JSON] | None = None
    by_managers: bool = False
    used: Sequence[Usage] = ()


class Stream(Protocol):
    """A text that comes in pieces.

    Attributes:
        decisions: so far.
        blocked: why nothing more may pass; "" if it may.
    """

    blocked: str

    @property
    def decisions(self) -> list[JSON]: ...

    def feed(self, text: str) -> str:
        """What may pass now."""

    def end(self) -> str:
        """The rest."""


class Guard(Protocol):
    """What holds for an agent in a workspace, as it was when the turn began.

    Attributes:
        ways: in which anything is checked.
        holds: whether what the agent says waits until all of it was checked.
        judges: whether a check on the way out takes long, because a model is asked.
        asks: whether somebody may be asked about what the agent says.
        uses_models: whether a model is asked in either way.
    """

    ways: frozenset[Way]
    holds: bool
    judges: bool
    asks: bool
    uses_models: bool

    async def check(self, way: Way, parts: Sequence[JSON]) -> Verdict:
        """Raises nothing."""

    async def earlier(self, messages: Sequence[Sequence[JSON]], decided: Choice | None) -> list[list[JSON] | None]:
        """Earlier messages as the agent is told them; None for one that it is not told.

        `decided`: what somebody said about them who was asked.
        """

    def stream(self) -> Stream: ...

    def row(self, decision: JSON, context: uuid.UUID, task: uuid.UUID | None) -> models.Model:
        """What is stored with the event of a decision."""


async def guard_for(agents: Sequence[Agent], workspace: int | None) -> Guard | None:
    """What holds for an agent, or for one that stands in for another, in somebody's workspace.

    Without any rail it asks nothing of the database.
    """
    for find in added["turn_guards"]:
        if (found := await find(agents, workspace)) is not None:
            return cast("Guard", found)
    return None


@dataclass(frozen=True)
class GuardQuestion(InputRequired):
    """Somebody decides about a message or an answer. The turn then goes on with it."""

    way: Way = field(default=Way.IN, kw_only=True)
    by_managers: bool = field(default=False, kw_only=True)

    @property
    def asked(self) -> JSON:
        """Of the slot."""
        return {"way": self.way.value, "byManagers": self.by_managers}


def question(verdict: Verdict, way: Way) -> GuardQuestion:
    passes = Choice.SEND if way is Way.IN else Choice.SHOW
    choices = [passes, *([Choice.REDACT] if verdict.safe is not None else []), Choice.STOP]
    listed = [{"const": one.value, "title": TITLES[one]} for one in choices]
    title = "Send it to the agent?" if way is Way.IN else "Show the answer?"
    schema = {"type": "string", "title": title, "oneOf": listed}
    about: JSON = {"way": way, "by_managers": verdict.by_managers, "repeats": True}
    return GuardQuestion(verdict.asks, SLOT, schema, **about)


class ManagersDecide(Refusal):
    """Only a manager of the workspace decides about this. Share the session with the workspace, so that one sees it."""

    kind = Kind.FORBIDDEN


def check_answerer(principal: Principal, slot: JSON | None) -> None:
    """Raises ManagersDecide."""
    is_theirs = bool(slot and slot.get("guard", {}).get("byManagers"))
    if is_theirs and not (principal.is_known and principal.can(Permission.SETTINGS)):
        raise ManagersDecide
