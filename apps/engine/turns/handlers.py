"""Handlers of hosted agents: loaded once in a process, and called on the event loop or in threads.

A handler is loaded again where an agent is registered with changed code. A module that changed is imported anew beside
the old one: turns that run keep the objects that they began with.

A watchdog interrupts handlers that block the event loop. What handlers print goes to the log.
"""

from __future__ import annotations

import asyncio
import datetime
import importlib
import inspect
import io
import logging
import sys
import threading
import traceback
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path
from types import ModuleType
from typing import Any

from django.conf import settings
from django.db import connections
from django.utils import timezone

import agentkit
from agentkit import (
    Answer,
    Decision,
    ExistingTask,
    HandlerError,
    Message,
    Outcome,
    Passage,
    ResponseType,
    SkillHandler,
    TaskContext,
    drive,
    load_handler,
    needs_thread,
    runner,
)
from agentkit.content.passages import Search, search_nothing
from agentkit.errors import HostSignal
from agentkit.runner import constant_response_type, contained, interrupt
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine.turns.assignment import Assignment, ReleaseSlot
from parley import db
from parley.registry import added
from parley.telemetry import logs

log = logging.getLogger("parley.engine")

HOUSE = frozenset({"agentkit", "apps", "examples", "parley"})  # Parley's own code changes with a restart only

type Files = dict[str, tuple[int, int]]
"""Time and size of source files, by their paths."""


@dataclass(slots=True)
class Loaded:
    """A handler, and what need not be asked of it for each message.

    Attributes:
        at: when its files were last found to be those of `files`.
        always_task: is each message that names no skill answered by a task, and is there no skill to choose?
    """

    handler: SkillHandler
    files: Files
    at: datetime.datetime
    always_task: bool = field(init=False)

    def __post_init__(self) -> None:
        handler, kind = self.handler, type(self.handler)
        skills = inspect.getattr_static(kind, "skills")
        may_vary = hasattr(skills, "__get__") or "skills" in getattr(handler, "__dict__", ())
        try:
            chooses = may_vary or len(handler.skills) > 1 or kind.negotiate is not SkillHandler.negotiate
            self.always_task = not chooses and constant_response_type(handler) is ResponseType.TASK
        except HandlerError:  # of which the task tells
            self.always_task = False


_loaded: dict[str, Loaded] = {}
_loading = threading.RLock()


def handler_at(path: str) -> SkillHandler:
    """The handler at a dotted path. Raises agentkit.HandlerError."""
    if (known := _loaded.get(path)) is not None:
        return known.handler
    with _loading:
        if path not in _loaded:
            at = timezone.now()
            _loaded[path] = Loaded(load_handler(path), _files_of(path), at)
        return _loaded[path].handler


async def handler_of(agent: Agent) -> SkillHandler:
    """The agent's handler. Raises agentkit.HandlerError."""
    return (await load(agent)).handler


async def load(agent: Agent) -> Loaded:
    """The agent's handler, imported in a thread because that may take seconds. Raises agentkit.HandlerError."""
    if agent.handler not in _loaded:
        await asyncio.to_thread(handler_at, agent.handler)
    elif settings.EMBEDDED:
        saved = vars(agent).get("updated_at")  # not where a query left it out
        if saved is not None and saved > _loaded[agent.handler].at:
            await asyncio.to_thread(_reload, agent.handler)
    return _loaded[agent.handler]


def forget() -> None:
    """For tests: load all handlers again."""
    _loaded.clear()


def _reload(path: str) -> None:
    """Load the handler again if files of its package changed. What cannot be loaded leaves the old one."""
    with _loading:
        known, now, files = _loaded[path], timezone.now(), _files_of(path)
        known.at = now
        is_same = all(files.get(file) == about for file, about in known.files.items())
        if is_same or _package_of(path) in HOUSE:
            known.files = files  # with modules that were imported since
            return
        kept = _modules_of(path)
        for name in kept:
            del sys.modules[name]
        for file in files:
            with suppress(OSError, NotImplementedError):  # its time is in whole seconds
                Path(cache_from_source(file)).unlink()
        importlib.invalidate_caches()
        try:
            loaded = Loaded(load_handler(path), _files_of(path), now)
        except Exception as error:
            sys.modules.update(kept)
            log.warning("the changed code of %s cannot be loaded, so the old one stays: %s", path, error)
            return
        _loaded[path] = loaded
        log.info("%s was loaded again, because its code changed", path)


def _package_of(path: str) -> str:
    return path.partition(":")[0].partition(".")[0]


def _modules_of(path: str) -> dict[str, ModuleType]:
    """The imported modules of the handler's package."""
    package = _package_of(path)
    return {name: found for name, found in list(sys.modules.items()) if name.partition(".")[0] == package}


def _files_of(path: str) -> Files:
    found: Files = {}
    for module in _modules_of(path).values():
        file = getattr(module, "__file__", None)
        if file and file.endswith(".py"):
            with suppress(OSError):
                about = Path(file).stat()
                found[file] = about.st_mtime_ns, about.st_size
    return found


