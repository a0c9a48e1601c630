"""What a request of OpenAI's API asks besides its messages: tools, a form of the answer, settings of models."""

from __future__ import annotations

from typing import Any

from apps.record.errors import InvalidParams
from apps.record.events import JSON

SETTINGS = {
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "stop": "stop_sequences",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
"""Fields of requests, and agentkit's names of settings."""
WITHOUT_EFFECT = (
    "audio",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "max_tool_calls",
    "prediction",
    "prompt",
    "reasoning",
    "reasoning_effort",
    "top_logprobs",
    "verbosity",
    "web_search_options",
)
"""Fields of OpenAI's API that no agent honors."""


def fields_without_effect(body: JSON) -> list[str]:
    found = [name for name in WITHOUT_EFFECT if body.get(name)]
    return found + (["modalities"] if body.get("modalities") not in (None, [], ["text"]) else [])


def function_tools(tools: Any) -> tuple[list[Any], list[str]]:
    """The tools that the client runs, and what is to be said about the others, which are OpenAI's own."""
    given = tools if isinstance(tools, list) else []
    found, others = [], []
    for tool in given:
        kind = tool.get("type") if isinstance(tool, dict) else None
        if isinstance(tool, dict) and kind in (None, "function"):
            found.append(tool["function"] if isinstance(tool.get("function"), dict) else tool)
        else:
            others.append(f"tools of the type {kind if isinstance(kind, str) and kind.isidentifier() else 'unknown'}")
    return found, list(dict.fromkeys(others))[:10]


def choice_of(choice: Any) -> str | list[str]:
    """As in `Wishes.choice`. Raises InvalidParams."""
    match choice:
        case None:
            return "auto"
        case "auto" | "none" | "required":
            return str(choice)
        case {"type": "function", "function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            return [name]
        case {"type": "allowed_tools", "allowed_tools": dict(allowed)}:
            return choice_of({**allowed, "type": "allowed_tools"})
        case {"type": "allowed_tools", "mode": "auto"}:
            return "auto"
        case {"type": "allowed_tools", "mode": "required", "tools": [*tools]}:
            return [one for tool in tools for one in choice_of(tool) if isinstance(tool, dict)]
        case _:
            raise InvalidParams("Must be auto, none, required or one of the client's functions.", "tool_choice")


def output_of(form: Any, field: str) -> JSON | None:
    """The JSON Schema of the answer; None for text. Raises InvalidParams."""
    match form:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return {"name": "", "schema": {"type": "object", "additionalProperties": True}}
        case {"type": "json_schema", "schema": {"type": "object", **rest}}:
            name = form.get("name")
            return {"name": name if isinstance(name, str) else "", "schema": {"type": "object", **rest}}
        case {"type": "json_schema"}:
            raise InvalidParams("Must have a schema, of the type object.", field)
        case _:
            raise InvalidParams("Must be of the type text, json_object or json_schema.", field)
