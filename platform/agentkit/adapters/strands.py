"""An agent of Strands: `from agentkit.adapters.strands import serve; serve(agent)`, or `serve(make_agent)`.

Its text streams, tool calls are tool calls, and an interrupt is a question whose answer resumes the agent. Its messages
and state are kept in the conversation's memory. With `retry_safe=True`, a turn that starts again repeats no finished
tool call. One agent takes one turn at a time; a function that makes one lets them run side by side.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Unpack

from strands import Agent, Snapshot
from strands.agent import AgentResult
from strands.interrupt import Interrupt
from strands.middleware import ExecuteToolContext, ExecuteToolStage, ToolResultEvent
from strands.types.session import decode_bytes_values, encode_bytes_values

from agentkit.adapters import FinishedCalls, arguments_of, ended, keep, plain, serving, words_of
from agentkit.content.emissions import Emission, Thought, Token, ToolCall, ToolResult
from agentkit.content.messages import File, Message, data_part, text_part
from agentkit.context import TaskContext
from agentkit.handlers import SkillHandler, Traits
from agentkit.outcomes import Failed, InputRequired, Outcome

KEPT = "strands"
"""The key of a conversation's memory with the agent's session, and of a task's with one that waits, and the answers."""
FINISHED = "finished"
"""The key of a run's state with the turn's tool calls."""
INTERRUPT = "interrupt"
REFUSALS = ("content_filtered", "guardrail_intervened")
"""Reasons to stop that fail the task."""


class StrandsAgent(SkillHandler):
    """A `strands.Agent`, or a function that makes one for a turn."""

    def __init__(self, theirs: Agent | Callable[[], Agent], **traits: Unpack[Traits]) -> None:
        self.theirs = theirs
        example = theirs if isinstance(theirs, Agent) else theirs()
        self.fresh = example.take_snapshot(preset="session")
        self.name = example.name
        self.description = example.description or f"The agent {example.name}."
        self._one_by_one = asyncio.Lock()
        vars(self).update(traits)
        if self.retry_safe and isinstance(theirs, Agent):
            theirs.add_middleware(ExecuteToolStage, keep_results)

    async def on_request(self, task: TaskContext) -> Outcome:
        waiting = task.memory.get(KEPT) if task.slot == INTERRUPT else None
        if waiting is not None:
            waiting["answers"].append(_response(waiting["interrupts"].pop(0)["id"], task.answer))
            if waiting["interrupts"]:
                return question(Interrupt(**waiting["interrupts"][0]))
        said, result = "", None
        async with self._agent() as theirs, aclosing(self._run(theirs, task, waiting)) as run:
            async for one in run:
                if isinstance(one, AgentResult):
                    result = one
                    continue
                said += one.text if isinstance(one, Token) else ""
                await task.say(one)
            kept = encode_bytes_values(theirs.take_snapshot(preset="session").to_dict())
        assert result is not None  # a run ends with its result
        if (invocation := result.metrics.latest_agent_invocation) is not None:
            used = invocation.usage
            await task.usage("model", len(invocation.cycles), used["inputTokens"], used["outputTokens"])
        if result.interrupts:
            asked = [plain(one.to_dict()) for one in result.interrupts]
            task.memory[KEPT] = {"session": kept, "interrupts": asked, "answers": []}
            return question(result.interrupts[0])
        keep(task.session.memory, KEPT, kept)
        if result.stop_reason in REFUSALS:
            return Failed(str(result).strip() or "The guardrail does not let the answer out.", "guardrail")
        return await ended(task, said, result.structured_output or str(result).removesuffix("\n"))

    @asynccontextmanager
    async def _agent(self) -> AsyncGenerator[Agent]:
        """An agent that this turn has for itself."""
        if not isinstance(self.theirs, Agent):
            made = self.theirs()
            if self.retry_safe:
                made.add_middleware(ExecuteToolStage, keep_results)
            yield made
            return
        async with self._one_by_one:
            yield self.theirs

    async def _run(self, theirs: Agent, task: TaskContext, waiting: Any) -> AsyncGenerator[Emission | AgentResult]:
        kept = waiting["session"] if waiting else task.session.memory.get(KEPT)
        theirs.load_snapshot(Snapshot.from_dict(decode_bytes_values(kept)) if kept else self.fresh)
        if kept is None:
            theirs.messages.extend(_said(message) for message in task.history)
        prompt = waiting["answers"] if waiting else content(task.message)
        names: dict[str, str] = {}
        state = {FINISHED: FinishedCalls(task)} if self.retry_safe else {}
        async for event in theirs.stream_async(prompt, cancel_signal=task.stop_signal, invocation_state=state):
            if "result" in event:
                yield event["result"]
            for emission in _emissions(event, names):
                yield emission


