"""The task for a handler: its turn, reports, and calls of other agents. Each call is a child task."""

from __future__ import annotations

import asyncio
import concurrent.futures
import hashlib
import inspect
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial, wraps
from typing import Any, Concatenate, Protocol, Self, Unpack, cast
from uuid import uuid4

from agentkit.clients import CLIENT
from agentkit.content.emissions import (
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
from agentkit.content.inbox import Inbox, Mail, Mailbox
from agentkit.content.messages import Artifact, File, Message, Part, ReceivedArtifact, part_of
from agentkit.content.passages import Passage, Search, search_nothing
from agentkit.effects import Doing, Effects, do_in_thread, perform, remember
from agentkit.errors import AgentFailure, HostSignal, Stopped
from agentkit.outcomes import AuthRequired, Completed, Credential, InputRequired, Lend, lend_none
from agentkit.tools import Approvals, DeclaredApprovals
from agentkit.turns import ReferencedTask, Turn

type MessagePiece = str | Part | dict[str, Any] | File | Artifact | ReceivedArtifact | Message
type CallMessage = MessagePiece | Sequence[MessagePiece]
"""What can be said to an agent: text, data, files, artifacts and whole messages, or a list of them."""


@dataclass(frozen=True)
class ChildResult:
    """The end of a called agent's task.

    Attributes:
        agent: the agent's slug.
        state: `completed`, `failed`, `rejected` or `canceled`.
        text: its last message.
        artifacts: what it delivered; can be passed on unchanged.
        key: the key of its call.
        name: the agent's name, for people.
        parts, metadata: of its last message.
    """

    task_id: str
    agent: str
    state: str
    text: str
    artifacts: list[ReceivedArtifact] = field(default_factory=list)
    key: str | None = None
    name: str = ""
    parts: list[Part] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)

    def passed_on(self) -> Completed:
        """Its answer as the answer of your task. People see it once, under the name of the agent that gave it."""
        delivered = [Artifact(one.parts, one.name, one.description) for one in self.artifacts]
        return Completed(self.parts or self.text or None, delivered, self.metadata, by=self.task_id)


type Reference = ChildResult | ReferencedTask | str
"""A task that a call refines: a result, a reference of this turn, or a task's id."""


@dataclass(frozen=True)
class Call:
    """A call of another agent.

    Attributes:
        agent: the agent's slug.
        key: the call's name within the turn. Give one if the message differs whenever the turn is executed. Without a
            key, a call is identified by its agent, its message and the number of equal calls before it.
        references: earlier tasks for the child.
        after: tasks that must be completed before the child starts, such as one that is still working. If one of them
            fails, so does the child.
    """

    agent: str
    message: CallMessage
    key: str | None = None
    references: Sequence[Reference] = ()
    after: Sequence[Reference] = ()

    @property
    def parts(self) -> list[Part]:
        """The message's parts. Raises TypeError for a value that cannot be sent."""
        whole = self.message if isinstance(self.message, list | tuple) else [self.message]
        return [part for piece in whole for part in _piece_parts(cast(MessagePiece, piece))]

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of a forwarded message, and `dependsOn` (the tasks of `after`)."""
        forwarded = self.message.metadata if isinstance(self.message, Message) else {}
        forwarded.pop(CLIENT, None)  # a called agent does not speak with the client
        return forwarded | ({"dependsOn": _task_ids(self.after)} if self.after else {})

    @property
    def reference_ids(self) -> list[str]:
        return _task_ids(self.references)


def _task_ids(references: Sequence[Reference]) -> list[str]:
    return [one if isinstance(one, str) else one.task_id for one in references]


class Delegate(Protocol):
    """From the host: makes a child task and waits for its end in any state.

    Raises Suspended if the child asks, and AgentFailure if the call cannot be made.
    """

    async def __call__(self, call: Call) -> ChildResult: ...


class ChildFailed(AgentFailure):
    """A called agent did not complete its task. If you do not catch it, your task fails with the same message.

    The message names the agent at fault, however many agents the failure passes through.
    """

    def __init__(self, result: ChildResult) -> None:
        who, what = result.name or result.agent, ENDS.get(result.state, "failed")
        is_passed_on = FAILED_AGENT in result.metadata
        said = result.text if is_passed_on else f"{who} {what}: {result.text}" if result.text else f"{who} {what}."
        at_fault = result.metadata.get(FAILED_AGENT, result.agent)
        super().__init__(said, "child_failed", metadata={FAILED_AGENT: at_fault})
        self.result = result


ENDS = {"rejected": "did not accept this", "canceled": "was stopped"}
"""How a sentence about an agent says that its task did not complete."""
FAILED_AGENT = "failedAgent"
"""In the metadata of a failure: the slug of the agent at fault."""


BOOKMARK = "bookmark:"
"""The prefix of names in a task's memory that a suspended turn keeps; the others are as the turn found them."""


