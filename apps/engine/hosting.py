"""Hosted agents: their handlers, loaded once a process, and the threads of those that are not async."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
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
    responding,
)
from apps.agents.models import Agent
from apps.engine.assignments import Aside, Assignment

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
        loan = Loan(self._pool)
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


class Loan(Executor):
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


def can_take(agent: Agent, *, answers_slot: bool = False, skill: str | None = None) -> bool:
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


async def execute(assignment: Assignment, task: TaskContext, _: Aside) -> Outcome:
    """Let the agent's handler take one turn. What the handler raises passes through."""
    agent = assignment.agent
    with handler_threads().lent_to(agent) as threads:
        return await drive(await handler_of(agent), task, executor=threads)


async def decide(agent: Agent, message: Message) -> Decision:
    """Let the agent's handler choose a skill for a message. What the handler raises passes through."""
    with handler_threads().lent_to(agent) as threads:
        return await agentkit.decide(await handler_of(agent), message, executor=threads)


async def select(agent: Agent, message: Message, task: ExistingTask | None) -> ResponseType:
    """Let the agent's handler choose how the message is answered. What the handler raises passes through."""
    with handler_threads().lent_to(agent) as threads:
        return await responding.select(await handler_of(agent), message, task, executor=threads)


async def answer(agent: Agent, message: Message, **given: Any) -> Answer:
    """Let the agent's handler answer with a message, `given` what `agentkit.answer` takes besides.

    What the handler raises passes through.
    """
    with handler_threads().lent_to(agent) as threads:
        return await agentkit.answer(await handler_of(agent), message, executor=threads, **given)
