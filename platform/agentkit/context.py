"""The task as a handler meets it: what is known of the turn, how to report on the way, and how to call other agents.

Each call of another agent is a child task with an outcome of its own.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from typing import Any, Concatenate, Protocol, Self, Unpack, cast
from uuid import uuid4

from agentkit.emissions import (
    ArtifactStream,
    Emission,
    Progress,
    StreamTraits,
    SyncArtifactStream,
    Thought,
    Token,
    ToolCall,
    ToolResult,
    Usage,
)
from agentkit.errors import AgentFailure, Stopped
from agentkit.messages import Artifact, File, Message, Part, ReceivedArtifact, part_of
from agentkit.outcomes import AuthRequired, Credential, InputRequired, Lend, lend_none
from agentkit.turns import ReferencedTask, Turn

type MessagePiece = str | Part | dict[str, Any] | File | Artifact | ReceivedArtifact | Message
type CallMessage = MessagePiece | Sequence[MessagePiece]
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
    message: CallMessage
    key: str | None = None
    references: Sequence[Reference] = ()

    @property
    def parts(self) -> list[Part]:
        """The message's parts. Raises TypeError for what cannot be said."""
        whole = self.message if isinstance(self.message, list | tuple) else [self.message]
        return [part for piece in whole for part in _piece_parts(cast(MessagePiece, piece))]

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


def _piece_parts(piece: MessagePiece) -> Iterator[Part]:
    match piece:
        case Message() | Artifact() | ReceivedArtifact():
            yield from piece.parts
        case File():
            yield piece.part
        case _:
            yield part_of(cast(Any, piece))


Emit = Callable[[Emission], Awaitable[None]]
"""Given by the host. It may wait, and so slows down a handler that speaks faster than can be recorded."""


