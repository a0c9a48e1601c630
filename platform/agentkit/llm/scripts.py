"""Scripted models as the model library takes them. This module imports it: import it late."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pydantic_core
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from agentkit.llm.conversations import asked_in
from agentkit.llm.scripting import Asked, Respond, Returned, UseTool

PIECE = re.compile(r"\S+\s*|\s+")  # text is streamed word by word


def function_model(label: str, respond: Respond) -> Model:
    """The model that `respond` speaks for."""

    async def reply_to(messages: list[ModelMessage], info: AgentInfo) -> str | list[UseTool]:
        reply = respond(asked(messages, info))
        return as_reply(await reply if inspect.isawaitable(reply) else reply, info)

    async def at_once(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        reply = await reply_to(messages, info)
        if isinstance(reply, str):
            return ModelResponse(parts=[TextPart(reply)])
        return ModelResponse(parts=[ToolCallPart(call.tool, call.arguments) for call in reply])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        reply = await reply_to(messages, info)
        if isinstance(reply, str):
            for piece in PIECE.findall(reply):
                yield piece
            return
        for number, call in enumerate(reply):
            call_id = f"call-{len(messages)}-{number}"
            yield {number: DeltaToolCall(call.tool, json.dumps(call.arguments), tool_call_id=call_id)}

    return FunctionModel(at_once, stream_function=stream, model_name=label)


def as_reply(reply: Any, info: AgentInfo) -> str | list[UseTool]:
    """Text, or the calls that say it: a typed value is given by calling the tool of the output."""
    if isinstance(reply, str):
        return reply
    if isinstance(reply, UseTool):
        return [reply]
    if isinstance(reply, Sequence) and reply and all(isinstance(one, UseTool) for one in reply):
        return list(reply)
    value = pydantic_core.to_jsonable_python(reply)
    if not info.output_tools:
        return json.dumps(value, ensure_ascii=False)
    output = info.output_tools[0]
    key = output.outer_typed_dict_key
    return [UseTool(output.name, **({key: value} if key else value))]


def asked(messages: Sequence[ModelMessage], info: AgentInfo) -> Asked:
    """What the messages of a request say, in the author's words."""
    # The requests of this run: the first brings the newest message, the others what the answers to it led to.
    run = [message for message in messages if isinstance(message, ModelRequest) and message.run_id is not None]
    earlier = messages[: messages.index(run[0])]
    functions = [tool.name for tool in info.function_tools]
    results = [
        Returned(part.tool_name, part.content, part.outcome != "success")
        for request in run
        for part in request.parts
        if isinstance(part, ToolReturnPart) and part.tool_name in functions
    ]
    again = [one for one in run[1:] if not any(getattr(part, "tool_name", None) in functions for part in one.parts)]
    return Asked(
        text=asked_in(run[0]),
        earlier=[
            ("agent", one.text or "") if isinstance(one, ModelResponse) else ("user", asked_in(one)) for one in earlier
        ],
        instructions=info.instructions or "",
        tools=functions,
        results=results,
        attempt=1 + len(again),
    )
