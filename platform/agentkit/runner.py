"""Runs a handler: its choice of response type and skill, and one turn to its outcome or stop.

Async methods run on the event loop, others in a thread. A stop raises an exception in the thread (`interrupt`), once it
runs Python code.
"""

import asyncio
import contextvars
import ctypes
import dataclasses
import inspect
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import aclosing, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from agentkit import slots
from agentkit.content.emissions import CUT_OFF, FINISH_REASON, Chunk, Emission, SkillChosen, Token, Usage, WholeAnswer
from agentkit.content.memories import UserMemory
from agentkit.content.messages import Artifact, Message, Part, text_part
from agentkit.content.passages import Search, search_nothing
from agentkit.content.projects import Project
from agentkit.context import Call, CallsWait, ChildResult, SyncTaskContext, TaskContext
from agentkit.directives import directive_in, mistake_in
from agentkit.errors import AgentFailure, Escaped, HandlerError, HostSignal, InvalidAnswer, Stopped
from agentkit.handlers import SkillHandler, takes_slot
from agentkit.outcomes import (
    CLARIFY,
    NO_ANSWER,
    AuthRequired,
    Completed,
    Failed,
    InputRequired,
    Outcome,
    Rejected,
    as_outcome,
    with_error_code,
)
from agentkit.selecting import (
    RESPONSE_TYPE,
    SKILL_ID,
    Always,
    Clarify,
    Decision,
    ExistingTask,
    Reject,
    ResponseType,
    Start,
    by_result,
    by_rules,
    is_async_callable,
    response_type_of,
)
from agentkit.slots import NotAnswered, schema_of
from agentkit.turns import ReferencedTask, Session

STOP_SECONDS = 1.0
"""How long a stopped handler may take to end before its `on_cancel` runs beside it."""

CLEANUP_SECONDS = 5.0
"""How long `on_cancel` may take."""

logger = logging.getLogger(__name__)


