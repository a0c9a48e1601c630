"""What a client asks, for the model library: its tools, the form of the answer, settings.

It imports the model library: import it late.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from pydantic_ai import Agent, ModelRetry, ModelSettings, RunContext, StructuredDict, UserError
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ExternalToolset

from agentkit.clients import Client
from agentkit.context import TaskContext
from agentkit.errors import AgentFailure
from agentkit.llm.models import surroundings


def output_type(client: Client) -> Any:
    """The type of the model's answer. Raises AgentFailure for a schema that no model can be given."""
    if client.output is None:
        return str
    try:
        return StructuredDict(copy.deepcopy(dict(client.output)), name=client.output_name or None)
    except UserError as error:
        raise AgentFailure(f"The answer cannot have the form that was asked for: {error}", "output_schema") from None


def check_output(agent: Agent[TaskContext, Any], client: Client) -> None:
    """Let the agent's model answer again while its answer does not fit the client's schema."""

    @agent.output_validator
    def fits(answer: Any) -> Any:
        if isinstance(answer, dict) and (problem := surroundings().misfit(client.output, answer)):
            raise ModelRetry(problem)
        return answer


def as_text(answer: Any) -> str:
    """A model's answer, as JSON if it has a form."""
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


def with_clients(
    toolsets: Sequence[AbstractToolset[TaskContext]], client: Client
) -> list[AbstractToolset[TaskContext]]:
    """The tools, and those of the client, which replace any of the same name."""
    if not client.tools:
        return list(toolsets)
    theirs = ExternalToolset[TaskContext](
        [
            ToolDefinition(
                name=one.name,
                description=one.description or None,
                parameters_json_schema=copy.deepcopy(dict(one.parameters)) or {"type": "object", "properties": {}},
            )
            for one in client.tools
        ]
    )
    return [*(one.filtered(lambda ctx, tool: tool.name not in client.names) for one in toolsets), theirs]


def settings(client: Client, own: Mapping[str, Any]) -> Callable[[RunContext[TaskContext]], ModelSettings]:
    """The client's settings of the model, within the agent's `own` limit. The first step calls a demanded tool."""
    asked = {**client.settings}
    if (most := own.get("max_tokens")) is not None and "max_tokens" in asked:
        asked["max_tokens"] = min(most, asked["max_tokens"])

    def of_step(ctx: RunContext[TaskContext]) -> ModelSettings:
        first = {"tool_choice": list(client.must_call)} if client.must_call and ctx.run_step <= 1 else {}
        return cast(ModelSettings, asked | first)

    return of_step
