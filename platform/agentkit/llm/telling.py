"""What a worker's model does, told as it happens: text as tokens, thoughts, calls of tools and what they gave.

This module imports the model library: import it late.
"""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Any

import pydantic_core
from pydantic_ai import RunContext
from pydantic_ai.messages import (
    AgentStreamEvent,
    BinaryContent,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
)

from agentkit.context import TaskContext

PARAGRAPH = "\n\n"


class Teller:
    """Tells the task; `text` is what was streamed, all steps' words as paragraphs."""

    def __init__(self, task: TaskContext, *, stream: bool) -> None:
        self.text = ""
        self._task = task
        self._stream = stream
        self._calls: dict[str, str] = {}  # what a call of a tool is named by the model, and in the record

    async def follow(self, _: RunContext[TaskContext], events: AsyncIterable[AgentStreamEvent]) -> None:
        """Called by the model library for each step: a model's answer, or the tools that it called."""
        is_new = True
        async for event in events:
            match event:
                case (
                    PartStartEvent(part=TextPart(content=words))
                    | PartDeltaEvent(delta=TextPartDelta(content_delta=words))
                ):
                    is_new = await self._say(words, is_new=is_new)
                case PartEndEvent(part=ThinkingPart(content=thought)) if thought:
                    await self._task.thought(thought)
                case FunctionToolCallEvent(part=call):
                    # Some endpoints count calls anew in each step.
                    known = call.tool_call_id in self._calls
                    told = None if known else call.tool_call_id
                    self._calls[call.tool_call_id] = await self._task.tool_call(
                        call.tool_name, call.args_as_dict(), told
                    )
                case FunctionToolResultEvent(part=result):
                    call_id, failed = self._calls[result.tool_call_id], result.outcome != "success"
                    content = recordable(result.content)
                    await self._task.tool_result(call_id, result.tool_name, content, is_error=failed)

    async def _say(self, words: str, *, is_new: bool) -> bool:
        """Streams a piece of text; gives whether the step's text is still to begin."""
        if not words or not self._stream:
            return is_new
        piece = PARAGRAPH + words if is_new and self.text else words
        self.text += piece
        await self._task.token(piece)
        return False


def recordable(content: Any) -> Any:
    """A tool's result as JSON values; files are named, not kept."""
    return pydantic_core.to_jsonable_python(_without_files(content), fallback=str)


def _without_files(content: Any) -> Any:
    if isinstance(content, BinaryContent):
        return f"[{content.media_type}, {len(content.data)} bytes]"
    return [_without_files(one) for one in content] if isinstance(content, list) else content