agent = StrandsAgent
serve = serving(agent)


async def keep_results(context: ExecuteToolContext, run_tool: Callable[..., Any]) -> AsyncGenerator[Any]:
    """Middleware: takes the results of finished tool calls from an earlier attempt."""
    events: list[Any] = []
    finished: FinishedCalls | None = context.invocation_state.get(FINISHED)

    async def run() -> Any:
        async for event in run_tool(context):
            events.append(event)
        results = [event.tool_result for event in events if isinstance(event, ToolResultEvent)]
        if not results:
            raise _Asks("The tool asks first.")
        return results[-1]

    with suppress(_Asks):
        called = context.tool_use
        result = await (finished.result(called["name"], called["input"], run) if finished else run())
        if not events:
            events.append(ToolResultEvent({**result, "toolUseId": called["toolUseId"]}))
    for event in events:
        yield event


class _Asks(Exception):
    """A tool has no result yet."""


def _emissions(event: dict[str, Any], names: dict[str, str]) -> Iterator[Emission]:
    """`names` of the tools that are called, by the calls' ids."""
    if isinstance(text := event.get("data"), str) and text:
        yield Token(text)
    if isinstance(text := event.get("reasoningText"), str) and text:
        yield Thought(text)
    for block in (event.get("message") or {}).get("content", ()):
        if "toolUse" in block:
            called = block["toolUse"]
            names[called["toolUseId"]] = called["name"]
            yield ToolCall(called["toolUseId"], called["name"], arguments_of(called["input"]))
        if "toolResult" in block:
            given = block["toolResult"]
            results = [next(iter(plain(encode_bytes_values(one)).values())) for one in given["content"]]
            result = results[0] if len(results) == 1 else results
            name = names.get(given["toolUseId"], "tool")
            yield ToolResult(given["toolUseId"], name, result, given["status"] == "error")


def question(interrupt: Interrupt) -> InputRequired:
    """An interrupt's reason as a question."""
    if isinstance(interrupt.reason, str) and interrupt.reason:
        return InputRequired(interrupt.reason, INTERRUPT)
    shown = [data_part(plain(interrupt.reason))] if interrupt.reason is not None else []
    return InputRequired([text_part(f"The agent asks: {interrupt.name}"), *shown], INTERRUPT)


def _response(interrupt: str, answer: Any) -> dict[str, Any]:
    return {"interruptResponse": {"interruptId": interrupt, "response": answer}}


def content(message: Message) -> list[dict[str, Any]]:
    """A person's message with its files, as content blocks. Links are text."""
    return [{"text": words_of(message)}, *map(_file, message.files)]


def _file(file: File) -> dict[str, Any]:
    if file.url is not None:
        return {"text": file.url}
    kind, _, name = file.media_type.partition("/")
    source = {"bytes": file.read()}
    if kind == "image":
        return {"image": {"format": name, "source": source}}
    stem, _, ending = file.name.rpartition(".")
    return {"document": {"format": ending.lower() or "txt", "name": stem or "file", "source": source}}


def _said(message: Message) -> dict[str, Any]:
    return {"role": "assistant" if message.role == "agent" else "user", "content": [{"text": words_of(message)}]}
