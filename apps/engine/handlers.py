"""Hosted agents' handlers: loaded once a process, run on the event loop or in threads, and kept from harming others.

A watchdog ends a handler that keeps the event loop to itself, and what handlers print goes to the log.
"""

from __future__ import annotations

import asyncio
import io
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from django.conf import settings
from django.db import connections

import agentkit
from agentkit import (
    Answer,
    Decision,
    ExistingTask,
    HandlerError,
    Message,
    Outcome,
    ResponseType,
    SkillHandler,
    TaskContext,
    drive,
    load_handler,
    needs_thread,
    runner,
)
from agentkit.runner import interrupt
from apps.agents.models import Agent
from apps.engine.assignment import Assignment, ReleaseSlot

log = logging.getLogger("parley.engine")


@cache
def handler_at(path: str) -> SkillHandler:
    """The handler of a dotted path. Raises agentkit.HandlerError."""
    return load_handler(path)


_imported: set[str] = set()


async def handler_of(agent: Agent) -> SkillHandler:
    """The agent's handler, imported in a thread: an author's module may take seconds. Raises agentkit.HandlerError."""
    if agent.handler not in _imported:
        await asyncio.to_thread(handler_at, agent.handler)
        _imported.add(agent.handler)
    return handler_at(agent.handler)


@cache
def handler_threads() -> HandlerThreads:
    """Where handlers that are not async run."""
    return HandlerThreads(settings.HANDLER_THREADS)


class HandlerThreads:
    """The threads of a process for handlers that are not async.

    A thread cannot be ended from outside: one whose handler was stopped and does not end is lost until it does.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool = ConnectionlessThreads(count, thread_name_prefix="handler")
        self._lost: set[Future[Any]] = set()

    @property
    def are_lost(self) -> bool:
        """Is not one of them left?"""
        return len(self._lost) >= self._count

    @contextmanager
    def lent_to(self, agent: Agent) -> Iterator[Executor]:
        """Threads for one turn; those that do not come back with its end are lost."""
        loan = ThreadLoan(self._pool)
        try:
            yield loan
        finally:
            for call in loan.calls:
                if call.running():
                    self._lose(call, agent)

    def _lose(self, call: Future[Any], agent: Agent) -> None:
        self._lost.add(call)
        call.add_done_callback(self._lost.discard)
        log.warning("agent %s was stopped and does not end; it holds a thread until it does", agent.slug)
        if self.are_lost:
            log.error(
                "all %d threads for handlers are held by agents that do not end; until one does, or this process "
                "is restarted, it takes no turn that needs a thread",
                self._count,
            )


class ThreadLoan(Executor):
    """The threads that one turn uses, and what it has them do."""

    def __init__(self, pool: Executor) -> None:
        self.calls: list[Future[Any]] = []
        self._pool = pool

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        call = self._pool.submit(fn, *args, **kwargs)
        self.calls.append(call)
        return call


class ConnectionlessThreads(ThreadPoolExecutor):
    """Threads that keep no database connection from one handler to the next."""

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        def call():  # type: ignore[no-untyped-def]
            try:
                return fn(*args, **kwargs)
            finally:
                connections.close_all()

        return super().submit(call)


def can_run(agent: Agent, *, answers_slot: bool = False, skill: str | None = None) -> bool:
    """Has this process what a turn of the agent needs? Where it has not, another may."""
    if agent.kind != Agent.Kind.HOSTED or not handler_threads().are_lost:
        return True
    try:
        return not needs_thread(handler_at(agent.handler), answers_slot=answers_slot, skill=skill)
    except HandlerError:
        return True  # to be told in the turn


def ailment_of(agent: Agent) -> str:
    """Why the agent's handler cannot work here, as a sentence for operators; "" where it can."""
    try:
        return handler_at(agent.handler).ailment()
    except HandlerError as error:
        return str(error)
    except Exception as error:
        return f"The handler {agent.handler!r} could not say whether it can work: {error!r}"


async def execute(assignment: Assignment, task: TaskContext, _: ReleaseSlot) -> Outcome:
    """Let the agent's handler take one turn. What the handler raises passes through."""
    agent = assignment.agent
    with handler_threads().lent_to(agent) as threads:
        return await drive(await handler_of(agent), task, executor=threads)


async def decide_skill(agent: Agent, message: Message) -> Decision:
    """Let the agent's handler choose a skill for a message. What the handler raises passes through."""
    with handler_threads().lent_to(agent) as threads:
        return await agentkit.decide(await handler_of(agent), message, executor=threads)


