"""Python functions as tools: their schema, the thread or loop they run on, the bounds of what they give.

This module imports the model library: import it late.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import json
import logging
import typing
from dataclasses import dataclass
from typing import Any

import pydantic_core
from pydantic_ai import RunContext, Tool, ToolFailed
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry
from pydantic_ai.messages import BinaryContent, ToolReturn
from pydantic_ai.toolsets import ToolsetTool, WrapperToolset

from agentkit.context import SyncTaskContext, TaskContext
from agentkit.llm.surroundings import surroundings
from agentkit.tools import ToolFunction, traits_of

ERROR = 1000  # characters of an error that a model is told
RESULT = 100_000  # characters of a result that a model is given

logger = logging.getLogger(__name__)


def function_tool(function: ToolFunction) -> Tool[TaskContext]:
    """A function as a tool. A parameter annotated `TaskContext` (`SyncTaskContext`) is given the task at hand."""
    traits = traits_of(function)
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters.values()
    given_task = [one.name for one in parameters if hints.get(one.name) in (TaskContext, SyncTaskContext)]
    is_async = inspect.iscoroutinefunction(function)

    async def call(ctx: RunContext[TaskContext], /, *args: Any, **kwargs: Any) -> Any:
        run = _on_loop if is_async else _in_thread
        return await run(functools.partial(function, *args, **kwargs), given_task, ctx.deps)

    first = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_ONLY, annotation=RunContext[TaskContext])
    others = [one for one in parameters if one.name not in given_task]
    call.__signature__ = inspect.Signature([first, *others])  # type: ignore[attr-defined]
    call.__annotations__ = {"ctx": RunContext[TaskContext]} | {
        name: hint for name, hint in hints.items() if name not in given_task
    }
    call.__name__, call.__doc__ = traits.name, function.__doc__
    # Where the docstring is the description, the library takes it apart: what is said of parameters goes to them.
    is_docstring = traits.description == inspect.cleandoc(function.__doc__ or "")
    return Tool(call, takes_ctx=True, name=traits.name, description=None if is_docstring else traits.description)


async def _on_loop(call: functools.partial[Any], given_task: list[str], task: TaskContext) -> Any:
    return await call(**dict.fromkeys(given_task, task))


async def _in_thread(call: functools.partial[Any], given_task: list[str], task: TaskContext) -> Any:
    loop = asyncio.get_running_loop()
    face = SyncTaskContext.over(task, loop)
    context = contextvars.copy_context()
    work = functools.partial(context.run, call, **dict.fromkeys(given_task, face))
    try:
        value = await loop.run_in_executor(surroundings().threads, work)
    except asyncio.CancelledError:
        face.release()
        raise
    return await value if inspect.isawaitable(value) else value


@dataclass
class Bounded(WrapperToolset[TaskContext]):
    """Tools whose errors go back to the model, and that give it no more than it can read."""

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[TaskContext], tool: ToolsetTool[TaskContext]
    ) -> Any:
        try:
            return bounded(await super().call_tool(name, tool_args, ctx, tool))
        except (CallDeferred, ApprovalRequired):
            raise
        except (ModelRetry, ToolFailed) as told:
            raise type(told)(_cut(told.message, ERROR)) from told
        except Exception as error:
            logger.warning("the tool %s failed", name, exc_info=error)
            raise ToolFailed(_cut(f"{type(error).__name__}: {error}", ERROR)) from error


def bounded(value: Any) -> Any:
    """What a tool gave, as JSON values; as text where it is too long."""
    if isinstance(value, ToolReturn | BinaryContent):
        return value
    if isinstance(value, list) and any(isinstance(one, BinaryContent) for one in value):
        return value
    plain = value if isinstance(value, str) else pydantic_core.to_jsonable_python(value, fallback=str)
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    return plain if len(text) <= RESULT else _cut(text, RESULT)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} [the first {most} of {len(text)} characters]"
