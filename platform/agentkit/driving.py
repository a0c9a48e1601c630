"""Running a handler for one turn: on the event loop or in a thread, to its outcome or to its stop."""

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from concurrent.futures import Executor
from contextlib import aclosing, closing
from dataclasses import dataclass, field
from typing import Any

from agentkit.artifacts import Artifact
from agentkit.context import SyncTaskContext, TaskContext
from agentkit.deciding import begin, decides_in_thread, method_for, slot_for
from agentkit.delegation import Call, ChildResult
from agentkit.directives import directive_in
from agentkit.emissions import Chunk, Emission, SkillChosen, Token, Usage
from agentkit.errors import HandlerError, InvalidAnswer
from agentkit.handlers import SkillHandler
from agentkit.interrupting import Interruptible
from agentkit.messages import Message
from agentkit.outcomes import AgentFailure, Completed, Failed, InputRequired, Outcome, Rejected, as_outcome
from agentkit.parts import Part, text_part
from agentkit.sessions import Session
from agentkit.slots import NotAnswered, schema_of
from agentkit.turns import ReferencedTask, Stopped

STOP_SECONDS = 1.0
"""How long a stopped handler may take to end before its `on_cancel` runs beside it."""

CLEANUP_SECONDS = 5.0
"""How long `on_cancel` may take."""

logger = logging.getLogger(__name__)


async def drive(handler: SkillHandler, task: TaskContext, *, executor: Executor | None = None) -> Outcome:
    """Takes one turn and gives its outcome. A handler's exceptions pass through, save `AgentFailure` and `NotAnswered`.

    Where the task has no skill yet, the handler is asked for one (`SkillHandler.negotiate`).

    Cancelling this coroutine stops the handler: one that awaits gets `CancelledError`, one in a thread gets `Stopped`
    from the next thing it says. Then `on_cancel` runs to its end, which a second cancellation does not cut short.

    Args:
        executor: runs what is not async; a thread of the event loop's own pool by default.

    Raises:
        HandlerError, InvalidAnswer: the handler's code is wrong; the text says how.
    """
    lane = _Lane(task, executor)
    work = asyncio.eager_task_factory(lane.loop, _take(handler, lane))  # one that waits for nothing is done at once
    try:
        if not work.done():
            await asyncio.wait({work})
    except asyncio.CancelledError:
        await _stop(work, lane, handler)
        raise
    return _outcome(work, lane.task)


@dataclass(frozen=True)
class Answer:
    """A message that answers at once. `metadata.error.code` tells programs that it is an error."""

    parts: Sequence[Part]
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def error(cls, said: str, code: str) -> "Answer":
        return cls([text_part(said)], {"error": {"code": code}})


async def answer(
    handler: SkillHandler,
    message: Message,
    *,
    history: Sequence[Message] = (),
    references: Sequence[ReferencedTask] = (),
    session: Session | None = None,
    executor: Executor | None = None,
) -> Answer:
    """The answer to `message`, for `ResponseType.MESSAGE`; it is never empty.

    What the handler says on the way goes unheard, and an answer without words is made of its artifacts. Its metadata
    name the language models that were asked. What the handler keeps in the memory of the `session` is the host's to
    store.
    """
    asked = Asked()
    task = TaskContext(
        task_id="",
        context_id=str(message.wire.get("contextId", "")),
        message=message,
        history=history,
        references=references,
        session=session or Session(),
        emit=asked.hear,
        delegate=_undelegated,
    )
    outcome = await drive(handler, task, executor=executor)
    delivered = outcome.artifacts if isinstance(outcome, Completed) else ()
    parts = outcome.parts or [part for artifact in delivered for part in artifact.parts]
    failed = isinstance(outcome, Failed | Rejected)
    code = outcome.code if isinstance(outcome, Failed) else "rejected"
    if isinstance(outcome, Failed) and outcome.detail:
        logger.warning("%s could not answer: %s", type(handler).__name__, outcome.detail)
    metadata = asked.metadata | outcome.metadata | ({"error": {"code": code}} if failed else {})
    return Answer(parts or [text_part("It could not be done." if failed else "Done.")], metadata)


def needs_thread(handler: SkillHandler, *, answers_slot: bool = False, skill: str | None = None) -> bool:
    """May a turn of this handler, or one that answers what it asked for, run in a thread?"""
    known = [None, *handler.skill_methods] if skill is None else [skill]
    methods = [method_for(handler, one, answers_slot=answers_slot) for one in known]
    own = [one for one in methods if getattr(one, "__func__", one) is not SkillHandler.on_request]
    return (skill is None and decides_in_thread(handler)) or any(not _is_async(one) for one in own)


def _is_async(method: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)


async def _take(handler: SkillHandler, lane: "_Lane") -> Any:
    """The turn, from the choice of a skill to what the method returns."""
    begun = await begin(handler, lane.task, lane.executor)
    if isinstance(begun, InputRequired | Rejected):
        return begun
    if begun is not lane.task:
        lane.turn_to(begun)
        if begun.skill is not None and len(handler.skills) > 1:
            await begun.say(SkillChosen(begun.skill))
    method = method_for(handler, begun.skill, answers_slot=begun.slot is not None)
    slot = slot_for(handler, begun) if method == handler.on_input_received else ()
    return await lane.run(method, *slot)


