"""An agent of the OpenAI Agents SDK: `from agentkit.adapters.openai_agents import serve; serve(agent)`.

Handoffs are progress, tool calls are tool calls, and a tool that needs approval asks. An input guardrail that trips
rejects the task, an output guardrail fails it. The items of a conversation are kept in its memory. With
`retry_safe=True`, a turn that starts again repeats no finished call of a function tool.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from functools import partial, update_wrapper
from typing import Any, Unpack

from agents import (
    Agent,
    FunctionTool,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    RunHooks,
    Runner,
    RunResultStreaming,
    RunState,
    Tool,
)

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
from agentkit.content.emissions import Emission, Progress, Token, ToolCall, ToolResult, Usage
from agentkit.content.messages import Message
from agentkit.context import TaskContext
from agentkit.handlers import SkillHandler, Traits
from agentkit.outcomes import Failed, Outcome, Rejected

KEPT = "openai_agents"
"""The key of a conversation's memory with its items, and of a task's with the state that waits for an approval."""


FINISHED: ContextVar[FinishedCalls | None] = ContextVar("finished", default=None)
"""The turn's tool calls, for the tools that run in it."""


class SdkAgent(SkillHandler):
    """An `agents.Agent`, run by the SDK's `Runner`."""

    def __init__(
        self, theirs: Agent[Any], *, run_config: RunConfig | None = None, max_turns: int = 10, **traits: Unpack[Traits]
    ) -> None:
        self.theirs = theirs
        self.run_config = run_config
        self.max_turns = max_turns
        self.name = theirs.name
        self.description = theirs.handoff_description or f"The agent {theirs.name}."
        vars(self).update(traits)

    async def on_request(self, task: TaskContext) -> Outcome:
        FINISHED.set(FinishedCalls(task) if self.retry_safe else None)
        given: Any = {"run_config": self.run_config, "max_turns": self.max_turns}
        given["hooks"] = _KeptResults() if self.retry_safe else None
        run = Runner.run_streamed(self.theirs, await self._input(task), **given)
        said = ""
        try:
            async for emission in _emissions(run):
                said += emission.text if isinstance(emission, Token) else ""
                await task.say(emission)
        except InputGuardrailTripwireTriggered as tripped:
            return Rejected(f"The guardrail {tripped.guardrail_result.guardrail.get_name()} does not let this in.")
        except OutputGuardrailTripwireTriggered as tripped:
            name = tripped.guardrail_result.guardrail.get_name()
            return Failed(f"The guardrail {name} does not let the answer out.", "guardrail")
        except MaxTurnsExceeded:
            return Failed(f"The agent did not come to an end in {self.max_turns} turns.", "max_turns")
        used = run.context_wrapper.usage
        await task.say(Usage(_model_of(run.last_agent), used.requests, used.input_tokens, used.output_tokens))
        if run.interruptions:
            task.memory[KEPT] = run.to_state().to_json()
            return approval_question(run.interruptions[0].name or "tool", run.interruptions[0].arguments)
        keep(task.session.memory, KEPT, plain(run.to_input_list()))
        return await ended(task, said, run.final_output)

    async def _input(self, task: TaskContext) -> Any:
        """The state that an answer resumes, or the conversation's items with the message."""
        if task.slot == APPROVAL and KEPT in task.memory:
            state = await RunState.from_json(self.theirs, task.memory[KEPT])
            asked = state.get_interruptions()[0]
            if task.answer == APPROVE:
                state.approve(asked)
            else:
                state.reject(asked, rejection_message=REFUSED)
            return state
        known = task.session.memory.get(KEPT) or [item(one) for one in task.history]
        return [*known, item(task.message)]


agent = SdkAgent
serve = serving(agent)


class _KeptResults(RunHooks[Any]):
    """Makes each function tool that starts, also of agents that took over, take results of an earlier attempt."""

    async def on_tool_start(self, context: Any, agent: Any, tool: Tool) -> None:
        if isinstance(tool, FunctionTool) and not isinstance(tool.on_invoke_tool, _Invoker):
            tool.on_invoke_tool = _Invoker(tool.name, tool.on_invoke_tool)


class _Invoker:
    """A tool's `on_invoke_tool` within a turn; outside of turns, as it was."""

    def __init__(self, name: str, invoke: Callable[..., Awaitable[Any]]) -> None:
        self.name = name
        self.invoke = invoke
        update_wrapper(self, invoke, updated=())  # the SDK reads the annotations

    async def __call__(self, context: Any, arguments: str) -> Any:
        run, finished = partial(self.invoke, context, arguments), FINISHED.get()
        return await (run() if finished is None else finished.result(self.name, arguments, run))


async def _emissions(run: RunResultStreaming) -> AsyncIterator[Emission]:
    speaker = run.last_agent.name
    async for event in run.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            yield Token(event.data.delta)
        elif event.type == "agent_updated_stream_event" and event.new_agent.name != speaker:
            speaker = event.new_agent.name
            yield Progress(f"{speaker} takes over.")
        elif event.type == "run_item_stream_event" and event.name == "tool_called":
            called = _dict(event.item.raw_item)
            name = str(called.get("name") or called.get("type") or "tool")
            yield ToolCall(str(called.get("call_id") or called.get("id")), name, arguments_of(called.get("arguments")))
        elif event.type == "run_item_stream_event" and event.name == "tool_output":
            given = _dict(event.item.raw_item)
            yield ToolResult(str(given.get("call_id")), str(given.get("name") or "tool"), plain(event.item.output))


def item(message: Message) -> dict[str, Any]:
    """A message as an item of the Responses API, with a person's files."""
    text = words_of(message)
    if message.role == "agent":
        return {"role": "assistant", "content": text}
    files = [_file(file) for file in message.files]
    return {"role": "user", "content": [{"type": "input_text", "text": text}, *files] if files else text}


def _file(file: Any) -> dict[str, Any]:
    is_image = file.media_type.startswith("image/")
    if file.url is not None:
        return (
            {"type": "input_image", "image_url": file.url} if is_image else {"type": "input_file", "file_url": file.url}
        )
    url = f"data:{file.media_type};base64,{base64.b64encode(file.read()).decode('ascii')}"
    if is_image:
        return {"type": "input_image", "image_url": url}
    return {"type": "input_file", "filename": file.name or "file", "file_data": url}


def _model_of(theirs: Agent[Any]) -> str:
    model = theirs.model
    return model if isinstance(model, str) else str(getattr(model, "model", None) or "model")


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else value.model_dump(mode="json")