def bookmarks(memory: dict[str, Any]) -> dict[str, Any]:
    """The memory that a suspended turn keeps."""
    return {name: value for name, value in memory.items() if name.startswith(BOOKMARK)}


class Suspended(HostSignal):
    """A child asks something. The turn ends with the same question and repeats after the answer."""

    def __init__(self, question: InputRequired | AuthRequired, task_id: str) -> None:
        super().__init__(question)
        self.question = question
        self.task_id = task_id


class CallsWait(Suspended):
    """A model's tool calls wait for people or the client. The turn ends with a question and repeats with the answer."""

    question: InputRequired

    def __init__(self, question: InputRequired) -> None:
        super().__init__(question, "")


def _piece_parts(piece: MessagePiece) -> Iterator[Part]:
    match piece:
        case Message() | Artifact() | ReceivedArtifact():
            yield from piece.parts
        case File():
            yield piece.part
        case _:
            yield part_of(cast(Any, piece))


Emit = Callable[[Emission], Awaitable[None]]
"""Given by the host. It waits if the handler says more than can be recorded."""


def turn_key(message: Message) -> str:
    """With what the keys of a turn's steps begin."""
    return hashlib.sha256(message.id.encode()).hexdigest()[:8]


@dataclass(frozen=True, kw_only=True)
class TaskContext(Turn):
    """The task for an async handler. After a stop, its methods raise `Stopped`."""

    emit: Emit = field(repr=False, compare=False)
    lend: Lend = field(default=lend_none, repr=False, compare=False)
    find: Search = field(default=search_nothing, repr=False, compare=False)
    delegate: Delegate | None = field(default=None, repr=False, compare=False)
    effects: Effects | None = field(default=None, repr=False, compare=False)
    approvals: Approvals = field(default_factory=DeclaredApprovals, repr=False, compare=False)
    mail: Mail = field(default_factory=Mailbox, repr=False, compare=False)
    model: str | None = field(default=None, repr=False, compare=False)  # that people chose (see `offers_models`)
    _steps: Counter[str] = field(default_factory=Counter, init=False, repr=False, compare=False)
    _cited: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def inbox(self) -> Inbox:
        """The messages that arrive for the task while this turn runs."""
        return Inbox(self.mail, self.stop_after_step, lambda: self.cancelled)

    async def credential(self, service: str) -> Credential | None:
        """The credential that the task's owner gave this agent for a service, or None.

        Without one, or if the service refuses it, return `AuthRequired(…, service=service)`. When the task continues,
        ask here again: there may still be none. A new credential replaces the old one.
        """
        if self.cancelled:
            raise Stopped
        return await self.lend(service)

    async def search(self, query: str, limit: int = 5) -> list[Passage]:
        """The passages that fit a question best, the best first: of the collections that people gave this agent, and of
        the conversation's project. Only what the user may see is searched, or what the agent may tell all its callers.

        The search and what it found are recorded as a tool call. An empty list: nothing fits, or there is nothing to
        search. A passage is data from outside: it has no instructions for your agent.

        Args:
            query: a question or words.
            limit: at most so many passages, up to 20.

        Raises:
            ValueError: the query is empty.
        """
        if self.cancelled:
            raise Stopped
        if not query.strip():
            raise ValueError("Search for at least one word.")
        call = await self.tool_call("search_knowledge", {"query": query})
        found = await self.find(query, limit)
        await self.tool_result(call, "search_knowledge", [one.about for one in found])
        return found

    def cite(self, passage: Passage) -> str:
        """A link to a passage, whose number is the passage's own in this turn (`Passage.cite`)."""
        return passage.cite(self._cited.setdefault(passage.url, len(self._cited) + 1))

    async def effect(
        self,
        name: str,
        key: str,
        run: Callable[[], Awaitable[Any]],
        *,
        find: Callable[[], Awaitable[Any]] | None = None,
    ) -> Any:
        """Run an outside effect, such as a payment, at most once in this task, however often the turn is repeated.

        The claim is stored before `run`, and its result after it. Returns the result, of an earlier attempt too: at
        most 64 KiB of JSON. If `run` is cut off by a crash or a stop, or raises anything but `NotDone`, nobody knows
        whether the effect happened: it never runs again by itself.

        Args:
            name: what happens, for people.
            key: which one, such as an order's number.
            find: asks the other side whether an unknown effect happened: returns its result, or raises `NotDone`, and
                then it runs.

        Raises:
            EffectUnknown: it began earlier and may have happened, and there is no `find`.
            NotDone: `run` says that it did not happen. It may run again.
            AgentFailure: this is an answer without a task.
        """
        if self.cancelled:
            raise Stopped
        return await perform(self.effects, name, key, run, find)

    async def step(self, name: str, run: Callable[..., Any], *arguments: Any, key: str = "") -> Any:
        """Run a piece of the turn, `run(*arguments)`, and keep its result: if the turn starts again after a crash, it
        gets the result and goes on from there. It needs `retry_safe = True`.

        A step that was cut off runs again. What must not happen twice is an `effect`. A step that fails raises its
        exception; the next attempt runs it again. A turn with another message runs all its steps.

        Args:
            name: what happens, for people.
            run: a function, or an async one. One that is not async runs in a thread.
            key: which one, in at most 190 characters. Give one to steps whose order may differ between attempts; by
                default, steps of one name are counted.

        Returns:
            The result as it is stored: at most 64 KiB of JSON.
        """
        if self.cancelled:
            raise Stopped

        async def act() -> Any:
            is_async = inspect.iscoroutinefunction(run)
            made = run(*arguments) if is_async else await asyncio.to_thread(run, *arguments)
            return await made if inspect.isawaitable(made) else made

        return await remember(self.effects, name, self.step_key(name, key), act)

    def step_key(self, name: str, key: str) -> str:
        """The key of the turn's next step of this name: the same in each attempt."""
        self._steps[name] += 1
        turn = turn_key(self.message)
        return f"{turn} ={key}" if key else f"{turn} #{self._steps[name]}"

    async def call(
        self,
        agent: str,
        message: CallMessage,
        *,
        key: str | None = None,
        references: Sequence[Reference] = (),
        after: Sequence[Reference] = (),
        check: bool = True,
    ) -> ChildResult:
        """Call another agent as a child task and wait for its end (see `Call`).

        A turn that is repeated after a crash or a question finds its earlier calls.

        Raises:
            ChildFailed: the child did not complete; not with `check=False`.
            AgentFailure: the owner may not use such an agent, or there are too many calls.
        """
        return (await self.gather(Call(agent, message, key, references, after), check=check))[0]

    async def gather(self, *calls: Call, check: bool = True) -> list[ChildResult]:
        """Make calls side by side; returns results in the order of the calls. Raises like `call`."""
        waiting = self._make_calls(calls, check)
        try:
            return await asyncio.gather(*waiting)
        finally:
            await _stop_waiting(waiting)

    async def as_completed(self, *calls: Call, check: bool = True) -> AsyncGenerator[ChildResult]:
        """Make calls side by side; yields each result when it arrives. Raises like `call`."""
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
        if self.delegate is None:
            raise AgentFailure("No other agents can be called from here: give testing.run(…, agents={…}).", "no_agents")
        result = replace(await self.delegate(call), key=call.key)
        if check and result.state != "completed":
            raise ChildFailed(result)
        return result

    async def progress(
        self, text: str, done: float | None = None, total: float | None = None, *, detail: str = ""
    ) -> None:
        """Tell people what happens. `done` of `total` shows as a bar, `detail` to those who unfold the step."""
        await self.say(Progress(text, done, total, detail=detail))

    async def token(self, text: str) -> None:
        """Stream a piece of the answer."""
        await self.say(Token(text))

    async def thought(self, text: str) -> None:
        """Record reasoning. It is kept only if the agent's owner allows it, and never leaves the platform."""
        await self.say(Thought(text))

    async def tool_call(self, name: str, arguments: dict[str, Any], call_id: str | None = None) -> str:
        """Record a tool call; returns the id for its `tool_result`."""
        call_id = call_id or str(uuid4())
        await self.say(ToolCall(call_id, name, arguments))
        return call_id

    async def tool_result(
        self, call_id: str, name: str, result: Any, is_error: bool = False, app: dict[str, Any] | None = None
    ) -> None:
        """Record a tool's result, or with `is_error` its error. `app`: see `ToolResult`."""
        await self.say(ToolResult(call_id, name, result, is_error, app))

    async def usage(self, model: str, requests: int, input_tokens: int, output_tokens: int) -> None:
        """Report a language model's usage. A turn's reports are added up."""
        await self.say(Usage(model, requests, input_tokens, output_tokens))

    def artifact(self, name: str, **traits: Unpack[StreamTraits]) -> ArtifactStream:
        """An artifact to stream: `async with task.artifact("log.txt") as log: await log.append("…")`."""
        return ArtifactStream(self.say, name, **traits)

    async def say(self, emission: Emission) -> None:
        """Send an emission to the host."""
        if self.cancelled:
            raise Stopped
        await self.emit(emission)


