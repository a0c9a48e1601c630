"""The task as a handler meets it: what is known of the turn, and the ways to speak on the way."""

import asyncio
import concurrent.futures
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, fields
from typing import Any, Self
from uuid import uuid4

from agentkit import delegation
from agentkit.credentials import Credential, Lend, lend_none
from agentkit.delegation import Call, ChildResult, Delegate, Reference, Said
from agentkit.emissions import Emission, Progress, Thought, Token, ToolCall, ToolResult, Usage
from agentkit.streams import ArtifactStream, SyncArtifactStream
from agentkit.turns import Stopped, Turn

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
        message: Said,
        *,
        key: str | None = None,
        references: Sequence[Reference] = (),
        check: bool = True,
    ) -> ChildResult:
        """Has another agent do something, as a task of its own, and waits for its end (see `delegation.Call`).

        A turn that is executed again, after a crash or a question, finds what it had called for.

        Raises:
            ChildFailed: the child did not complete; not with `check=False`.
            AgentFailure: there is no such agent for the task's owner, or too many calls were made.
        """
        return (await self.gather(Call(agent, message, key, references), check=check))[0]

    async def gather(self, *calls: Call, check: bool = True) -> list[ChildResult]:
        """Makes calls side by side and gives their results, in the order of the calls. Raises what `call` does."""
        if self.cancelled:
            raise Stopped
        return await delegation.gather(self.delegate, calls, check)

    async def as_completed(self, *calls: Call, check: bool = True) -> AsyncIterator[ChildResult]:
        """Makes calls side by side and gives each result when it is there. Raises what `call` does."""
        if self.cancelled:
            raise Stopped
        async with aclosing(delegation.as_completed(self.delegate, calls, check)) as results:
            async for result in results:
                yield result

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

    def artifact(
        self,
        name: str,
        *,
        description: str = "",
        media_type: str = "text/plain",
        artifact_id: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> ArtifactStream:
        """An artifact to stream piece by piece: `async with task.artifact("log.txt") as log: await log.append("…")`."""
        return ArtifactStream(
            self.say,
            name=name,
            description=description,
            media_type=media_type,
            artifact_id=artifact_id,
            metadata=metadata,
        )

    async def say(self, emission: Emission) -> None:
        """Hands an emission to the host."""
        if self.cancelled:
            raise Stopped
        await self.emit(emission)


@dataclass(frozen=True, kw_only=True)
class SyncTaskContext(Turn):
    """What a handler that runs in a thread is given: `TaskContext` without `await`.

    Each call waits until the host's event loop has taken what was said. It is safe to use from several threads.
    """

    emit: Emit = field(repr=False, compare=False)
    lend: Lend = field(default=lend_none, repr=False, compare=False)
    delegate: Delegate | None = field(default=None, repr=False, compare=False)
    loop: asyncio.AbstractEventLoop = field(repr=False, compare=False)
    _awaited: set[concurrent.futures.Future[Any]] = field(default_factory=set, init=False, repr=False, compare=False)

    @classmethod
    def over(cls, task: TaskContext, loop: asyncio.AbstractEventLoop) -> Self:
        """The same task for a thread: memory and stop signal are shared, not copied."""
        shared = {known.name: getattr(task, known.name) for known in fields(Turn)}
        return cls(**shared, emit=task.emit, lend=task.lend, delegate=task.delegate, loop=loop)

    def credential(self, service: str) -> Credential | None:
        """The credential that the task's owner gave this agent for a service (see `TaskContext.credential`)."""
        return self._result(self._borrow(service))

    def call(
        self,
        agent: str,
        message: Said,
        *,
        key: str | None = None,
        references: Sequence[Reference] = (),
        check: bool = True,
    ) -> ChildResult:
        """Has another agent do something and waits, in this thread, for its end (see `TaskContext.call`)."""
        return self.gather(Call(agent, message, key, references), check=check)[0]

    def gather(self, *calls: Call, check: bool = True) -> list[ChildResult]:
        """Makes calls side by side and gives their results, in the order of the calls."""
        return self._result(delegation.gather(self.delegate, calls, check))

    def as_completed(self, *calls: Call, check: bool = True) -> Iterator[ChildResult]:
        """Makes calls side by side and gives each result when it is there."""
        results = delegation.as_completed(self.delegate, calls, check)
        try:
            for _ in calls:
                yield self._result(anext(results))
        finally:
            asyncio.run_coroutine_threadsafe(results.aclose(), self.loop)

    def progress(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """Tells people what is going on; `done` of `total` shows as a bar."""
        self.say(Progress(text, done, total))

    def token(self, text: str) -> None:
        """Streams a piece of the answer."""
        self.say(Token(text))

    def thought(self, text: str) -> None:
        self.say(Thought(text))

    def tool_call(self, name: str, arguments: dict[str, Any], call_id: str | None = None) -> str:
        """Records that a tool is called; gives the id that its `tool_result` must name."""
        call_id = call_id or str(uuid4())
        self.say(ToolCall(call_id, name, arguments))
        return call_id

    def tool_result(self, call_id: str, name: str, result: Any, is_error: bool = False) -> None:
        self.say(ToolResult(call_id, name, result, is_error))

    def usage(self, model: str, requests: int, input_tokens: int, output_tokens: int) -> None:
        """Tells what the work of a language model took; what is told in a turn is added up."""
        self.say(Usage(model, requests, input_tokens, output_tokens))

    def artifact(
        self,
        name: str,
        *,
        description: str = "",
        media_type: str = "text/plain",
        artifact_id: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> SyncArtifactStream:
        """An artifact to stream piece by piece: `with task.artifact("log.txt") as log: log.append("…")`."""
        return SyncArtifactStream(
            self.say,
            name=name,
            description=description,
            media_type=media_type,
            artifact_id=artifact_id,
            metadata=metadata,
        )

    def say(self, emission: Emission) -> None:
        """Hands an emission to the host and waits until it is taken."""
        self._result(self._deliver(emission))

    def wait_for[T](self, work: Coroutine[Any, Any, T]) -> T:
        """Has the host's event loop do async work and gives what comes of it; a stop ends both work and waiting."""
        return self._result(work)

    @property
    def on_loop(self) -> TaskContext:
        """The same task for code on the host's event loop: memory and stop signal are shared, not copied."""
        return TaskContext(**{known.name: getattr(self, known.name) for known in fields(TaskContext)})

    def release(self) -> None:
        """Ends, with `Stopped`, the waiting of the threads that wait for the host. Called by the host after a stop."""
        for awaited in list(self._awaited):
            awaited.cancel()

    def _result[T](self, work: Coroutine[Any, Any, T]) -> T:
        """What a coroutine gives that the host's event loop carries out while this thread waits."""
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

    async def _borrow(self, service: str) -> Credential | None:
        return await self.lend(service)

    async def _deliver(self, emission: Emission) -> None:
        if self.cancelled:
            raise Stopped
        await self.emit(emission)
