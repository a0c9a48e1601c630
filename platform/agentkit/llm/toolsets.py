"""A worker's tools for the model library: functions, agents and MCP servers.

It imports the model library: import it late.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import json
import logging
import typing
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pydantic_core
from pydantic_ai import RunContext, Tool, ToolFailed
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry
from pydantic_ai.messages import BinaryContent, ToolReturn
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import FunctionToolset, ToolsetTool, WrapperToolset

from agentkit.content.messages import Message
from agentkit.context import SyncTaskContext, TaskContext
from agentkit.llm import approvals
from agentkit.llm.approvals import Gate
from agentkit.llm.conversations import Spotlight, call_key, recordable, words_of
from agentkit.llm.models import import_in_thread, surroundings
from agentkit.llm.tools import AgentTool, McpServer
from agentkit.llm.tools import Tool as AnyTool
from agentkit.runner import contained
from agentkit.tools import ToolFunction, ToolKind, ToolTraits, traits_of


def functions_and_agents(tools: Sequence[AnyTool]) -> list[BoundedToolset]:
    functions = [one for one in tools if not isinstance(one, McpServer | AgentTool)]
    agents = [_agent_tool(one) for one in tools if isinstance(one, AgentTool)]
    traits = {(known := traits_of(one)).name: known for one in functions}
    made = []
    if functions:
        made.append(BoundedToolset(FunctionToolset(list(map(function_tool, functions))), ToolKind.FUNCTION, traits))
    if agents:
        made.append(BoundedToolset(FunctionToolset(agents), ToolKind.AGENT))
    return made


@asynccontextmanager
async def connected(tools: Sequence[AnyTool], apps: dict[str, dict[str, Any]]) -> AsyncIterator[list[BoundedToolset]]:
    """MCP servers' tools, for one run. Raises AgentFailure if a server cannot be used. `apps`: see `connect`."""
    servers = [one for one in tools if isinstance(one, McpServer)]
    if not servers:
        yield []
        return
    await import_in_thread("agentkit.llm.mcp_servers")
    from agentkit.llm.mcp_servers import connect

    async with AsyncExitStack() as stack:
        yield [BoundedToolset(await connect(server, stack, apps), ToolKind.MCP) for server in servers]


def _agent_tool(tool: AgentTool) -> Tool[TaskContext]:
    async def ask(ctx: RunContext[TaskContext], message: str, files: Sequence[str] = ()) -> str:
        """Ask the agent.

        Args:
            message: all that the agent must know: it does not see the conversation.
            files: names of files of the conversation that it needs.
        """
        there = {file.name: file for file in ctx.deps.all_files}
        if missing := [name for name in files if name not in there]:
            raise ModelRetry(f"No file is named {missing[0]!r}. There are: {', '.join(there) or 'none'}.")
        result = await ctx.deps.call(tool.slug, [message, *(there[name] for name in files)])
        return await asyncio.to_thread(_child_answer, result)

    return Tool(ask, takes_ctx=True, name=tool.name, description=tool.description)


def _child_answer(result: Any) -> str:
    delivered = []
    for artifact in result.artifacts:
        load = artifact.files[0].load if artifact.files else None
        content = words_of(Message.from_wire({"parts": artifact.parts}, load))
        if content != result.text:
            delivered.append(f"{artifact.name}:\n{content}" if artifact.name else content)
    return "\n\n".join([result.text, *delivered])


MAX_ERROR_LENGTH = 1000  # characters
MAX_RESULT_LENGTH = 100_000  # characters

logger = logging.getLogger(__name__)


def function_tool(function: ToolFunction) -> Tool[TaskContext]:
    """A function as a tool. A parameter annotated `TaskContext` (`SyncTaskContext`) receives the current task."""
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
    # The library takes parameters' descriptions from the docstring.
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
class BoundedToolset(WrapperToolset[TaskContext]):
    """Tools of one kind, whose errors go to the model and whose results are limited in length."""

    kind: ToolKind
    traits: Mapping[str, ToolTraits] = field(default_factory=dict)

    def is_outside(self, name: str) -> bool:
        """Do the results of this tool come from outside?"""
        return self.kind != ToolKind.FUNCTION or self.traits[name].from_outside

    @property
    def has_outside(self) -> bool:
        return self.kind != ToolKind.FUNCTION or any(one.from_outside for one in self.traits.values())

    async def effect(self, name: str, tool_args: Mapping[str, Any], task: TaskContext) -> str:
        """What the call would do, in its author's words; "" without a preview. Raises ToolFailed."""
        traits = self.traits.get(name)
        if traits is None or traits.preview is None:
            return ""
        try:
            with contained():
                return _cut(await traits.preview(task, **tool_args), approvals.MAX_EFFECT)
        except Exception as error:
            raise _failure(name, error) from error

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[TaskContext], tool: ToolsetTool[TaskContext]
    ) -> Any:
        try:
            with contained():
                return bounded_result(await super().call_tool(name, tool_args, ctx, tool))
        except (CallDeferred, ApprovalRequired):
            raise
        except (ModelRetry, ToolFailed) as told:
            raise type(told)(_cut(told.message, MAX_ERROR_LENGTH)) from told
        except Exception as error:
            raise _failure(name, error) from error