class _Lane:
    """Where code of a handler runs, and with which face of the task: a coroutine here, anything else in a thread."""

    def __init__(self, task: TaskContext, executor: Executor | None) -> None:
        self.executor = executor
        self.loop = asyncio.get_running_loop()
        self.turn_to(task)

    def turn_to(self, task: TaskContext) -> None:
        self.task = task
        self.sync_task = SyncTaskContext.over(task, self.loop)

    async def run(self, method: Callable[..., Any], *slot: Any) -> Any:
        """Calls a method with the task and gives what it returns; what it yields is said, or is the outcome."""
        if inspect.isasyncgenfunction(method):
            return await self._follow(method(self.task, *slot))
        if not inspect.iscoroutinefunction(method):
            return await self._in_thread(lambda: _followed(method(self.sync_task, *slot), self.sync_task))
        value = await method(self.task, *slot)
        if isinstance(value, AsyncGenerator):
            return await self._follow(value)
        if isinstance(value, Generator):
            return await self._in_thread(lambda: _followed(value, self.sync_task))
        return value

    async def _follow(self, stream: AsyncGenerator[Any, None]) -> Any:
        tokens: list[str] = []
        async with aclosing(stream):
            async for item in stream:
                if (ended := _end(item)) is not None:
                    return ended
                await self.task.say(_emission(item, tokens))
        return "".join(tokens) if tokens else None

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        context = contextvars.copy_context()
        abandoned = threading.Event()
        running = Interruptible()

        def begin() -> Any:
            # A busy executor may come to it only after the stop.
            if abandoned.is_set():
                raise Stopped
            return running.run(lambda: context.run(call))

        work = self.loop.run_in_executor(self.executor, begin)
        try:
            # Waiting on it, unlike awaiting it, lets a cancellation know whether the thread has come to its end.
            await asyncio.wait({work})
        except asyncio.CancelledError:
            abandoned.set()
            self.sync_task.release()
            if not (await asyncio.wait({work}, timeout=STOP_SECONDS / 2))[0]:
                running.interrupt(Stopped)  # it may be computing, and say nothing for long
            if not (await asyncio.wait({work}, timeout=STOP_SECONDS / 2))[0]:
                work.cancel()
            elif not work.cancelled():
                work.exception()  # retrieved, so that asyncio does not report it as overlooked
            raise
        return work.result()


def _outcome(work: asyncio.Future[Any], task: TaskContext) -> Outcome:
    try:
        return as_outcome(work.result())
    except AgentFailure as failure:
        return Failed(str(failure), failure.code, detail=failure.detail)
    except NotAnswered as missing:
        schema = task.asked.get("schema") or schema_of(missing.model)
        return InputRequired(str(missing), task.slot or missing.model, schema, value=task.asked.get("value"))
    except (asyncio.CancelledError, Stopped):
        raise HandlerError("The handler ended as if stopped, although nobody stopped its task.") from None


async def _stop(work: asyncio.Future[Any], lane: _Lane, handler: SkillHandler) -> None:
    lane.task.stop_signal.set()
    work.cancel()
    await asyncio.wait({work}, timeout=STOP_SECONDS)
    if work.done() and not work.cancelled():
        work.exception()
    # A task of its own: when this coroutine is cancelled once more, the cleaning goes on.
    cleanup = asyncio.ensure_future(_clean_up(lane, handler))
    await asyncio.wait({cleanup})


async def _clean_up(lane: _Lane, handler: SkillHandler) -> None:
    if type(handler).on_cancel is SkillHandler.on_cancel:
        return
    try:
        async with asyncio.timeout(CLEANUP_SECONDS):
            await lane.run(handler.on_cancel)
    except (Exception, Stopped):
        logger.exception("on_cancel of %s did not succeed", type(handler).__name__)


def _followed(value: Any, task: SyncTaskContext) -> Any:
    """In the thread: goes through a generator's items; gives its outcome, or any other value as it is."""
    if inspect.isawaitable(value) or isinstance(value, AsyncGenerator):
        if inspect.iscoroutine(value):
            value.close()
        raise HandlerError("A handler returned a coroutine or an async generator: write it with `async def`.")
    if not isinstance(value, Generator):
        return value
    tokens: list[str] = []
    with closing(value):
        while True:
            try:
                item = next(value)
            except StopIteration as end:
                return end.value if end.value is not None or not tokens else "".join(tokens)
            if (ended := _end(item)) is not None:
                return ended
            task.say(_emission(item, tokens))


def _end(item: object) -> Outcome | None:
    """The outcome that a generator yielded, as one or as a dict with a state."""
    if isinstance(item, Outcome):
        return item
    return as_outcome(item) if isinstance(item, dict) and directive_in(item) else None


def _emission(item: object, tokens: list[str]) -> Emission:
    """What a generator yielded, as an emission; the text of tokens is noted in `tokens`."""
    if isinstance(item, str):
        item = Token(item)
    if isinstance(item, dict):
        item = Artifact.json("answer", item)
    if isinstance(item, Artifact):
        return Chunk.whole(item)
    if isinstance(item, Token):
        tokens.append(item.text)
    if isinstance(item, Emission):
        return item
    wanted = "text, a dict, an Artifact, a Progress or another emission, or an outcome"
    raise InvalidAnswer(f"A generator may yield {wanted}; this one yielded {type(item).__name__}.")


async def _undelegated(call: Call) -> ChildResult:
    raise HandlerError(
        f"The agent {call.agent!r} can only be called from a task: let select_response_type choose a task for this one."
    )


@dataclass
class Asked:
    """There is nobody to hear what is said on the way to a message, save which models were asked."""

    models: list[str] = field(default_factory=list)

    async def hear(self, emission: Emission) -> None:
        if isinstance(emission, Usage) and emission.model not in self.models:
            self.models.append(emission.model)

    @property
    def metadata(self) -> dict[str, Any]:
        return {"models": self.models} if self.models else {}