async def select_response_type(agent: Agent, message: Message, task: ExistingTask | None) -> ResponseType:
    """Let the agent's handler choose how the message is answered. What the handler raises passes through."""
    with handler_threads().lent_to(agent) as threads:
        return await runner.select_response_type(await handler_of(agent), message, task, executor=threads)


async def answer(agent: Agent, message: Message, **given: Any) -> Answer:
    """Let the agent's handler answer with a message, `given` what `agentkit.answer` takes besides.

    What the handler raises passes through.
    """
    with handler_threads().lent_to(agent) as threads:
        return await agentkit.answer(await handler_of(agent), message, executor=threads, **given)


MAX_INTERRUPTS = 3  # after which nothing more is to be hoped for
BLOCKED_CHECKS = 10  # how often the same task must be seen at it; a process that only gets no time is not blocked


class Blocked(BaseException):
    """Raised in a handler that has kept the event loop to itself. No `Exception`: `except Exception` lets it pass."""


class LoopWatchdog:
    """Watches the loop that `thread` runs.

    Attributes:
        is_stuck: a handler lets nothing end it: this process had better leave its runs to others.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
        self._loop = loop
        self._watched = thread
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
        looks, tries, beats = 0, 0, -1
        while not self._ended.wait(settings.BLOCKED_SECONDS / BLOCKED_CHECKS):
            now = asyncio.current_task(self._loop)
            if self._beats != beats:  # it answered: ask again
                beats, looks, tries, self.is_stuck = self._beats, 0, 0, False
                self._ask()
            elif now is None or now is not seen:
                looks = 0
            elif (looks := looks + 1) >= BLOCKED_CHECKS:
                looks, tries = 0, tries + 1
                self.is_stuck = tries > MAX_INTERRUPTS
                log.error("agent %s computes and awaits nothing; it is ended, for all others wait", _agent_slug(now))
                interrupt(self._watched.ident or 0, Blocked)
            seen = now

    def _ask(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._beat)
        except RuntimeError:  # the loop has ended
            self._ended.set()


def _agent_slug(task: asyncio.Task[object]) -> str:
    """The agent's slug, which is bound to its task for the lines of the log."""
    return next((str(value) for name, value in task.get_context().items() if name.name == "structlog_agent"), "?")


printed_log = logging.getLogger("parley.agents")

MAX_PRINTED_LINES = 100  # of one turn
MAX_LINE_LENGTH = 1000  # characters of one line
MAX_BUFFERED = MAX_LINE_LENGTH + 10_000  # characters of one line that are searched for secrets

_turn_output: ContextVar[TurnOutput | None] = ContextVar("printed", default=None)


class TurnOutput:
    """What one turn prints; `redact` keeps what the turn was lent out of the log."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self.lines = 0
        self._redact = redact
        self._line = ""

    def write(self, text: str) -> None:
        *whole, rest = text.split("\n")
        for line in whole:
            self._end_line(line)
        self._line = (self._line + rest)[:MAX_BUFFERED]

    def close(self) -> None:
        if self._line:
            self._end_line("")
        if self.lines > MAX_PRINTED_LINES:
            printed_log.warning("the agent printed %d more lines, which are not kept", self.lines - MAX_PRINTED_LINES)

    def _end_line(self, end: str) -> None:
        line, self._line = self._redact((self._line + end)[:MAX_BUFFERED]), ""  # whole secrets: it is cut afterwards
        self.lines += 1
        if self.lines <= MAX_PRINTED_LINES:
            printed_log.info("printed: %s", line if len(line) <= MAX_LINE_LENGTH else f"{line[:MAX_LINE_LENGTH]}…")


class StdoutByTurn(io.TextIOBase):
    """Standard output of a process that runs agents: whatever a turn does not print goes where it went before."""

    def __init__(self, usual: Any) -> None:
        self.usual = usual

    def write(self, text: str) -> int:
        if (printed := _turn_output.get()) is not None:
            printed.write(text)
            return len(text)
        return int(self.usual.write(text))

    def flush(self) -> None:
        if _turn_output.get() is None:
            self.usual.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.usual, name)


def capture_stdout() -> None:
    """Have this process's standard output told apart by turns."""
    if not isinstance(sys.stdout, StdoutByTurn):
        sys.stdout = StdoutByTurn(sys.stdout)


def restore_stdout() -> None:
    if isinstance(sys.stdout, StdoutByTurn):
        sys.stdout = sys.stdout.usual


@contextmanager
def turn_stdout(redact: Callable[[str], str]) -> Iterator[None]:
    """What is printed in this block, and in the threads and tasks that are begun in it, is this turn's."""
    printed = TurnOutput(redact)
    token = _turn_output.set(printed)
    try:
        yield
    finally:
        _turn_output.reset(token)
        printed.close()