def _failure(name: str, error: Exception) -> ToolFailed:
    logger.warning("the tool %s failed", name, exc_info=error)
    return ToolFailed(_cut(f"{type(error).__name__}: {error}", MAX_ERROR_LENGTH))


@dataclass
class GatedToolset(WrapperToolset[TaskContext]):
    """Tools that run only as their policies say. Results from outside are marked as data."""

    wrapped: BoundedToolset
    gate: Gate
    spotlight: Spotlight

    async def get_tools(self, ctx: RunContext[TaskContext]) -> dict[str, ToolsetTool[TaskContext]]:
        """The tools; the gate learns their kinds."""
        tools = await super().get_tools(ctx)
        for name in tools:
            traits = self.wrapped.traits.get(name)
            self.gate.known[name] = self.wrapped.kind, traits is not None and traits.needs_approval
        return tools

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[TaskContext], tool: ToolsetTool[TaskContext]
    ) -> Any:
        key = call_key(self.gate, ctx.messages, ctx.tool_call_id or "")
        if await self.gate.policy(name) == "never":
            raise ToolFailed(approvals.FORBIDDEN.format(name))
        needed, decision = await self.gate.open_decision(key, name)
        if needed:
            about = {"key": key, "tool": name, "kind": self.wrapped.kind.value, "needs": needed}
            about["each"] = await self.gate.policy(name) == "ask_each"
            if effect := await self.wrapped.effect(name, tool_args, ctx.deps):
                about["effect"] = effect
            raise ApprovalRequired(about | _described(tool.tool_def))
        if decision is not None and not decision["approved"]:
            raise ToolFailed(approvals.refusal(decision))
        is_outside = self.wrapped.is_outside(name)
        try:
            if decision is None or self.wrapped.kind == ToolKind.AGENT:  # an agent's task is found again
                value = await super().call_tool(name, tool_args, ctx, tool)
            else:
                value = await self._call_once(key, name, tool_args, ctx, tool)
        except (ModelRetry, ToolFailed) as failed:
            raise (type(failed)(self.spotlight.marked(failed.message, name)) if is_outside else failed) from failed
        return self.spotlight.marked_result(value, name) if is_outside else value

    async def _call_once(
        self,
        key: str,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[TaskContext],
        tool: ToolsetTool[TaskContext],
    ) -> Any:
        """An approved call, which begins only once, whatever happens to the turn."""
        told = pydantic_core.to_jsonable_python(tool_args, fallback=str)
        earlier = await ctx.deps.approvals.begin(key, name, told)
        if earlier is not None:
            value, is_error = earlier
            if is_error:
                raise ToolFailed(str(value))
            return value
        try:
            value = await super().call_tool(name, tool_args, ctx, tool)
        except (ModelRetry, ToolFailed) as failed:
            await ctx.deps.tool_result(key, name, failed.message, is_error=True)
            raise
        app = self.gate.apps.pop(ctx.tool_call_id or "", None)
        await ctx.deps.tool_result(key, name, recordable(value), app=app)
        return value


def _described(tool: ToolDefinition) -> dict[str, Any]:
    """What people read about a tool before they approve a call of it. An MCP server's words are its own."""
    annotations = (tool.metadata or {}).get("annotations") or {}
    title = annotations.get("title") if isinstance(annotations, dict) else None
    first, _, _ = (tool.description or "").strip().partition("\n\n")
    words = {"title": title if isinstance(title, str) else "", "description": " ".join(first.split())}
    return {"schema": tool.parameters_json_schema} | {name: one[: approvals.MAX_WHY] for name, one in words.items()}


def bounded_result(value: Any) -> Any:
    """A tool's result as JSON values, or as text if it is too long."""
    if isinstance(value, ToolReturn | BinaryContent):
        return value
    if isinstance(value, list) and any(isinstance(one, BinaryContent) for one in value):
        return value
    plain = value if isinstance(value, str) else pydantic_core.to_jsonable_python(value, fallback=str)
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    return plain if len(text) <= MAX_RESULT_LENGTH else _cut(text, MAX_RESULT_LENGTH)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} [the first {most} of {len(text)} characters]"