@cache
def handler_threads() -> HandlerThreads:
    return HandlerThreads(settings.HANDLER_THREADS)


class HandlerThreads:
    """A pool of threads for handlers.

    A thread cannot be killed. If a stopped handler does not end, its thread is lost until it does.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.pool = ConnectionlessThreads(count, thread_name_prefix="handler")
        self.lost: set[Future[Any]] = set()

    def lose(self, call: Future[Any], agent: Agent) -> None:
        """Count the thread of a call as lost until the call ends."""
        self.lost.add(call)
        call.add_done_callback(self.lost.discard)
        log.warning("agent %s was stopped and does not end; it holds a thread until it does", agent.slug)
        if len(self.lost) >= self.count:
            log.error(
                "all %d threads for handlers are held by agents that do not end; until one does, or this process "
                "is restarted, it takes no turn that needs a thread",
                self.count,
            )


@dataclass
class ThreadLoan(Executor):
    """The threads that one call of a handler uses."""

    calls: list[Future[Any]] = field(default_factory=list)

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        call = handler_threads().pool.submit(fn, *args, **kwargs)  # type: ignore[no-untyped-call]
        self.calls.append(call)
        return call


class ConnectionlessThreads(ThreadPoolExecutor):
    """Threads that close their database connections after each call."""

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        def call():  # type: ignore[no-untyped-def]
            try:
                return fn(*args, **kwargs)
            finally:
                connections.close_all()

        return super().submit(call)


def can_run(agent: Agent, *, answers_slot: bool = False, skill: str | None = None) -> bool:
    """Does this process have the threads for a turn of the agent?"""
    threads = handler_threads()
    if agent.kind != Agent.Kind.HOSTED or len(threads.lost) < threads.count:
        return True
    try:
        return not needs_thread(handler_at(agent.handler), answers_slot=answers_slot, skill=skill)
    except HandlerError:
        return True  # the turn fails with the error


@dataclass(frozen=True, slots=True)
class Impairment:
    """Why an agent works, but not well; examiners of health return it."""

    reason: str


def health_problem(agent: Agent) -> str:
    """Why the agent's handler cannot work here, as a sentence for operators, or ""."""
    try:
        with contained():
            return handler_at(agent.handler).ailment()
    except HandlerError as error:
        is_missing = isinstance(error.__cause__, ModuleNotFoundError)
        return f"{error} Then restart Parley." if is_missing else str(error)
    except Exception as error:
        return f"The handler {agent.handler!r} could not say whether it can work: {error!r}"


async def execute(assignment: Assignment, task: TaskContext, _: ReleaseSlot) -> Outcome:
    """Let the agent's handler take one turn. Its exceptions pass through; the caller contains them."""
    return await _call(drive, assignment.agent, task)


async def decide_skill(agent: Agent, message: Message) -> Decision:
    with contained():
        return await _call(agentkit.decide, agent, message)


async def select_response_type(agent: Agent, message: Message, task: ExistingTask | None) -> ResponseType:
    with contained():
        return await _call(runner.select_response_type, agent, message, task)


async def answer(agent: Agent, message: Message, **arguments: Any) -> Answer:
    """Let the agent's handler answer with a message; `arguments` as in `agentkit.answer`."""
    with contained():
        return await _call(agentkit.answer, agent, message, **arguments)


def search_of(agent: Agent, project: uuid.UUID | None, find_principal: Callable[[], Principal]) -> Search:
    """What `task.search` asks, for an agent in a session of this project. `find_principal`: who asks; it may query."""
    search = added.get("knowledge_search")
    if search is None:
        return search_nothing

    async def find(query: str, limit: int) -> list[Passage]:
        principal = await db.run(find_principal)
        found: list[Passage] = await search(principal, agent.pk, project, query, limit)
        return found

    return find


async def _call[T](method: Callable[..., Awaitable[T]], agent: Agent, *arguments: Any, **named: Any) -> T:
    """Call `agentkit` with the agent's handler. Threads still running afterwards are lost."""
    loan, loop = ThreadLoan(), asyncio.get_running_loop()
    if loop.get_task_factory() is None:
        loop.set_task_factory(_contained_task)
    inside = _in_agent.set(True)
    try:
        return await method((await load(agent)).handler, *arguments, executor=loan, **named)
    finally:
        _in_agent.reset(inside)
        for call in loan.calls:
            if call.running():
                handler_threads().lose(call, agent)


_in_agent: ContextVar[bool] = ContextVar("_in_agent", default=False)


def _contained_task(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
) -> asyncio.Task[Any]:
    """A task; one that an agent's code starts cannot end the event loop."""
    return asyncio.Task(_contained(work) if _in_agent.get() else work, loop=loop, **options)


async def _contained[T](work: Coroutine[Any, Any, T]) -> T:
    with contained():
        return await work


MAX_INTERRUPTS = 3
DEAD_SECONDS = 120.0  # that a loop does not answer before its process is replaced
BLOCKED_CHECKS = 10  # checks in a row with the same task; a single one may only mean a busy processor


