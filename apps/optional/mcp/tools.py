"""The tools: what the owners of agents switched on (`Agent.mcp_tools`), and two for tasks that go on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import mcp_types as types

from apps.a2a.protojson import Base64, Line, ProtoMessage, Struct, Text, Url
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.optional.mcp.protocol import WITH_TASKS, McpError, invalid
from apps.plans.registry import definition_of
from apps.record import wire
from apps.record.events import JSON

SKILL = "__"
"""Between an agent's slug, which has no underscore, and a skill's name."""
LONGEST_NAME = 64  # characters: what models take as a tool's name
AGENTS_PER_PAGE = 50
GET_TASK, CANCEL_TASK = "get_task", "cancel_task"

SESSION: JSON = {
    "type": "string",
    "description": "The session of an earlier result, to go on with that conversation. By default a new one begins.",
}
TASK: JSON = {
    "type": "string",
    "description": "The task that asked a question; then `message` or `answer` is the answer.",
}
ANSWER: JSON = {
    "type": "object",
    "description": "The answer's fields, if the question has a form. Only together with `task`.",
}
FILES: JSON = {
    "type": "array",
    "description": "Files for the agent: each with its content in Base64 as `data`, or with a `url`.",
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "mimeType": {"type": "string"},
            "data": {"type": "string", "contentEncoding": "base64"},
            "url": {"type": "string", "format": "uri"},
        },
    },
}
ONE_TASK: JSON = {
    "type": "object",
    "properties": {"task": {"type": "string", "description": "The id of the task."}},
    "required": ["task"],
}


class FileArgument(ProtoMessage):
    """A file in a tool's arguments."""

    one_of = ("data", "url")

    name: Line = ""
    mime_type: Line = ""
    data: Base64 | None = None
    url: Url | None = None

    @property
    def part(self) -> JSON:
        held = {"raw": self.data} if self.data is not None else {"url": self.url}
        named = {"filename": self.name, "mediaType": self.mime_type}
        return held | {name: value for name, value in named.items() if value}


class Arguments(ProtoMessage):
    """The arguments of an agent's tool."""

    message: Text = ""
    files: list[FileArgument] = []
    inputs: Struct | None = None
    session: Line = ""
    task: Line = ""
    answer: Struct | None = None


class TaskArgument(ProtoMessage):
    """The arguments of the tools for tasks."""

    task: Line


def list_tools(principal: Principal, cursor: str | None, version: str) -> types.ListToolsResult:
    """A page of tools. Raises McpError for a cursor of another list."""
    bound = wire.binding("mcp tools", principal.user_id)
    offered = Agent.objects.visible_to(principal).exclude(mcp_tools=Agent.McpTools.OFF)
    rows = offered.select_related("current_version").order_by("slug")
    if cursor is not None:
        rows = rows.filter(slug__gt=read_cursor(cursor, bound))
    page = list(rows[: AGENTS_PER_PAGE + 1])
    shown = page[:AGENTS_PER_PAGE]
    tools = [_tool(named, schema) for agent in shown if (schema := _schema(agent)) for named in names_of(agent)]
    if len(page) == len(shown):
        tools += TASK_TOOLS
    if version != WITH_TASKS:
        tools = [tool.model_copy(update={"execution": None}) for tool in tools]
    more = wire.encode_cursor([shown[-1].slug], bound) if len(page) > len(shown) else None
    return types.ListToolsResult(tools=tools, next_cursor=more)


def read_cursor(cursor: str, bound: str) -> Any:
    """Raises McpError."""
    try:
        return wire.decode_cursor(cursor, bound)[0]
    except wire.InvalidCursor:
        raise invalid("cursor: not one that this list gave to you.") from None


def slug_of(name: Any) -> str:
    """The slug of the agent whose tool this could be, or ""."""
    return name.partition(SKILL)[0] if isinstance(name, str) and name not in (GET_TASK, CANCEL_TASK) else ""


def find_tool(agent: Agent | None, name: str) -> tuple[Agent, str]:
    """The agent of a tool, and the id of its skill or "". `agent`: that of the slug, if the caller may use it.

    Raises McpError for a tool that the caller is not offered.
    """
    if agent is not None and agent.mcp_tools != Agent.McpTools.OFF:
        for tool in names_of(agent):
            if tool.name == name:
                return agent, tool.skill
    raise unknown_tool(name)


def unknown_tool(name: str) -> McpError:
    return invalid(f"Unknown tool: {name[:LONGEST_NAME]}")


@dataclass(frozen=True, slots=True)
class Named:
    """A tool's name, and the id of its skill or ""."""

    name: str
    skill: str
    title: str
    description: str


def names_of(agent: Agent) -> Iterator[Named]:
    """What an agent's tools are called."""
    if agent.mcp_tools == Agent.McpTools.AGENT or not agent.skills:
        yield Named(agent.slug, "", agent.name, agent.description)
        return
    used: set[str] = set()
    for skill in agent.skills:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", str(skill["id"])).strip("-") or "skill"
        name = whole = f"{agent.slug}{SKILL}{plain}"[:LONGEST_NAME]
        number = 1
        while name in used:
            number += 1
            name = f"{whole[: LONGEST_NAME - 4]}-{number}"
        used.add(name)
        title = f"{agent.name}: {skill.get('name') or skill['id']}"
        yield Named(name, str(skill["id"]), title, _description(skill) or agent.description)


def _description(skill: JSON) -> str:
    examples = [f'"{one}"' for one in skill.get("examples") or ()]
    told = [skill.get("description", ""), f"Examples: {', '.join(examples)}." if examples else ""]
    return " ".join(one for one in told if one)


def _tool(named: Named, schema: JSON) -> types.Tool:
    return types.Tool(
        name=named.name,
        title=named.title,
        description=named.description,
        input_schema=schema,
        annotations=types.ToolAnnotations(title=named.title, read_only_hint=False, open_world_hint=True),
        execution=types.ToolExecution(task_support="optional"),
    )


def _schema(agent: Agent) -> JSON:
    plan = definition_of(agent) if agent.kind == Agent.Kind.PLAN else None
    inputs = plan.inputs if plan else {}
    message: JSON = {"type": "string", "description": "What to ask of the agent, in words."}
    if inputs.get("properties"):
        message["description"] = "What to say beside the inputs, or the answer to a question."
        described = {"inputs": {"description": "What the plan starts with.", **inputs}}
        required: list[str] = []  # an answer needs none
    else:
        described, required = {}, ["message"]
    files = {"files": FILES} if takes_files(agent) else {}
    properties = {**described, "message": message, **files, "session": SESSION, "task": TASK, "answer": ANSWER}
    return {"type": "object", "properties": properties, "required": required}


def takes_files(agent: Agent) -> bool:
    return agent.kind == Agent.Kind.PLAN or any(
        mode not in ("text/plain", "application/json") for mode in agent.input_modes
    )


TASK_TOOLS = [
    types.Tool(
        name=GET_TASK,
        title="Wait for a task",
        description="Waits for a while until the task of an earlier call ends or asks, and returns its result.",
        input_schema=ONE_TASK,
        annotations=types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
    ),
    types.Tool(
        name=CANCEL_TASK,
        title="Cancel a task",
        description="Cancels the task of an earlier call that still works or waits for an answer.",
        input_schema=ONE_TASK,
        annotations=types.ToolAnnotations(
            read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
        ),
    ),
]
