"""What the program that a person writes with asks of an agent: tools of its own, the form of the answer, settings.

It comes in the message's metadata, as `client`: `{"tools": [{"name", "description", "parameters"}], "mustCall": [name],
"output": {"name", "schema"}, "settings": {…}}`. Results come as data: `{"toolResults": [{"callId", "result"}]}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal
from uuid import uuid4

from agentkit.content.messages import Message, data_part, text_part
from agentkit.outcomes import InputRequired

type Wish = Literal["tools", "output", "settings"]
CLIENT = "client"
"""The key of a message's metadata."""
SLOT = "client_tools"
CALLS, RESULTS = "toolCalls", "toolResults"
NO_RESULT = "The user's program gave no result."


SETTINGS: Mapping[str, type] = {
    "max_tokens": int,
    "seed": int,
    "temperature": float,
    "top_p": float,
    "presence_penalty": float,
    "frequency_penalty": float,
    "stop_sequences": list,
    "parallel_tool_calls": bool,
}
"""What a client may set. Others, such as headers or more of the request's body, could choose another model."""


def _may_set(name: str, value: Any) -> bool:
    kind = SETTINGS.get(name)
    if kind is list:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    if kind is None or isinstance(value, bool):
        return kind is bool
    if not isinstance(value, (int, float) if kind is float else kind):
        return False
    return name != "max_tokens" or (isinstance(value, int) and value > 0)


@dataclass(frozen=True)
class ClientTool:
    """A tool that the client runs. `parameters` is a JSON Schema."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ClientCall:
    """A call of a client's tool. `id` is unique in the task."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=lambda: uuid4().hex[:16])

    @property
    def wire(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name, "arguments": dict(self.arguments)}


@dataclass(frozen=True)
class CallClient(InputRequired):
    """The task waits for tools that the client runs; in the next turn, `task.client.results` has their results.

    Only for a client that has the tools (`task.client.tools`).

    Attributes:
        calls: as `ClientCall.wire`; see `Client.call`.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "slot", SLOT)
        object.__setattr__(self, "value", {"calls": list(self.calls)})
        super().__post_init__()
        if self.message is None:
            names = ", ".join(str(one["name"]) for one in self.calls)
            parts = [text_part(f"Waiting for your program to run {names}."), data_part({CALLS: list(self.calls)})]
            object.__setattr__(self, "message", parts)


@dataclass(frozen=True)
class Client:
    """What a client asks of an agent, and what it answered.

    Attributes:
        tools: the client's tools, which the agent may call by `CallClient`.
        must_call: names of tools, one of which the agent must call before it answers.
        output: the JSON Schema that the answer, JSON text, must fit; None if any answer will do.
        output_name: the schema's name.
        settings: of language models, named as in pydantic-ai: those of SETTINGS, and no others.
        calls: those that the client was asked for.
    """

    tools: Sequence[ClientTool] = ()
    must_call: Sequence[str] = ()
    output: Mapping[str, Any] | None = None
    output_name: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    calls: Sequence[ClientCall] = ()
    answer: Message | None = field(default=None, repr=False, compare=False)

    @property
    def names(self) -> set[str]:
        """Of its tools, and of those that it was asked for."""
        return {one.name for one in self.tools} | {one.name for one in self.calls}

    @property
    def demands(self) -> bool:
        """Must the answer have a form, or call a tool?"""
        return self.output is not None or bool(self.must_call)

    @classmethod
    def of(cls, message: Message, asked: Mapping[str, Any] | None = None, earlier: Client | None = None) -> Client:
        """From a message, which may answer a question (`asked`, as in `Turn.asked`). What has another shape is ignored.

        `earlier`: what the client asked before, if this message asks nothing.
        """
        told = message.metadata.get(CLIENT)
        calls = calls_in(asked)
        if not isinstance(told, dict):
            known = earlier or cls()
            return cls(known.tools, (), known.output, known.output_name, known.settings, calls, message)
        tools = [
            ClientTool(one["name"], str(one.get("description") or ""), _object(one.get("parameters")))
            for one in _objects(told.get("tools"))
            if isinstance(one.get("name"), str)
        ]
        names = [one for one in _list(told.get("mustCall")) if any(one == tool.name for tool in tools)]
        output = _object(told.get("output"))
        schema = output.get("schema")
        fitting = schema if isinstance(schema, dict) else None
        settings = {name: value for name, value in _object(told.get("settings")).items() if _may_set(name, value)}
        return cls(tools, names, fitting, str(output.get("name") or ""), settings, calls, message)

    @cached_property
    def results(self) -> Mapping[str, Any]:
        """The results by the calls' ids. It may read files."""
        if self.answer is None or not self.calls:
            return {}
        given = [one for value in self.answer.data if isinstance(value, dict) for one in _objects(value.get(RESULTS))]
        return {one["callId"]: one.get("result") for one in given if isinstance(one.get("callId"), str)}

    def result_of(self, call: ClientCall) -> Any:
        """The result of a call, or a sentence if the client gave none."""
        if call.id in self.results:
            return self.results[call.id]
        said = self.answer.text.strip() if self.answer else ""
        return f"{NO_RESULT} They said: {said}" if said else NO_RESULT

    def call(self, tool: str, /, **arguments: Any) -> CallClient:
        """The outcome of a turn that calls one of the client's tools. Raises LookupError if it has no such tool."""
        if all(one.name != tool for one in self.tools):
            raise LookupError(f"The client has no tool {tool!r}.")
        return CallClient(None, calls=[ClientCall(tool, arguments).wire])


NO_CLIENT = Client()


def calls_in(asked: Mapping[str, Any] | None) -> list[ClientCall]:
    """The calls that a question (a slot as a host stores it) asks the client to run."""
    value = (asked or {}).get("value")
    if not asked or asked.get("name") != SLOT or not isinstance(value, Mapping):
        return []
    return [
        ClientCall(one["name"], _object(one.get("arguments")), one["id"])
        for one in _objects(value.get("calls"))
        if isinstance(one.get("name"), str) and isinstance(one.get("id"), str)
    ]


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else []


def _objects(value: Any) -> list[Any]:
    return [one for one in _list(value) if isinstance(one, dict)]


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def in_words(result: Any) -> str:
    """A result as text."""
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