class Blocked(HostSignal):
    """Raised in a handler that blocks the event loop."""


class LoopWatchdog:
    """Interrupts handlers that block the event loop of `thread`.

    Attributes:
        is_stuck: nothing ends the handler, or the loop has ended; other processes should take this one's runs.
        on_dead: called once the loop has not answered for DEAD_SECONDS.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, thread: threading.Thread, on_dead: Callable[[], object]
    ) -> None:
        self._loop = loop
        self._watched = thread
        self._on_dead = on_dead
        self.is_stuck = False
        self._beats = 0
        self._ended = threading.Event()
        threading.Thread(target=self._watch, name="guard", daemon=True).start()

    def close(self) -> None:
        self._ended.set()

    def _beat(self) -> None:
        self._beats += 1

    def _watch(self) -> None:
        seen: asyncio.Task[object] | None = None
        blocked_checks, interrupts, beats, silent_checks = 0, 0, -1, 0
        between = settings.BLOCKED_SECONDS / BLOCKED_CHECKS
        while not self._ended.wait(between):
            now = asyncio.current_task(self._loop)
            if self._beats != beats:
                silent_checks = 0
            elif (silent_checks := silent_checks + 1) * between >= DEAD_SECONDS:  # a frozen process checks nothing
                self._on_dead()
                return
            self.is_stuck = self.is_stuck or not self._watched.is_alive()
            if self._beats != beats:
                beats, blocked_checks, interrupts, self.is_stuck = self._beats, 0, 0, False
                try:
                    self._loop.call_soon_threadsafe(self._beat)
                except RuntimeError:
                    return
            elif now is None or now is not seen:
                blocked_checks = 0
            elif (blocked_checks := blocked_checks + 1) >= BLOCKED_CHECKS:
                blocked_checks, interrupts = 0, interrupts + 1
                self.is_stuck = interrupts > MAX_INTERRUPTS
                log.error("agent %s computes and awaits nothing; it is ended, for all others wait", _agent_slug(now))
                interrupt(self._watched.ident or 0, Blocked)
            seen = now


def _agent_slug(task: asyncio.Task[object]) -> str:
    return next((str(value) for name, value in task.get_context().items() if name.name == "structlog_agent"), "?")


def log_error(agent: Agent, error: BaseException, what: str = "failed", whole: str = "") -> None:
    """Log an error of an agent's code without its text, which may quote anything that the agent knows.

    `whole`: the traceback with texts, for a console of the agent's author; by default it is made of the error.
    """
    kind, stack = logs.describe(error, texts="none"), logs.stack_of(error, texts="none")
    whole = whole or "".join(traceback.format_exception(error))
    extra = {"exception": stack, logs.RAISED: error, logs.WHOLE: whole}
    log.error("agent %s %s: %s", agent.slug, what, kind, extra=extra)


printed_log = logging.getLogger("parley.agents")

MAX_PRINTED_LINES = 100
MAX_LINE_LENGTH = 1000  # characters
MAX_BUFFERED = MAX_LINE_LENGTH + 10_000  # searched for secrets


@dataclass
class TurnOutput:
    """A turn's printed lines, for the log. `redact` removes secrets."""

    redact: Callable[[str], str]
    lines: int = 0
    line: str = ""

    def write(self, text: str) -> None:
        *whole, rest = text.split("\n")
        for line in whole:
            self._end_line(line)
        self.line = (self.line + rest)[:MAX_BUFFERED]

    def close(self) -> None:
        if self.line:
            self._end_line("")
        if self.lines > MAX_PRINTED_LINES:
            printed_log.warning("the agent printed %d more lines, which are not kept", self.lines - MAX_PRINTED_LINES)

    def _end_line(self, end: str) -> None:
        line, self.line = (
            self.redact((self.line + end)[:MAX_BUFFERED]),
            "",
        )  # cut after redaction, so that secrets are whole
        self.lines += 1
        if self.lines <= MAX_PRINTED_LINES:
            printed_log.info("printed: %s", line if len(line) <= MAX_LINE_LENGTH else f"{line[:MAX_LINE_LENGTH]}…")


turn_output: ContextVar[TurnOutput | None] = ContextVar("turn_output", default=None)
"""Set in the task of a turn; the tasks and threads that the turn starts inherit it."""


class StdoutByTurn(io.TextIOBase):
    """Standard output that goes to the printing turn's `turn_output`, or else to the usual output."""

    def __init__(self, usual: Any) -> None:
        self.usual = usual

    def write(self, text: str) -> int:
        if (printed := turn_output.get()) is not None:
            printed.write(text)
            return len(text)
        return int(self.usual.write(text))

    def flush(self) -> None:
        if turn_output.get() is None:
            self.usual.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.usual, name)


def capture_stdout() -> None:
    if not isinstance(sys.stdout, StdoutByTurn):
        sys.stdout = StdoutByTurn(sys.stdout)


def restore_stdout() -> None:
    if isinstance(sys.stdout, StdoutByTurn):
        sys.stdout = sys.stdout.usual