async def _stop_waiting(waiting: Sequence[asyncio.Future[ChildResult]]) -> None:
    for one in waiting:
        one.cancel()
    for one in (await asyncio.wait(waiting))[0] if waiting else ():
        if not one.cancelled():
            one.exception()  # retrieved, or asyncio would log it


def _waiting[**P, R](
    method: Callable[Concatenate[TaskContext, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[SyncTaskContext, P], R]:
    """A `TaskContext` method for a thread: waits until the host's event loop has run it."""

    @wraps(method)
    def wait(self: SyncTaskContext, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.wait_for(method(self.on_loop, *args, **kwargs))

    return wait


@dataclass(frozen=True)
class SyncInbox:
    """`Inbox` for a handler in a thread, without `await`."""

    on_loop: Inbox
    wait_for: Callable[[Coroutine[Any, Any, Any]], Any]

    def unread(self) -> list[Message]:
        return cast(list[Message], self.wait_for(self.on_loop.unread()))

    def next(self) -> Message | None:
        return cast(Message | None, self.wait_for(self.on_loop.next()))

    def __iter__(self) -> Iterator[Message]:
        while (message := self.next()) is not None:
            yield message


@dataclass(frozen=True, kw_only=True)
class SyncTaskContext(Turn):
    """The task for a handler in a thread: `TaskContext` without `await`.

    Each call waits for the host's event loop. Several threads may use it.

    Attributes:
        on_loop: the same task for the event loop, with the same memory and stop signal.
    """

    on_loop: TaskContext = field(repr=False, compare=False)
    loop: asyncio.AbstractEventLoop = field(repr=False, compare=False)
    _awaited: set[concurrent.futures.Future[Any]] = field(default_factory=set, init=False, repr=False, compare=False)

    @classmethod
    def over(cls, task: TaskContext, loop: asyncio.AbstractEventLoop) -> Self:
        """The task for a thread."""
        return cls(**{one.name: getattr(task, one.name) for one in fields(Turn)}, on_loop=task, loop=loop)

    @property
    def inbox(self) -> SyncInbox:
        """The messages that arrive for the task while this turn runs."""
        return SyncInbox(self.on_loop.inbox, self.wait_for)

    credential = _waiting(TaskContext.credential)
    search = _waiting(TaskContext.search)
    call = _waiting(TaskContext.call)
    gather = _waiting(TaskContext.gather)
    progress = _waiting(TaskContext.progress)
    token = _waiting(TaskContext.token)
    thought = _waiting(TaskContext.thought)
    tool_call = _waiting(TaskContext.tool_call)
    tool_result = _waiting(TaskContext.tool_result)
    usage = _waiting(TaskContext.usage)
    say = _waiting(TaskContext.say)

    def effect(self, name: str, key: str, run: Callable[[], Any], *, find: Callable[[], Any] | None = None) -> Any:
        """`TaskContext.effect` with plain functions, which run in this thread."""
        return self._do(perform, name, key, run, find)

    def step(self, name: str, run: Callable[..., Any], *arguments: Any, key: str = "") -> Any:
        """`TaskContext.step` with a plain function, which runs in this thread."""
        return self._do(remember, name, self.on_loop.step_key(name, key), partial(run, *arguments))

    def _do(self, do: Doing, name: str, key: str, *acts: Any) -> Any:
        return do_in_thread(do, self.on_loop.effects, self.wait_for, self._finish, name, key, *acts)

    def as_completed(self, *calls: Call, check: bool = True) -> Iterator[ChildResult]:
        """Make calls side by side; yields each result when it arrives. Raises like `call`."""
        results = self.on_loop.as_completed(*calls, check=check)
        try:
            for _ in calls:
                yield self.wait_for(anext(results))
        finally:
            asyncio.run_coroutine_threadsafe(results.aclose(), self.loop)

    def artifact(self, name: str, **traits: Unpack[StreamTraits]) -> SyncArtifactStream:
        """An artifact to stream: `with task.artifact("log.txt") as log: log.append("…")`."""
        return SyncArtifactStream(self.say, name, **traits)

    def cite(self, passage: Passage) -> str:
        """`TaskContext.cite`."""
        return self.on_loop.cite(passage)

    def release(self) -> None:
        """Make waiting threads raise `Stopped`. The host calls it after a stop."""
        for awaited in list(self._awaited):
            awaited.cancel()

    def _finish[T](self, work: Coroutine[Any, Any, T]) -> T:
        """`wait_for` also after a stop, for what must be stored."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def wait_for[T](self, work: Coroutine[Any, Any, T]) -> T:
        """Run async work on the host's event loop and return its result. A stop ends both work and waiting."""
        if self.cancelled:
            work.close()
            raise Stopped
        awaited = asyncio.run_coroutine_threadsafe(work, self.loop)
        self._awaited.add(awaited)
        try:
            # `release` may have run before this was added.
            if self.cancelled:
                raise Stopped
            return awaited.result()
        except concurrent.futures.CancelledError:
            raise Stopped from None
        finally:
            awaited.cancel()
            self._awaited.discard(awaited)
