"""An agent of Pydantic AI: `from agentkit.adapters.pydantic_ai import serve; serve(agent)`.

Its text streams, and tool calls are tool calls. A deferred tool that needs approval asks; one that somebody else runs
asks for its result. The messages of a conversation are kept in its memory. With `retry_safe=True`, a turn that starts
again repeats no finished tool call. Between two requests to the model it reads `task.inbox`, and may be asked to stop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Unpack

from pydantic_ai import (
    Agent,
    AgentRunResult,
    BinaryContent,
    DeferredToolRequests,
    DeferredToolResults,
    DocumentUrl,
    ImageUrl,
    RunContext,
    ToolDenied,
    UsageLimitExceeded,
)
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    RetryPromptPart,
    TextPart,
    TextPartDelta,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.run import AgentRunResultEvent

from agentkit.adapters import (
    APPROVAL,
    APPROVE,
    REFUSED,
    FinishedCalls,
    approval_question,
    arguments_of,
    ended,
    keep,
    plain,
    serving,
    words_of,
)
from agentkit.content.emissions import Emission, Token, ToolCall, ToolResult
from agentkit.content.inbox import STOPPED
from agentkit.content.messages import File, Message, data_part, text_part
from agentkit.context import TaskContext
from agentkit.handlers import SkillHandler, Traits
from agentkit.outcomes import Completed, Failed, InputRequired, Outcome

KEPT = "pydantic_ai"
"""The key of a conversation's memory with its messages, and of a task's with those that wait, and the answers."""
RESULT = "tool_result"
"""The slot of the question for the result of a tool that somebody else runs."""


class PydanticAgent(SkillHandler):
    """A `pydantic_ai.Agent`. `deps` are passed to each of its runs."""

    steerable = True

    def __init__(self, theirs: Agent[Any, Any], *, deps: Any = None, **traits: Unpack[Traits]) -> None:
        self.theirs = theirs
        self.deps = deps
        self.name = theirs.name or "agent"
        self.description = f"The agent {self.name}."
        vars(self).update(traits)

    async def on_request(self, task: TaskContext) -> Outcome:
        waiting = task.memory.get(KEPT) if task.slot in (APPROVAL, RESULT) else None
        if waiting is not None and (asked := self._next_question(task, waiting)):
            return asked
        said, result = "", None
        try:
            async for one in self._run(task, waiting):
                if isinstance(one, AgentRunResult):
                    result = one
                    continue
                said += one.text if isinstance(one, Token) else ""
                await task.say(one)
        except UsageLimitExceeded as limit:
            return Failed(str(limit), "usage_limit")
        except _StopsAfterStep as stop:
            await task.usage(stop.model, stop.used.requests, stop.used.input_tokens, stop.used.output_tokens)
            keep(task.session.memory, KEPT, _dumped(stop.messages))
            await task.token(f"\n\n{STOPPED}" if said else STOPPED)
            return Completed(f"{said}\n\n{STOPPED}" if said else STOPPED)
        assert result is not None  # a run ends with its result
        used, model = result.usage, result.response.model_name or "model"
        await task.usage(model, used.requests, used.input_tokens, used.output_tokens)
        if isinstance(result.output, DeferredToolRequests):
            task.memory[KEPT] = {"messages": _dumped(result.all_messages()), "answers": {}}
            task.memory[KEPT] |= {"calls": _waiting(result.output)}
            return _question(task.memory[KEPT]["calls"][0])
        keep(task.session.memory, KEPT, _dumped(result.all_messages()))
        return await ended(task, said, result.output)

    def _next_question(self, task: TaskContext, waiting: dict[str, Any]) -> InputRequired | None:
        """Takes the answer about the first call, and asks about the next."""
        calls: list[dict[str, Any]] = waiting["calls"]
        waiting["answers"][calls[0]["id"]] = task.answer
        open_calls = [call for call in calls if call["id"] not in waiting["answers"]]
        waiting["calls"] = [*open_calls, *(call for call in calls if call not in open_calls)]
        return _question(open_calls[0]) if open_calls else None

    async def _run(self, task: TaskContext, waiting: Any) -> AsyncIterator[Emission | AgentRunResult[Any]]:
        given: dict[str, Any] = {"user_prompt": prompt(task.message), "message_history": _history(task)}
        if waiting is not None:
            messages = ModelMessagesTypeAdapter.validate_python(waiting["messages"])
            given = {"message_history": messages, "deferred_tool_results": _results(waiting)}
        given["capabilities"] = [_Steering(task), *([_KeptResults(FinishedCalls(task))] if self.retry_safe else [])]
        async with self.theirs.run_stream_events(deps=self.deps, **given) as events:
            async for event in events:
                if isinstance(event, AgentRunResultEvent):
                    yield event.result
                elif (emission := _emission(event)) is not None:
                    yield emission


agent = PydanticAgent
serve = serving(agent)


class _StopsAfterStep(Exception):
    """Somebody asked the turn to stop, and a step has ended."""

    def __init__(self, ctx: RunContext[Any]) -> None:
        super().__init__()
        self.messages, self.used, self.model = list(ctx.messages), ctx.usage, ctx.model.model_name


@dataclass
class _Steering(AbstractCapability[Any]):
    task: TaskContext

    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
        if ctx.run_step > 1:
            if self.task.stop_requested:
                raise _StopsAfterStep(ctx)
            for message in await self.task.inbox.unread():
                ctx.enqueue(UserPromptPart(prompt(message)))
        return request_context


@dataclass
class _KeptResults(AbstractCapability[Any]):
    calls: FinishedCalls

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        return await self.calls.result(call.tool_name, args, lambda: handler(args))


def _emission(event: Any) -> Emission | None:
    match event:
        case PartStartEvent(part=TextPart(content=text)) if text:
            return Token(text)
        case PartDeltaEvent(delta=TextPartDelta(content_delta=text)) if text:
            return Token(text)
        case FunctionToolCallEvent(part=part):
            return ToolCall(part.tool_call_id, part.tool_name, arguments_of(part.args))
        case FunctionToolResultEvent(part=part):
            failed = isinstance(part, RetryPromptPart)
            return ToolResult(part.tool_call_id, part.tool_name or "tool", plain(part.content), failed)
    return None


def _waiting(asked: DeferredToolRequests) -> list[dict[str, Any]]:
    kinds = ((APPROVAL, asked.approvals), (RESULT, asked.calls))
    return [
        {"id": call.tool_call_id, "tool": call.tool_name, "arguments": arguments_of(call.args), "slot": slot}
        for slot, calls in kinds
        for call in calls
    ]


def _question(call: dict[str, Any]) -> InputRequired:
    if call["slot"] == APPROVAL:
        return approval_question(call["tool"], call["arguments"])
    shown = {"tool": call["tool"], "arguments": call["arguments"]}
    return InputRequired([text_part(f"What is the result of {call['tool']}?"), data_part(shown)], RESULT)


def _results(waiting: dict[str, Any]) -> DeferredToolResults:
    results = DeferredToolResults()
    for call in waiting["calls"]:
        given = waiting["answers"][call["id"]]
        if call["slot"] == APPROVAL:
            results.approvals[call["id"]] = True if given == APPROVE else ToolDenied(REFUSED)
        else:
            results.calls[call["id"]] = given
    return results


def _dumped(messages: list[ModelMessage]) -> Any:
    return ModelMessagesTypeAdapter.dump_python(messages, mode="json")


def _history(task: TaskContext) -> list[ModelMessage]:
    if KEPT in task.session.memory:
        return ModelMessagesTypeAdapter.validate_python(task.session.memory[KEPT])
    return [
        ModelResponse([TextPart(words_of(one))])
        if one.role == "agent"
        else ModelRequest.user_text_prompt(words_of(one))
        for one in task.history
    ]


def prompt(message: Message) -> str | list[UserContent]:
    """A person's message with its files."""
    files = [_content(file) for file in message.files]
    return [words_of(message), *files] if files else words_of(message)


def _content(file: File) -> UserContent:
    if file.url is None:
        return BinaryContent(file.read(), media_type=file.media_type)
    return ImageUrl(file.url) if file.media_type.startswith("image/") else DocumentUrl(file.url)