@dataclass(frozen=True, kw_only=True)
class TaskContext(Turn):
    """What an async handler is given. Once the task is stopped, whatever it says raises `Stopped`."""

    emit: Emit = field(repr=False, compare=False)
    lend: Lend = field(default=lend_none, repr=False, compare=False)
    delegate: Delegate | None = field(default=None, repr=False, compare=False)

    async def credential(self, service: str) -> Credential | None:
        """The credential that the task's owner gave this agent for a service, if there is one.

        Where there is none, or the service refuses it, return `AuthRequired(…, service=service)`: that the task went on
        afterwards says nothing, ask here again. A new one takes the place of the old.
        """
        if self.cancelled:
            raise Stopped
        return await self.lend(service)

    async def call(
        self,
        agent: str,
        message: CallMessage,
        *,
        key: str | None = None,
        references: Sequence[Reference] = (),
        check: bool = True,
    ) -> ChildResult:
        """Has another agent do something, as a task of its own, and waits for its end (see `Call`).

        A turn that is executed again, after a crash or a question, finds what it had called for.

        Raises:
            ChildFailed: the child did not complete; not with `check=False`.
            AgentFailure: there is no such agent for the task's owner, or too many calls were made.
        """
        return (await self.gather(Call(agent, message, key, references), check=check))[0]

    async def gather(self, *calls: Call, check: bool = True) -> list[ChildResult]:
        """Makes calls side by side and gives their results, in the order of the calls. Raises what `call` does."""
        waiting = self._make_calls(calls, check)
        try:
            return await asyncio.gather(*waiting)
        finally:
            await _stop_waiting(waiting)

    async def as_completed(self, *calls: Call, check: bool = True) -> AsyncGenerator[ChildResult]:
        """Makes calls side by side and gives each result when it is there. Raises what `call` does."""
        waiting = self._make_calls(calls, check)
        try:
            for ended in asyncio.as_completed(waiting):
                yield await ended
        finally:
            await _stop_waiting(waiting)

    def _make_calls(self, calls: Sequence[Call], check: bool) -> list[asyncio.Future[ChildResult]]:
        if self.cancelled:
            raise Stopped
        return [asyncio.ensure_future(self._make_call(call, check)) for call in calls]

    async def _make_call(self, call: Call, check: bool) -> ChildResult:
        """Raises ChildFailed, with `check`, unless the child completed."""
        if self.delegate is None:
            raise AgentFailure("No other agents can be called from here: give testing.run(…, agents={…}).", "no_agents")
        result = replace(await self.delegate(call), key=call.key)
        if check and result.state != "completed":
            raise ChildFailed(result)
        return result

    async def progress(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """Tells people what is going on; `done` of `total` shows as a bar."""
        await self.say(Progress(text, done, total))

    async def token(self, text: str) -> None:
        """Streams a piece of the answer."""
        await self.say(Token(text))

    async def thought(self, text: str) -> None:
        await self.say(Thought(text))

    async def tool_call(self, name: str, arguments: dict[str, Any], call_id: str | None = None) -> str:
        """Records that a tool is called; gives the id that its `tool_result` must name."""
        call_id = call_id or str(uuid4())
        await self.say(ToolCall(call_id, name, arguments))
        return call_id

    async def tool_result(self, call_id: str, name: str, result: Any, is_error: bool = False) -> None:
        await self.say(ToolResult(call_id, name, result, is_error))

    async def usage(self, model: str, requests: int, input_tokens: int, output_tokens: int) -> None:
        """Tells what the work of a language model took; what is told in a turn is added up."""
        await self.say(Usage(model, requests, input_tokens, output_tokens))

    def artifact(self, name: str, **traits: Unpack[StreamTraits]) -> ArtifactStream:
        """An artifact to stream piece by piece: `async with task.artifact("log.txt") as log: await log.append("…")`."""
        return ArtifactStream(self.say, name, **traits)

    async def say(self, emission: Emission) -> None:
        """Hands an emission to the host."""
        if self.cancelled:
            raise Stopped
        await self.emit(emission)


async def _stop_waiting(waiting: Sequence[asyncio.Future[ChildResult]]) -> None:
    """Wait no longer for the calls that are left; the children themselves are the host's."""
    for one in waiting:
        one.cancel()
    for one in (await asyncio.wait(waiting))[0] if waiting else ():
        if not one.cancelled():
            one.exception()  # retrieved, so that asyncio does not report it as overlooked


def _waiting[**P, R](
    method: Callable[Concatenate[TaskContext, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[SyncTaskContext, P], R]:
    """A method of `TaskContext` for a thread, which waits until the host's event loop has carried it out."""

    @wraps(method)
    def wait(self: SyncTaskContext, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.wait_for(method(self.on_loop, *args, **kwargs))

    return wait


@dataclass(frozen=True, kw_only=True)
class SyncTaskContext(Turn):
    """What a handler that runs in a thread is given: `TaskContext` without `await`.

    Each call waits until the host's event loop has taken what was said. It is safe to use from several threads.

    Attributes:
        on_loop: the same task for code on the host's event loop; memory and stop signal are shared, not copied.
    """

    on_loop: TaskContext = field(repr=False, compare=False)
    loop: asyncio.AbstractEventLoop = field(repr=False, compare=False)
    _awaited: set[concurrent.futures.Future[Any]] = field(default_factory=set, init=False, repr=False, compare=False)

    @classmethod
    def over(cls, task: TaskContext, loop: asyncio.AbstractEventLoop) -> Self:
        """The same task for a thread."""
        return cls(**{one.name: getattr(task, one.name) for one in fields(Turn)}, on_loop=task, loop=loop)

    credential = _waiting(TaskContext.credential)
    call = _waiting(TaskContext.call)
    gather = _waiting(TaskContext.gather)
    progress = _waiting(TaskContext.progress)
    token = _waiting(TaskContext.token)
    thought = _waiting(TaskContext.thought)
    tool_call = _waiting(TaskContext.tool_call)
    tool_result = _waiting(TaskContext.tool_result)
    usage = _waiting(TaskContext.usage)
    say = _waiting(TaskContext.say)

    def as_completed(self, *calls: Call, check: bool = True) -> Iterator[ChildResult]:
        """Makes calls side by side and gives each result when it is there. Raises what `call` does."""
        results = self.on_loop.as_completed(*calls, check=check)
        try:
            for _ in calls:
                yield self.wait_for(anext(results))
        finally:
            asyncio.run_coroutine_threadsafe(results.aclose(), self.loop)

    def artifact(self, name: str, **traits: Unpack[StreamTraits]) -> SyncArtifactStream:
        """An artifact to stream piece by piece: `with task.artifact("log.txt") as log: log.append("…")`."""
        return SyncArtifactStream(self.say, name, **traits)

    def release(self) -> None:
        """Ends, with `Stopped`, the waiting of the threads that wait for the host. Called by the host after a stop."""
        for awaited in list(self._awaited):
            awaited.cancel()

    def wait_for[T](self, work: Coroutine[Any, Any, T]) -> T:
        """Has the host's event loop do async work and gives what comes of it; a stop ends both work and waiting."""
        if self.cancelled:
            work.close()
            raise Stopped
        awaited = asyncio.run_coroutine_threadsafe(work, self.loop)
        self._awaited.add(awaited)
        try:
            # The stop may have come between the first look and now, too early for `release` to see this one.
            if self.cancelled:
                raise Stopped
            return awaited.result()
        except concurrent.futures.CancelledError:
            raise Stopped from None
        finally:
            awaited.cancel()
            self._awaited.discard(awaited)
