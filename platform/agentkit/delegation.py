"""Calling other agents from a handler: each call is a child task, with an outcome of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

from agentkit.artifacts import Artifact, ReceivedArtifact
from agentkit.messages import File, Message
from agentkit.outcomes import AgentFailure, AuthRequired, InputRequired
from agentkit.parts import Part, part_of
from agentkit.turns import ReferencedTask

type Piece = str | Part | dict[str, Any] | File | Artifact | ReceivedArtifact | Message
type Said = Piece | Sequence[Piece]
"""What can be said to an agent: text, data, files, artifacts and whole messages, or a list of them."""


@dataclass(frozen=True)
class ChildResult:
    """How a called agent's task ended. `state` is A2A's, in lower case: `completed`, `failed`, `rejected`, `canceled`.

    `text` is what it said last; `artifacts` can be passed on as they are; `key` is that of its call.
    """

    task_id: str
    agent: str
    state: str
    text: str
    artifacts: list[ReceivedArtifact] = field(default_factory=list)
    key: str | None = None


type Reference = ChildResult | ReferencedTask | str
"""A task that a call refines: a result, a reference of this turn, or a task's id."""


@dataclass(frozen=True)
class Call:
    """A call to be made.

    Attributes:
        agent: the slug of the agent.
        key: the name of this call within the turn, for calls whose message is not the same each time the turn is
            executed; without one a call is known by its agent, its message and how many equal ones came before.
        references: earlier tasks that the child is to know.
    """

    agent: str
    message: Said
    key: str | None = None
    references: Sequence[Reference] = ()

    @property
    def parts(self) -> list[Part]:
        """The message's parts. Raises TypeError for what cannot be said."""
        whole = self.message if isinstance(self.message, list | tuple) else [self.message]
        return [part for piece in whole for part in _parts(cast(Piece, piece))]

    @property
    def metadata(self) -> dict[str, Any]:
        """What was attached to a message that is passed on."""
        return self.message.metadata if isinstance(self.message, Message) else {}

    @property
    def reference_ids(self) -> list[str]:
        return [one if isinstance(one, str) else one.task_id for one in self.references]


class Delegate(Protocol):
    """Given by the host: makes a child task and waits until it has ended, in whatever state.

    Raises Suspended where the child asks for something, and AgentFailure where the call cannot be made.
    """

    async def __call__(self, call: Call) -> ChildResult: ...


class ChildFailed(AgentFailure):
    """A called agent did not complete its task. Unless it is caught, the caller's task fails with the same words."""

    def __init__(self, result: ChildResult) -> None:
        said = result.text or f"Its task was {result.state}."
        super().__init__(f"The agent {result.agent!r} could not do its part: {said}", "child_failed")
        self.result = result


BOOKMARK = "bookmark:"
"""How names in a task's memory begin that outlive a suspended turn; all else is then as the turn found it."""


def bookmarks(memory: dict[str, Any]) -> dict[str, Any]:
    """What of its memory a suspended turn leaves to the turn that takes it again."""
    return {name: value for name, value in memory.items() if name.startswith(BOOKMARK)}


class Suspended(BaseException):
    """A child asks for something: the turn ends here with the same question, and runs again once it is answered.

    Like `Stopped` it is no `Exception`: let it pass.
    """

    def __init__(self, question: InputRequired | AuthRequired, task_id: str) -> None:
        super().__init__(question)
        self.question = question
        self.task_id = task_id


async def ask(delegate: Delegate | None, call: Call, check: bool) -> ChildResult:
    """Make one call. Raises ChildFailed, with `check`, unless the child completed."""
    if delegate is None:
        raise AgentFailure("No other agents can be called from here: give testing.run(…, agents={…}).", "no_agents")
    result = replace(await delegate(call), key=call.key)
    if check and result.state != "completed":
        raise ChildFailed(result)
    return result


async def gather(delegate: Delegate | None, calls: Sequence[Call], check: bool) -> list[ChildResult]:
    """Make calls side by side; the results are in the order of the calls."""
    asked = [asyncio.ensure_future(ask(delegate, call, check)) for call in calls]
    try:
        return await asyncio.gather(*asked)
    finally:
        await _let_go(asked)


async def as_completed(delegate: Delegate | None, calls: Sequence[Call], check: bool) -> AsyncGenerator[ChildResult]:
    """Make calls side by side; each result comes when its child has ended."""
    asked = [asyncio.ensure_future(ask(delegate, call, check)) for call in calls]
    try:
        for ended in asyncio.as_completed(asked):
            yield await ended
    finally:
        await _let_go(asked)


async def _let_go(asked: Sequence[asyncio.Future[ChildResult]]) -> None:
    """Wait no longer for those that are left; the children themselves are the host's."""
    for one in asked:
        one.cancel()
    for one in (await asyncio.wait(asked))[0] if asked else ():
        if not one.cancelled():
            one.exception()  # retrieved, so that asyncio does not report it as overlooked


def _parts(piece: Piece) -> Iterator[Part]:
    match piece:
        case Message() | Artifact() | ReceivedArtifact():
            yield from piece.parts
        case File():
            yield piece.part
        case _:
            yield part_of(cast(Any, piece))
