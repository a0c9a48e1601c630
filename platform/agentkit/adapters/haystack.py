"""An agent or a pipeline of Haystack: `from agentkit.adapters.haystack import serve; serve(agent)`.

An agent's text streams, its tool calls are tool calls, and its messages are kept in the conversation's memory. With
`retry_safe=True`, a turn of it that starts again repeats no finished tool call. The components of a pipeline are
progress as they end. A pipeline takes the message's data as its input; a text goes to the open inputs that are named in
TEXTS, and the conversation to those named `messages`.
"""

from __future__ import annotations

import base64
from contextlib import aclosing
from copy import copy
from functools import partial, update_wrapper
from typing import Any, Unpack

from haystack import Pipeline
from haystack.components.agents import Agent
from haystack.dataclasses import ChatMessage, FileContent, ImageContent, StreamingChunk
from haystack.tools import Tool, Toolset

from agentkit.adapters import FinishedCalls, arguments_of, ended, keep, plain, serving, words_of
from agentkit.content.emissions import Thought, Token, ToolCall, ToolResult
from agentkit.content.messages import File, Message
from agentkit.context import TaskContext
from agentkit.handlers import SkillHandler, Traits
from agentkit.outcomes import Completed, Failed, Outcome

KEPT = "haystack"
"""The key of a conversation's memory with an agent's messages."""
TEXTS = frozenset({"query", "question", "message", "prompt", "text"})
"""Names of a pipeline's inputs that take a text."""


class HaystackAgent(SkillHandler):
    """A `haystack.components.agents.Agent`."""

    def __init__(self, theirs: Agent, **traits: Unpack[Traits]) -> None:
        self.theirs = theirs
        self.name = "agent"
        self.description = "An agent of Haystack."
        vars(self).update(traits)

    async def on_request(self, task: TaskContext) -> Outcome:
        said: list[str] = []

        async def hear(chunk: StreamingChunk) -> None:
            if chunk.reasoning is not None:
                await task.say(Thought(chunk.reasoning.reasoning_text))
            elif (given := chunk.tool_call_result) is not None:
                called = given.origin
                call = str(called.id or chunk.index)
                await task.say(ToolCall(call, called.tool_name, arguments_of(called.arguments)))
                await task.say(ToolResult(call, called.tool_name, plain(given.result), given.error))
            elif chunk.content:
                said.append(chunk.content)
                await task.say(Token(chunk.content))

        given = [*_history(task), chat_message(task.message)]
        tools = _keeping_results(self.theirs.tools, FinishedCalls(task)) if self.retry_safe else None
        result = await self.theirs.run_async(given, streaming_callback=hear, tools=tools)
        used = result.get("token_usage") or {}
        asked, made = (int(used.get(name) or 0) for name in ("prompt_tokens", "completion_tokens"))
        await task.usage("model", int(result.get("step_count") or 1), asked, made)
        if result.get("exit_reason") in ("content_filter", "max_agent_steps"):
            return Failed(f"The agent did not come to its end: {result['exit_reason']}.", str(result["exit_reason"]))
        kept = [one.to_dict() for one in result["messages"] if not one.is_from("system")]
        keep(task.session.memory, KEPT, kept)
        return await ended(task, "".join(said), _text(result["last_message"]))


def _keeping_results(tools: Any, finished: FinishedCalls) -> list[Any] | None:
    """The tools, each call of which is a step. Toolsets that choose their tools themselves stay as they are."""
    offered = [tools] if isinstance(tools, Toolset) else list(tools or [])
    flat = [one for item in offered for one in (item if type(item) is Toolset else [item])]
    return [_keeping(one, finished) if isinstance(one, Tool) else one for one in flat] or None


def _keeping(tool: Tool, finished: FinishedCalls) -> Tool:
    async def run(**given: Any) -> Any:
        return await finished.result(tool.name, given, partial(tool.invoke_async, **given))

    kept = copy(tool)
    kept.async_function = update_wrapper(run, tool.function or tool.async_function)  # its signature is read
    return kept


class PipelineAgent(SkillHandler):
    """A `haystack.Pipeline`."""

    def __init__(self, theirs: Pipeline, **traits: Unpack[Traits]) -> None:
        self.theirs = theirs
        self.name = "pipeline"
        self.description = "A pipeline of Haystack."
        vars(self).update(traits)

    async def on_request(self, task: TaskContext) -> Completed:
        components = set(self.theirs.inputs(include_components_with_connected_inputs=True))
        ended_ones: set[str] = set()
        final: dict[str, Any] = {}
        run = self.theirs.run_async_generator(self._inputs(task), include_outputs_from=components)
        async with aclosing(run) as outputs:
            async for final in outputs:
                for name in final.keys() - ended_ones:
                    await task.progress(name.replace("_", " "))
                ended_ones |= final.keys()
        return await ended(task, "", answer({name: final[name] for name in self.theirs.outputs() if name in final}))

    def _inputs(self, task: TaskContext) -> dict[str, Any]:
        """The values of the message's data, or its text and the conversation for the inputs that take them."""
        if not task.message.text and len(task.message.data) == 1 and isinstance(task.message.data[0], dict):
            return dict(task.message.data[0])
        names = {name for sockets in self.theirs.inputs().values() for name in sockets}
        given: dict[str, Any] = {name: words_of(task.message) for name in names & TEXTS}
        if "messages" in names:
            given["messages"] = [*map(chat_message, task.history), chat_message(task.message)]
        return given


def agent(theirs: Agent | Pipeline, **traits: Unpack[Traits]) -> SkillHandler:
    return PipelineAgent(theirs, **traits) if isinstance(theirs, Pipeline) else HaystackAgent(theirs, **traits)


serve = serving(agent)


def answer(outputs: dict[str, dict[str, Any]]) -> Any:
    """The text of a pipeline's only reply, or its outputs as data."""
    said = [one for values in outputs.values() for one in values.get("replies", [values.get("last_message")])]
    replies = [one for one in said if isinstance(one, str | ChatMessage)]
    return _text(replies[0]) if len(replies) == 1 else outputs


def _text(reply: str | ChatMessage) -> str:
    return reply if isinstance(reply, str) else reply.text or ""


def chat_message(message: Message) -> ChatMessage:
    """A message with a person's files. Links are text."""
    if message.role == "agent":
        return ChatMessage.from_assistant(words_of(message))
    return ChatMessage.from_user(content_parts=[words_of(message), *map(_file, message.files)])


def _file(file: File) -> str | ImageContent | FileContent:
    if file.url is not None:
        return file.url
    content = base64.b64encode(file.read()).decode("ascii")
    if file.media_type.startswith("image/"):
        return ImageContent(base64_image=content, mime_type=file.media_type)
    return FileContent(base64_data=content, mime_type=file.media_type, filename=file.name or None)


def _history(task: TaskContext) -> list[ChatMessage]:
    if KEPT in task.session.memory:
        return [ChatMessage.from_dict(one) for one in task.session.memory[KEPT]]
    return [chat_message(one) for one in task.history]
