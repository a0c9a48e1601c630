"""A LangGraph graph as an agent: `from agentkit.adapters.langgraph import serve; serve(graph)`.

A conversation is a thread. An interrupt is a question, and its answer resumes the graph. What a model says streams;
its tool calls are tool calls, and what a node writes by `get_stream_writer` is progress.

Without a checkpointer of its own the graph gets one whose newest checkpoint is kept in the conversation's memory, so a
conversation goes on after a restart. With `retry_safe=True`, what each node did is a step of the turn: one that starts
again repeats no finished node.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any, Unpack

from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage, ToolMessage
from langgraph.pregel import Pregel
from langgraph.types import Command, Interrupt, StateSnapshot

from agentkit.adapters import ended, plain, serving, words_of
from agentkit.adapters.langgraph_checkpoints import TurnSaver
from agentkit.content.emissions import Emission, Foreign, Progress, Token, ToolCall, ToolResult, Usage
from agentkit.content.messages import Message, data_part, text_part
from agentkit.context import TaskContext
from agentkit.handlers import SkillHandler, Traits
from agentkit.outcomes import Completed, InputRequired

INTERRUPT = "interrupt"
QUESTIONS = ("question", "message", "prompt", "text", "description")
"""The keys of an interrupt's dict that may have its question."""


class GraphAgent(SkillHandler):
    """A compiled graph whose state has `messages`, or takes other values from the message's data."""

    def __init__(self, graph: Pregel[Any, Any, Any, Any], **traits: Unpack[Traits]) -> None:
        self.graph = graph
        self.name = graph.name.replace("_", " ")
        self.description = f"The LangGraph graph {graph.name}."
        vars(self).update(traits)

    async def on_request(self, task: TaskContext) -> Completed | InputRequired:
        thread: Any = {"configurable": {"thread_id": task.context_id}}
        graph, saver, said = self.graph, None, ""
        if not graph.checkpointer:  # a saver for each turn, because tasks of one conversation may work side by side
            saver = TurnSaver(task)
            goes_on = await saver.restore(thread, in_steps=self.retry_safe)
            graph = graph.copy({"checkpointer": saver})
        state = await graph.aget_state(thread)
        if saver is None:
            goes_on = task.attempt > 1 and bool(state.next) and not state.interrupts
        async for emission in _emissions(graph, _input(state, task, goes_on), thread):
            said += emission.text if isinstance(emission, Token) else ""
            await task.say(emission)
        state = await graph.aget_state(thread)
        if saver is not None:
            await saver.keep(thread)
        return question(state.interrupts[0]) if state.interrupts else await ended(task, said, output_of(state))


agent = GraphAgent
serve = serving(agent)


def _input(state: StateSnapshot, task: TaskContext, goes_on: bool) -> Any:
    """What the graph goes on with: its unfinished nodes after a crash, an answer, or the message."""
    if goes_on:
        return None
    if state.interrupts:
        return Command(resume={state.interrupts[0].id: task.answer if task.slot else _value(task.message)})
    return _value(task.message) if _is_input(task.message) else {"messages": [human(task.message)]}


async def _emissions(graph: Pregel[Any, Any, Any, Any], given: Any, thread: Any) -> AsyncIterator[Emission]:
    async for mode, said in graph.astream(given, thread, stream_mode=["messages", "updates", "custom"]):
        if mode == "messages" and isinstance(said[0], AIMessageChunk):
            if said[0].text:
                yield Token(said[0].text)
        elif mode == "custom":
            yield progress(said)
        elif mode == "updates":
            for message in _messages(said):
                for emission in of_message(message):
                    yield emission


def human(message: Message) -> HumanMessage:
    """A person's message with its files, as LangChain's content blocks."""
    files = [
        {"type": "image" if file.media_type.startswith("image/") else "file", **_file(file)} for file in message.files
    ]
    text = words_of(message)
    return HumanMessage([{"type": "text", "text": text}, *files] if files else text)


def _file(file: Any) -> dict[str, Any]:
    if file.url is not None:
        return {"url": file.url}
    content = base64.b64encode(file.read()).decode("ascii")
    return {"base64": content, "mime_type": file.media_type, "filename": file.name}


def _is_input(message: Message) -> bool:
    """Is the message nothing but an object, the graph's input?"""
    return not message.text and len(message.data) == 1 and isinstance(message.data[0], dict)


def _value(message: Message) -> Any:
    return dict(message.data[0]) if _is_input(message) else message.data[0] if message.data else message.text


def question(interrupt: Interrupt) -> InputRequired:
    """An interrupt's value as a question: text, or an object with a text and whatever people need to see."""
    value = interrupt.value
    schema = getattr(interrupt, "response_schema", None)
    schema = schema if isinstance(schema, dict) else None
    if isinstance(value, str):
        return InputRequired(value, INTERRUPT, schema)
    text = next((value[key] for key in QUESTIONS if isinstance(value, dict) and isinstance(value.get(key), str)), "")
    return InputRequired([text_part(text or "The agent asks:"), data_part(plain(value))], INTERRUPT, schema)


def output_of(state: StateSnapshot) -> Any:
    """The text of the last message; a state without messages as it is."""
    messages = state.values.get("messages") if isinstance(state.values, dict) else None
    last = messages[-1] if messages else None
    return last.text if isinstance(last, AIMessage) else state.values


def of_message(message: AnyMessage) -> list[Emission]:
    """A message's tool calls or result, and what its model used."""
    if isinstance(message, ToolMessage):
        return [ToolResult(message.tool_call_id, message.name or "tool", message.text, message.status == "error")]
    if not isinstance(message, AIMessage):
        return []
    said: list[Emission] = [ToolCall(str(one["id"]), one["name"], plain(one["args"])) for one in message.tool_calls]
    if used := message.usage_metadata:
        model = str(message.response_metadata.get("model_name") or "model")
        said.append(Usage(model, 1, used["input_tokens"], used["output_tokens"]))
    return said


def _messages(update: dict[str, Any]) -> list[AnyMessage]:
    """The messages that the nodes of a step added."""
    found: list[AnyMessage] = []
    for node, values in update.items():
        added = values.get("messages", []) if node != "__interrupt__" and isinstance(values, dict) else []
        found += added if isinstance(added, list) else [added]
    return found


def progress(said: Any) -> Emission:
    """What a node wrote: text, or an object with `progress`; all else is recorded and shown to nobody."""
    line = said.get("progress") if isinstance(said, dict) else said
    return Progress(line) if isinstance(line, str) else Foreign({"langgraph": plain(said)})