@contextmanager
def contained() -> Iterator[None]:
    """Runs an agent's code. What would end its process, or its event loop, becomes `Escaped`."""
    try:
        yield
    except (Exception, HostSignal, asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as raised:
        raise Escaped(raised) from raised


async def drive(handler: SkillHandler, task: TaskContext, *, executor: Executor | None = None) -> Outcome:
    """Run one turn and return its outcome. The handler's exceptions pass through, except `AgentFailure` and
    `NotAnswered`.

    If the task has no skill yet, the handler chooses one (`SkillHandler.negotiate`).

    Cancelling this coroutine stops the handler with `CancelledError`, or in a thread with `Stopped` from its next
    report. Then `on_cancel` runs, even if canceled again.

    Args:
        executor: runs what is not async; by default the event loop's own.

    Raises:
        HandlerError, InvalidAnswer: the handler's code is wrong; the text says how.
        Escaped: it raised what would end the process.
    """
    turn = _Turn(handler, task, executor)
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
        return Failed(str(failure), failure.code, failure.metadata, failure.detail)
    except NotAnswered as missing:
        return turn.same_question(missing)
    except (asyncio.CancelledError, GeneratorExit, Stopped):
        raise HandlerError("The handler ended as if stopped, although nobody stopped its task.") from None


@dataclass(frozen=True)
class Answer:
    """An answer as a message. An error has a code in `metadata.error.code`."""

    parts: Sequence[Part]
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def error(cls, said: str, code: str) -> "Answer":
        return cls([text_part(said)], with_error_code({}, code))


class NeedsTask(Exception):
    """What the handler returned takes a task: a question, or metadata with `{"responseType": "task"}`."""


async def answer(
    handler: SkillHandler,
    message: Message,
    *,
    history: Sequence[Message] = (),
    references: Sequence[ReferencedTask] = (),
    session: Session | None = None,
    project: Project | None = None,
    user_memory: UserMemory | None = None,
    find: Search = search_nothing,
    executor: Executor | None = None,
) -> Answer:
    """The answer to `message`, for `ResponseType.MESSAGE`; it is never empty.

    Its parts are the text that the handler returned or else streamed, and its artifacts. The metadata names the
    language models asked. The host stores the memory of the `session`. `find` answers
    `task.search`.

    Raises:
        NeedsTask: there is no such answer. The host begins a task, which calls the handler again.
    """
    heard = Heard()
    task = TaskContext(
        task_id="",
        context_id=str(message.wire.get("contextId", "")),
        message=message,
        history=history,
        references=references,
        session=session or Session(),
        project=project,
        user_memory=user_memory,
        find=find,
        emit=heard.emit,
        delegate=_no_delegate,
    )
    try:
        outcome = await drive(handler, task, executor=executor)
    except CallsWait:
        raise NeedsTask from None
    wanted = outcome.metadata.get(RESPONSE_TYPE, "task" if handler.selector is by_result else "message")
    if isinstance(outcome, InputRequired | AuthRequired) or wanted == "task":
        raise NeedsTask
    parts = heard.answer_parts(outcome) if isinstance(outcome, Completed) else outcome.parts
    if isinstance(outcome, Failed) and outcome.detail:
        logger.warning("%s could not answer: %s", type(handler).__name__, outcome.code)
    if not parts and isinstance(outcome, Completed):
        logger.warning("%s returned no answer", type(handler).__name__)
    nothing = "It could not be done." if isinstance(outcome, Failed | Rejected) else NO_ANSWER
    return Answer(parts or [text_part(nothing)], heard.metadata | outcome.message_metadata)


def needs_thread(handler: SkillHandler, *, answers_slot: bool = False, skill: str | None = None) -> bool:
    """May a turn of this handler, or one that answers its question, run in a thread?"""
    if skill is None and negotiates_in_thread(handler):
        return True
    if answers_slot and _has_own(handler, "on_input_received"):
        return not _is_async_method(handler.on_input_received)
    skills = [None, *handler.skill_methods] if skill is None else [skill]
    methods = [getattr(handler, handler.skill_methods.get(one or "", "on_request")) for one in skills]
    own = [one for one in methods if getattr(one, "__func__", one) is not SkillHandler.on_request]
    return not all(map(_is_async_method, own))


def _is_async_method(method: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)


def _has_own(handler: SkillHandler, name: str) -> bool:
    return getattr(type(handler), name) is not getattr(SkillHandler, name)


@dataclass
class _Turn:
    """One turn of a handler: coroutines run on the event loop, other methods in a thread."""

    handler: SkillHandler
    task: TaskContext
    executor: Executor | None

    async def take(self) -> Any:
        with contained():  # before the event loop sees it
            if self.task.skill is None:
                chosen = await choose_skill(self.handler, self.task, self.executor)
                if isinstance(chosen, InputRequired | Rejected):
                    return chosen
                self.task = chosen
                if chosen.skill is not None and len(self.handler.skills) > 1:
                    await chosen.say(SkillChosen(chosen.skill))
            if self.task.slot is not None and _has_own(self.handler, "on_input_received"):
                return await self.run(self.handler.on_input_received, *slot_for(self.handler, self.task))
            method = self.handler.skill_methods.get(self.task.skill or "", "on_request")
            return await self.run(getattr(self.handler, method))

    async def run(self, method: Callable[..., Any], *slot: Any) -> Any:
        """Calls a method and returns its result. What it yields is emitted, or is the outcome."""
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
            # A busy executor may start it after the stop.
            if abandoned.is_set():
                raise Stopped
            return running.run(lambda: context.run(call, sync_task))

        work = loop.run_in_executor(self.executor, begin)
        try:
            # Unlike `await work`, this leaves the future intact on cancellation.
            await asyncio.wait({work})
        except asyncio.CancelledError:
            abandoned.set()
            sync_task.release()
            if not (await asyncio.wait({work}, timeout=STOP_SECONDS / 2))[0]:
                running.interrupt(Stopped)
            if not (await asyncio.wait({work}, timeout=STOP_SECONDS / 2))[0]:
                work.cancel()
            elif not work.cancelled():
                work.exception()  # retrieved, or asyncio would log it
            raise
        return work.result()

    def same_question(self, missing: NotAnswered) -> InputRequired:
        """The question again, with what is wrong in the answer."""
        asked = self.task.asked
        schema = asked.get("schema") or (schema_of(missing.model) if missing.model else None)
        slot = self.task.slot or missing.model or "input"
        return InputRequired(str(missing), slot, schema, value=asked.get("value"))

    async def stop(self, work: asyncio.Future[Any]) -> None:
        self.task.stop_signal.set()
        work.cancel()
        await asyncio.wait({work}, timeout=STOP_SECONDS)
        if work.done() and not work.cancelled():
            work.exception()
        # In a task of its own, which another cancellation does not reach.
        await asyncio.wait({asyncio.ensure_future(self._clean_up())})

    async def _clean_up(self) -> None:
        if not _has_own(self.handler, "on_cancel"):
            return
        try:
            async with asyncio.timeout(CLEANUP_SECONDS):
                with contained():
                    await self.run(self.handler.on_cancel)
        except (Exception, Stopped):
            logger.exception("on_cancel of %s did not succeed", type(self.handler).__name__)


def _drain(value: Any, task: SyncTaskContext) -> Any:
    """In the thread: emits what a generator yields; returns its outcome, or another value unchanged."""
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
    if isinstance(item, Outcome):
        return item
    return as_outcome(item) if isinstance(item, dict) and directive_in(item) else None


def _emission_of(item: object, tokens: list[str]) -> Emission:
    """A yielded value as an emission. Token texts are added to `tokens`."""
    if isinstance(item, str):
        item = Token(item)
    if isinstance(item, dict):
        if mistake := mistake_in(item):
            raise InvalidAnswer(mistake)
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
class Heard:
    """An `emit` that keeps what belongs to a message: streamed text and artifacts, and what is told of the models."""

    models: list[str] = field(default_factory=list)
    is_cut_off: bool = False
    text: str = ""
    streamed: dict[str, Artifact] = field(default_factory=dict)

    async def emit(self, emission: Emission) -> None:
        match emission:
            case Usage(model=model):
                self.models += [model] if model not in self.models else []
                self.is_cut_off = emission.is_cut_off
            case Token(text):
                self.text += text
            case WholeAnswer(text):
                self.text = text
            case Chunk(artifact_id=key):
                before = self.streamed[key].parts if emission.append and key in self.streamed else ()
                self.streamed[key] = Artifact([*before, *emission.parts], emission.name, artifact_id=key)

    def answer_parts(self, outcome: Completed) -> list[Part]:
        """The parts of the message and its artifacts, without a text that is said already."""
        parts = outcome.parts or ([text_part(self.text)] if self.text else [])
        said = "".join(part.get("text", "") for part in parts).strip()
        for artifact in (*self.streamed.values(), *outcome.artifacts):
            own = artifact.parts
            if all("text" in part and "filename" not in part for part in own):
                text = "".join(part["text"] for part in own)
                name: Part = {"filename": artifact.name} if "." in artifact.name else {}
                own = [{**own[0], "text": text, **name}] if own and text.strip() != said else []
            parts += own
        return parts

    @property
    def metadata(self) -> dict[str, Any]:
        cut_off = {FINISH_REASON: CUT_OFF} if self.is_cut_off else {}
        return {"models": self.models, **cut_off} if self.models else {}


SKILL_SLOT = "which-skill"
"""The slot of a task's question for the skill."""


def chooses(handler: SkillHandler, message: Message) -> bool:
    """Does the handler decide about a message that starts a task?"""
    skills = len(handler.skills)
    if skills > 1 or type(handler).negotiate is not SkillHandler.negotiate:
        return True
    return skills == 1 and SKILL_ID in message.wire.get("metadata", ())


async def decide(handler: SkillHandler, message: Message, *, executor: Executor | None = None) -> Decision:
    """The handler's `negotiate` decision. If it is not async, it runs in a thread of `executor`.

    Raises:
        InvalidAnswer: this is no decision. The handler's exceptions pass through.
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
    """The task with its skill, or the question or refusal that ends the turn."""
    skills = [one.id for one in handler.skills]
    only = skills[0] if len(skills) == 1 else None
    if task.slot == SKILL_SLOT:
        if named := _named_skill(handler, task.message):
            return dataclasses.replace(_before_the_question(task), skill=named)
    elif task.slot is not None or not chooses(handler, task.message) or _began_without_skill(task):
        return dataclasses.replace(task, skill=only) if only is not None else task
    match await decide(handler, task.message, executor=executor):
        case Clarify(question):
            schema = _skill_schema(handler) if handler.skills else None
            return InputRequired(question, SKILL_SLOT, schema, with_error_code({}, CLARIFY))
        case Reject(reason):
            return Rejected(reason)
        case Start(skill):
            return dataclasses.replace(task, skill=skill, slot=None, asked={})


def slot_for(handler: SkillHandler, task: TaskContext) -> tuple[Any, ...]:
    """The slot for `on_input_received`, typed by its annotation, if it takes one.

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


def _named_skill(handler: SkillHandler, message: Message) -> str:
    """The id of the skill that an answer names by its id or name; "" for none."""
    given = slots.answer_of({"name": SKILL_SLOT, "schema": _skill_schema(handler)}, message)
    return next((one.id for one in handler.skills if given == one.id), "")


def _skill_schema(handler: SkillHandler) -> dict[str, Any]:
    return {"type": "string", "oneOf": [{"const": one.id, "title": one.name} for one in handler.skills]}


def _before_the_question(task: TaskContext) -> TaskContext:
    """The turn before the question for the skill, because the answer only names the skill."""
    earlier = [at for at, one in enumerate(task.history) if one.role == "user"]
    if not earlier:
        return dataclasses.replace(task, slot=None, asked={})
    unclear = earlier[-1]
    return dataclasses.replace(
        task, slot=None, asked={}, message=task.history[unclear], history=tuple(task.history[:unclear])
    )


def _began_without_skill(task: TaskContext) -> bool:
    return task.slot is None and any(one.wire.get("taskId") == task.task_id for one in task.history)


def constant_response_type(handler: SkillHandler) -> ResponseType | None:
    """The response type if it is the same for all messages; otherwise None."""
    selector = _selector_of(handler)
    if isinstance(selector, Always):
        return selector.choice
    return None if callable(selector) else response_type_of(selector)


def selector_takes_task(handler: SkillHandler) -> bool:
    """Does its selector take the conversation's newest task?"""
    selector = _selector_of(handler)
    return callable(selector) and not isinstance(selector, Always | by_rules) and _argument_count(selector) > 1


async def select_response_type(
    handler: SkillHandler, message: Message, task: ExistingTask | None = None, *, executor: Executor | None = None
) -> ResponseType:
    """The handler's choice for a message. A selector that is not async runs in a thread of `executor`.

    Raises:
        HandlerError: it chose no response type. The selector's exceptions pass through.
    """
    selector = _selector_of(handler)
    if not callable(selector):
        return response_type_of(selector)
    arguments = (message, task)[: _argument_count(selector)]
    choice: Any
    if isinstance(selector, Always | by_rules) or is_async_callable(selector):
        choice = selector(*arguments)
    else:
        call = contextvars.copy_context().run
        choice = await asyncio.get_running_loop().run_in_executor(executor, call, selector, *arguments)
    return response_type_of(await choice if inspect.isawaitable(choice) else choice)


def _selector_of(handler: SkillHandler) -> Callable[..., Any] | object:
    if type(handler).select_response_type is not SkillHandler.select_response_type:
        return handler.select_response_type
    return handler.selector


def _argument_count(selector: Callable[..., Any]) -> int:
    parameters = inspect.signature(selector).parameters.values()
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return 2
    return sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters)


_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in.argtypes = [ctypes.c_ulong, ctypes.py_object]
_NOTHING = ctypes.py_object()


def interrupt(thread: int, kind: type[BaseException]) -> None:
    """Raise `kind` soon in the thread with this identifier."""
    _raise_in(thread, kind)


class Interruptible:
    """A call that another thread can interrupt while it runs."""

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
            except BaseException:
                self._end()
                raise

    def interrupt(self, kind: type[BaseException]) -> None:
        """Raise `kind` in the call, if it runs."""
        with self._lock:
            if self._thread is not None:
                interrupt(self._thread, kind)

    def _end(self) -> None:
        """End the call and drop an exception not yet raised."""
        with self._lock:
            self._thread = None
            _raise_in(threading.get_ident(), _NOTHING)
