"""Running a handler: how it answers a message, which skill takes the task, and one turn to its outcome or its stop.

Async methods run on the event loop, all others in a thread. A stop reaches both; code in a thread that says nothing is
interrupted by an exception raised in it (`interrupt`), which it notices once it runs Python code again.
"""

import asyncio
import contextvars
import ctypes
import dataclasses
import inspect
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from concurrent.futures import Executor
from contextlib import aclosing, closing
from dataclasses import dataclass, field
from typing import Any

from agentkit import slots
from agentkit.context import Call, ChildResult, SyncTaskContext, TaskContext
from agentkit.directives import directive_in
from agentkit.emissions import Chunk, Emission, SkillChosen, Token, Usage
from agentkit.errors import AgentFailure, HandlerError, InvalidAnswer, Stopped
from agentkit.handlers import SkillHandler, takes_slot
from agentkit.messages import Artifact, Message, Part, text_part
from agentkit.outcomes import Completed, Failed, InputRequired, Outcome, Rejected, as_outcome
from agentkit.selecting import (
    SKILL_ID,
    Always,
    Clarify,
    Decision,
    ExistingTask,
    Reject,
    ResponseType,
    Start,
    by_rules,
    is_async_callable,
)
from agentkit.slots import NotAnswered, schema_of
from agentkit.turns import ReferencedTask, Session

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
    turn = _Turn(handler, task, executor)
    # What waits for nothing is done at once.
    work = asyncio.eager_task_factory(asyncio.get_running_loop(), turn.take())
    try:
        if not work.done():
            await asyncio.wait({work})
    except asyncio.CancelledError:
        await turn.stop(work)
        raise
    try:
        return as_outcome(work.result())
    except AgentFailure as failure:
        return Failed(str(failure), failure.code, detail=failure.detail)
    except NotAnswered as missing:
        return turn.same_question(missing)
    except (asyncio.CancelledError, Stopped):
        raise HandlerError("The handler ended as if stopped, although nobody stopped its task.") from None


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
    asked = ModelNames()
    task = TaskContext(
        task_id="",
        context_id=str(message.wire.get("contextId", "")),
        message=message,
        history=history,
        references=references,
        session=session or Session(),
        emit=asked.emit,
        delegate=_no_delegate,
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
    if skill is None and negotiates_in_thread(handler):
        return True
    if answers_slot and _has_own(handler, "on_input_received"):
        return not _is_async_method(handler.on_input_received)
    skills = [None, *handler.skill_methods] if skill is None else [skill]
    methods = [_skill_method(handler, one) for one in skills]
    own = [one for one in methods if getattr(one, "__func__", one) is not SkillHandler.on_request]
    return not all(map(_is_async_method, own))


def _is_async_method(method: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)


def _has_own(handler: SkillHandler, name: str) -> bool:
    """Does the handler's class define this method itself?"""
    return getattr(type(handler), name) is not getattr(SkillHandler, name)


def _skill_method(handler: SkillHandler, skill: str | None) -> Callable[..., Any]:
    """The method that takes the turns of a skill."""
    method: Callable[..., Any] = getattr(handler, handler.skill_methods.get(skill or "", "on_request"))
    return method


class _Turn:
    """One turn of a handler: its coroutines run on the event loop, anything else in a thread."""

    def __init__(self, handler: SkillHandler, task: TaskContext, executor: Executor | None) -> None:
        self.handler = handler
        self.task = task
        self.executor = executor

    async def take(self) -> Any:
        """From the choice of a skill to what the handler's method returns."""
        if self.task.skill is None:
            chosen = await choose_skill(self.handler, self.task, self.executor)
            if isinstance(chosen, InputRequired | Rejected):
                return chosen
            self.task = chosen
            if chosen.skill is not None and len(self.handler.skills) > 1:
                await chosen.say(SkillChosen(chosen.skill))
        if self.task.slot is not None and _has_own(self.handler, "on_input_received"):
            return await self.run(self.handler.on_input_received, *slot_for(self.handler, self.task))
        return await self.run(_skill_method(self.handler, self.task.skill))

    async def run(self, method: Callable[..., Any], *slot: Any) -> Any:
        """Calls a method with the task and gives what it returns; what it yields is said, or is the outcome."""
        if inspect.isasyncgenfunction(method):
            return await self._follow(method(self.task, *slot))
        if not inspect.iscoroutinefunction(method):
            return await self._in_thread(lambda task: _drain(method(task, *slot), task))
        value = await method(self.task, *slot)
        if isinstance(value, AsyncGenerator):
            return await self._follow(value)
        if isinstance(value, Generator):
            return await self._in_thread(lambda task: _drain(value, task))
        return value

    async def _follow(self, stream: AsyncGenerator[Any, None]) -> Any:
        tokens: list[str] = []
        async with aclosing(stream):
            async for item in stream:
                if (ended := _outcome_of(item)) is not None:
                    return ended
                await self.task.say(_emission_of(item, tokens))
        return "".join(tokens) if tokens else None

    async def _in_thread(self, call: Callable[[SyncTaskContext], Any]) -> Any:
        loop = asyncio.get_running_loop()
        sync_task = SyncTaskContext.over(self.task, loop)
        context = contextvars.copy_context()
        abandoned = threading.Event()
        running = Interruptible()

        def begin() -> Any:
            # A busy executor may come to it only after the stop.
            if abandoned.is_set():
                raise Stopped
            return running.run(lambda: context.run(call, sync_task))

        work = loop.run_in_executor(self.executor, begin)
        try:
            # Waiting on it, unlike awaiting it, lets a cancellation know whether the thread has come to its end.
            await asyncio.wait({work})
        except asyncio.CancelledError:
            abandoned.set()
            sync_task.release()
            if not (await asyncio.wait({work}, timeout=STOP_SECONDS / 2))[0]:
                running.interrupt(Stopped)  # it may be computing, and say nothing for long
            if not (await asyncio.wait({work}, timeout=STOP_SECONDS / 2))[0]:
                work.cancel()
            elif not work.cancelled():
                work.exception()  # retrieved, so that asyncio does not report it as overlooked
            raise
        return work.result()

    def same_question(self, missing: NotAnswered) -> InputRequired:
        """The question again, with what is missing in the answer."""
        asked = self.task.asked
        schema = asked.get("schema") or schema_of(missing.model)
        return InputRequired(str(missing), self.task.slot or missing.model, schema, value=asked.get("value"))

    async def stop(self, work: asyncio.Future[Any]) -> None:
        self.task.stop_signal.set()
        work.cancel()
        await asyncio.wait({work}, timeout=STOP_SECONDS)
        if work.done() and not work.cancelled():
            work.exception()
        # A task of its own: when this coroutine is cancelled once more, the cleaning goes on.
        await asyncio.wait({asyncio.ensure_future(self._clean_up())})

    async def _clean_up(self) -> None:
        if not _has_own(self.handler, "on_cancel"):
            return
        try:
            async with asyncio.timeout(CLEANUP_SECONDS):
                await self.run(self.handler.on_cancel)
        except (Exception, Stopped):
            logger.exception("on_cancel of %s did not succeed", type(self.handler).__name__)


def _drain(value: Any, task: SyncTaskContext) -> Any:
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
            if (ended := _outcome_of(item)) is not None:
                return ended
            task.say(_emission_of(item, tokens))


def _outcome_of(item: object) -> Outcome | None:
    """The outcome that a generator yielded, as one or as a dict with a state."""
    if isinstance(item, Outcome):
        return item
    return as_outcome(item) if isinstance(item, dict) and directive_in(item) else None


def _emission_of(item: object, tokens: list[str]) -> Emission:
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


async def _no_delegate(call: Call) -> ChildResult:
    raise HandlerError(
        f"The agent {call.agent!r} can only be called from a task: let select_response_type choose a task for this one."
    )


@dataclass
class ModelNames:
    """A host's `emit` for a message: it keeps the names of the models that were asked, and nothing else."""

    models: list[str] = field(default_factory=list)

    async def emit(self, emission: Emission) -> None:
        if isinstance(emission, Usage) and emission.model not in self.models:
            self.models.append(emission.model)

    @property
    def metadata(self) -> dict[str, Any]:
        return {"models": self.models} if self.models else {}


SKILL_SLOT = "which-skill"
"""The slot of the question which skill is wanted, where a task asks it."""


def chooses(handler: SkillHandler, message: Message) -> bool:
    """Is there anything to be decided about a message that begins a task?"""
    skills = len(handler.skills)
    return skills > 1 or _has_own(handler, "negotiate") or (skills == 1 and SKILL_ID in message.metadata)


async def decide(handler: SkillHandler, message: Message, *, executor: Executor | None = None) -> Decision:
    """What the handler's `negotiate` says. What is not async runs in a thread, of `executor` if given.

    Raises:
        InvalidAnswer: it says nothing that can be followed. What it raises passes through.
    """
    if negotiates_in_thread(handler):
        call = contextvars.copy_context().run
        work = asyncio.get_running_loop().run_in_executor(executor, call, handler.negotiate, message)
        decision: Any = await work
    else:
        decision = handler.negotiate(message)
    if inspect.isawaitable(decision):
        decision = await decision
    if not isinstance(decision, Decision):
        raise InvalidAnswer(f"negotiate gives Start, Clarify or Reject; this one gave {type(decision).__name__}.")
    skills = [one.id for one in handler.skills]
    if isinstance(decision, Start) and decision.skill is not None and decision.skill not in skills:
        named = ", ".join(skills) or "none"
        raise InvalidAnswer(f"negotiate started the skill {decision.skill!r}; {handler.name} has {named}.")
    return decision


def negotiates_in_thread(handler: SkillHandler) -> bool:
    if _has_own(handler, "negotiate"):
        return not is_async_callable(handler.negotiate)
    return len(handler.skills) > 1 and handler.choose_skill is not None and not is_async_callable(handler.choose_skill)


async def choose_skill(
    handler: SkillHandler, task: TaskContext, executor: Executor | None
) -> TaskContext | InputRequired | Rejected:
    """The task with its skill, which is not known yet; or the question, or refusal, that the turn ends with."""
    skills = [one.id for one in handler.skills]
    only = skills[0] if len(skills) == 1 else None
    if task.slot == SKILL_SLOT:
        if (named := _named_skill(task.message)) in skills:
            return dataclasses.replace(_before_the_question(task), skill=named)
    elif task.slot is not None or not chooses(handler, task.message) or _began_without_skill(task):
        return dataclasses.replace(task, skill=only) if only is not None else task
    match await decide(handler, task.message, executor=executor):
        case Clarify(question):
            return InputRequired(question, SKILL_SLOT, {"type": "string", "enum": skills} if skills else None)
        case Reject(reason):
            return Rejected(reason)
        case Start(skill):
            return dataclasses.replace(task, skill=skill, slot=None, asked={})


def slot_for(handler: SkillHandler, task: TaskContext) -> tuple[Any, ...]:
    """What `on_input_received` is given besides the task: the slot as its annotation says, if it takes one.

    Raises:
        HandlerError: the task asked for something else.
        slots.NotAnswered: the answer does not fit.
    """
    if not takes_slot(handler):
        return ()
    try:
        return (task.slot_as(slots.slot_annotation(handler.on_input_received)),)
    except LookupError as error:
        raise HandlerError(f"{type(handler).__name__}.on_input_received: {error}") from None


def _named_skill(message: Message) -> str:
    """The skill that an answer names, by itself."""
    chosen = [value[SKILL_SLOT] for value in message.data if isinstance(value, dict) and SKILL_SLOT in value]
    return str(chosen[0] if chosen else message.text).strip()


def _before_the_question(task: TaskContext) -> TaskContext:
    """The turn as it was when the skill was not known: an answer that only names it is no request of its own."""
    earlier = [at for at, one in enumerate(task.history) if one.role == "user"]
    if not earlier:
        return dataclasses.replace(task, slot=None, asked={})
    unclear = earlier[-1]
    return dataclasses.replace(
        task, slot=None, asked={}, message=task.history[unclear], history=tuple(task.history[:unclear])
    )


def _began_without_skill(task: TaskContext) -> bool:
    """Did earlier turns of the task come to pass without a skill?"""
    return task.slot is None and any(one.wire.get("taskId") == task.task_id for one in task.history)


def constant_response_type(handler: SkillHandler) -> ResponseType | None:
    """The choice of a handler that chooses the same for each message; None for another."""
    selector = _selector_of(handler)
    if isinstance(selector, Always):
        return selector.choice
    return None if callable(selector) else _as_response_type(selector)


def selector_takes_task(handler: SkillHandler) -> bool:
    """Does its selector want to know the newest task of the conversation?"""
    selector = _selector_of(handler)
    return callable(selector) and not isinstance(selector, Always | by_rules) and _argument_count(selector) > 1


async def select_response_type(
    handler: SkillHandler, message: Message, task: ExistingTask | None = None, *, executor: Executor | None = None
) -> ResponseType:
    """What the handler chooses for a message. What is not async runs in a thread, of `executor` if given.

    Raises:
        HandlerError: it chose nothing that there is. What its selector raises passes through.
    """
    selector = _selector_of(handler)
    if not callable(selector):
        return _as_response_type(selector)
    arguments = (message, task)[: _argument_count(selector)]
    choice: Any
    if isinstance(selector, Always | by_rules) or is_async_callable(selector):
        choice = selector(*arguments)
    else:
        call = contextvars.copy_context().run
        choice = await asyncio.get_running_loop().run_in_executor(executor, call, selector, *arguments)
    return _as_response_type(await choice if inspect.isawaitable(choice) else choice)


def _selector_of(handler: SkillHandler) -> Callable[..., Any] | object:
    """What chooses: the `select_response_type` that was defined, or what `response_type` is."""
    if type(handler).select_response_type is not SkillHandler.select_response_type:
        return handler.select_response_type
    return handler.selector


def _as_response_type(choice: object) -> ResponseType:
    try:
        return ResponseType(choice)
    except ValueError:
        raise HandlerError(f'A response type is "task" or "message"; this is {choice!r}.') from None


def _argument_count(selector: Callable[..., Any]) -> int:
    """How many arguments it takes: a selector may do without the task."""
    parameters = inspect.signature(selector).parameters.values()
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return 2
    return sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters)


_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in.argtypes = [ctypes.c_ulong, ctypes.py_object]
_NOTHING = ctypes.py_object()


def interrupt(thread: int, kind: type[BaseException]) -> None:
    """Have `kind` raised in the thread of this identifier, soon."""
    _raise_in(thread, kind)


class Interruptible:
    """A call that another thread can interrupt for as long as it lasts, and not a moment longer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None

    def run[T](self, call: Callable[[], T]) -> T:
        self._thread = threading.get_ident()
        try:
            return call()
        finally:
            try:
                self._end()
            except BaseException:  # it came at the very end
                self._end()
                raise

    def interrupt(self, kind: type[BaseException]) -> None:
        """Have `kind` raised in the call, if it has begun and not ended."""
        with self._lock:
            if self._thread is not None:
                interrupt(self._thread, kind)

    def _end(self) -> None:
        """Nothing is raised from here on, not even what was to be raised and has not been yet."""
        with self._lock:
            self._thread = None
            _raise_in(threading.get_ident(), _NOTHING)
