"""Hosted agents: their handlers, loaded once a process, and the threads of those that are not async."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache

from django.conf import settings
from django.db import connections

from agentkit import Outcome, SkillHandler, TaskContext, drive, load_handler
from apps.agents.models import Agent


@cache
def handler_at(path: str) -> SkillHandler:
    """The handler of a dotted path. Raises agentkit.HandlerError."""
    return load_handler(path)


@cache
def handler_threads() -> ThreadPoolExecutor:
    """Where handlers that are not async run."""
    return HandlerThreads(settings.HANDLER_THREADS, thread_name_prefix="handler")


class HandlerThreads(ThreadPoolExecutor):
    """Threads that keep no database connection from one handler to the next."""

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        def call():  # type: ignore[no-untyped-def]
            try:
                return fn(*args, **kwargs)
            finally:
                connections.close_all()

        return super().submit(call)


async def execute(agent: Agent, task: TaskContext) -> Outcome:
    """Let the agent's handler take one turn. What the handler raises passes through."""
    return await drive(handler_at(agent.handler), task, executor=handler_threads())
