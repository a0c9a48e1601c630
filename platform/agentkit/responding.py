"""Asking a handler how it answers a message: by a task, or at once by a message."""

import asyncio
import contextvars
import inspect
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from agentkit.errors import HandlerError
from agentkit.handlers import SkillHandler
from agentkit.messages import Message
from agentkit.negotiation import is_async
from agentkit.selecting import Always, ExistingTask, ResponseType, by_rules


def constant(handler: SkillHandler) -> ResponseType | None:
    """The choice of a handler that chooses the same for each message; None for another."""
    selector = _selector(handler)
    if isinstance(selector, Always):
        return selector.choice
    return None if callable(selector) else _checked(selector)


def asks_for_task(handler: SkillHandler) -> bool:
    """Does its selector want to know the newest task of the conversation?"""
    selector = _selector(handler)
    return callable(selector) and not isinstance(selector, Always | by_rules) and _positions(selector) > 1


async def select(
    handler: SkillHandler, message: Message, task: ExistingTask | None = None, *, executor: Executor | None = None
) -> ResponseType:
    """What the handler chooses for a message. What is not async runs in a thread, of `executor` if given.

    Raises:
        HandlerError: it chose nothing that there is. What its selector raises passes through.
    """
    selector = _selector(handler)
    if not callable(selector):
        return _checked(selector)
    arguments = (message, task)[: _positions(selector)]
    choice: Any
    if isinstance(selector, Always | by_rules) or is_async(selector):
        choice = selector(*arguments)
    else:
        call = contextvars.copy_context().run
        choice = await asyncio.get_running_loop().run_in_executor(executor, call, selector, *arguments)
    return _checked(await choice if inspect.isawaitable(choice) else choice)


def _selector(handler: SkillHandler) -> Callable[..., Any] | object:
    """What chooses: the `select_response_type` that was defined, or what `response_type` is."""
    if type(handler).select_response_type is not SkillHandler.select_response_type:
        return handler.select_response_type
    return handler.selector


def _checked(choice: object) -> ResponseType:
    try:
        return ResponseType(choice)
    except ValueError:
        raise HandlerError(f'A response type is "task" or "message"; this is {choice!r}.') from None


def _positions(selector: Callable[..., Any]) -> int:
    """How many arguments it takes: a selector may do without the task."""
    parameters = inspect.signature(selector).parameters.values()
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return 2
    return sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters)
