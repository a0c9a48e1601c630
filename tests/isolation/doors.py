"""Every field by which a request to A2A 0.3, our extension of A2A, or another door can name something.

Methods come from the tables that the product dispatches by, and fields from the models that read the requests.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import Any, get_args

from a2a.compat.v0_3.types import A2ARequest
from ag_ui.core.types import RunAgentInput
from pydantic import TypeAdapter

from apps.a2a.operations import EXTENSION_METHODS
from apps.a2a.requests import ClearContextRequest, FeedbackRequest, ListContextsRequest
from apps.a2a.versions.v0_3 import METHODS
from apps.optional.langgraph import requests as langgraph
from apps.optional.mcp import protocol, tools
from apps.optional.openai import requests as openai
from apps.record.events import JSON
from tests.isolation.asking import Answer, Caller
from tests.isolation.fields import leaves, put

OLD, EXTENSION, MCP, OPENAI, AGUI, LANGGRAPH = "A2A 0.3", "A2A extension", "MCP", "OpenAI", "AG-UI", "LangGraph"

KINDS: dict[str, dict[str, str]] = {
    OLD: {
        "id": "task of session",
        "taskId": "task of session",
        "pushNotificationConfigId": "webhook",
        "message.taskId": "task of session",
        "message.contextId": "contextId",
        "message.referenceTaskIds[]": "task of session",
    },
    EXTENSION: {"taskId": "task of session", "contextId": "contextId of shared session", "tenant": "agent"},
    MCP: {
        "arguments.session": "contextId",
        "arguments.task": "task of session",
        "name": "agent",
        "notifications.resourceSubscriptions[]": "resource of session",
        "prompts/get name": "command of prompt",
        "ref.name": "agent",
        "ref.uri": "resource of session",
        "taskId": "task of session",
        "uri": "resource of session",
    },
    OPENAI: {
        "model": "agent",
        "metadata.session": "contextId",
        "conversation": "contextId",
        "conversation.id": "contextId",
        "previous_response_id": "response",
        "user": "contextId",
    },
    AGUI: {"threadId": "contextId", "resume[].interruptId": "task that asks"},
    LANGGRAPH: {
        "assistant_id": "agent",
        "graph_id": "agent",
        "metadata.assistant_id": "agent",
        "metadata.graph_id": "agent",
        "ids[]": "session",
        "before": "message of session",
    },
}
"""What a field of a door names: a key of `Place.ids`. Some paths follow their method."""
NAMELESS: dict[str, str] = {
    OLD: r"(message\.)?metadata|historyLength|configuration.*|pushNotificationConfig\..*|message\.referenceTaskIds"
    r"|message\.(kind|role|messageId|extensions.*|parts.*)",
    EXTENSION: "rating|feedback|metadata|pageSize|pageToken",
    MCP: r"|_meta.*|inputResponses|requestState|cursor|level|task.*|protocolVersion|capabilities.*|clientInfo.*"
    r"|ref\.(type|title)|argument\..*|context.*|notifications\..*Changed|notifications\.resourceSubscriptions"
    r"|arguments(\.(message|inputs|answer|files.*))?",
    OPENAI: r"stream.*|metadata|tool_choice|(messages|input)\[\].*|input|n|instructions|background|tools|text|seed"
    r"|temperature|top_p|stop(\[\])?|parallel_tool_calls|max(_\w+)?_tokens|(presence|frequency)_penalty|response_format",
    AGUI: r"runId|parentRunId|protocolVersion|state|messages\[\].*|(tools|context).*|forwardedProps"
    r"|resume(\[\]\.(status|payload|metadata))?",
    LANGGRAPH: r"thread_id|limit|offset"
    r"|sort_\w+|select.*|name|metadata|status|ids|if_(not_)?exists|input|command.*|config"
    r"|context|stream_.*|checkpoint(_id|_during)?|multitask_strategy|on_\w+|strict_resume|durability|feedback_keys|langsmith_tracer",
}
"""Fields that name nothing, or to which the caller gives a name of their own."""
EXTENSION_MODELS = {
    "tasks/feedback": FeedbackRequest,
    "contexts/list": ListContextsRequest,
    "contexts/clear": ClearContextRequest,
}
OPENAI_PATHS: dict[type[openai.Common], str] = {
    openai.ChatRequest: "/v1/chat/completions",
    openai.ResponseRequest: "/v1/responses",
}
LANGGRAPH_PATHS: dict[type[langgraph.Body], str] = {
    langgraph.AssistantSearch: "/assistants/search",
    langgraph.AssistantFilter: "/assistants/count",
    langgraph.NewThread: "/threads",
    langgraph.ThreadChanges: "/threads/{session}",
    langgraph.ThreadSearch: "/threads/search",
    langgraph.ThreadFilter: "/threads/count",
    langgraph.HistoryPage: "/threads/{session}/history",
    langgraph.NewRun: "/threads/{session}/runs",
}
AGENTS_TOOL = "echo"
TOOL_ARGUMENTS = {tool.name: tools.TaskArgument for tool in tools.TASK_TOOLS} | {AGENTS_TOOL: tools.Arguments}


@dataclass(frozen=True)
class DoorField:
    """`method` is the door's: of JSON-RPC, the name of a tool, or a path."""

    door: str
    method: str
    path: str

    def __str__(self) -> str:
        return f"{self.door} {self.method} {self.path}"

    @property
    def kind(self) -> str | None:
        kinds = KINDS[self.door]
        return kinds.get(f"{self.method} {self.path}") or kinds.get(self.path)

    @property
    def is_known(self) -> bool:
        return self.kind is not None or re.fullmatch(NAMELESS[self.door], self.path) is not None


def door_fields() -> list[DoorField]:
    """Of all doors. Raises KeyError for a method or a model that nobody described."""
    old = {one.model_fields["method"].default: one for one in get_args(A2ARequest.model_fields["root"].annotation)}
    found = [(OLD, method, _params(old[method])) for method in METHODS]
    found += [(EXTENSION, method, EXTENSION_MODELS[method]) for method in EXTENSION_METHODS]
    found += [(MCP, name, _params(protocol.MONOLITH[name])) for name in sorted({one for one, _ in protocol.SURFACE})]
    found += [(OPENAI, OPENAI_PATHS[model], model) for model in openai.Common.__subclasses__()]
    found.append((AGUI, "/agui/echo", RunAgentInput))
    found += [(LANGGRAPH, path, model) for model, path in LANGGRAPH_PATHS.items()]
    fields = [DoorField(door, method, path) for door, method, model in found for path in paths_of(model)]
    fields += [
        DoorField(MCP, tool, f"arguments.{path}") for tool, model in TOOL_ARGUMENTS.items() for path in paths_of(model)
    ]
    with_metadata = [
        path for path in LANGGRAPH_PATHS.values() if "threads" in path and not path.endswith(("y", "runs"))
    ]
    fields += [
        DoorField(LANGGRAPH, path, f"metadata.{name}")
        for path in with_metadata
        for name in ("graph_id", "assistant_id")
    ]
    return fields + [DoorField(OPENAI, path, f"metadata.{openai.SESSION}") for path in OPENAI_PATHS.values()]


def _params(request: Any) -> Any:
    """The type of the parameters of a JSON-RPC request's model."""
    field = request.model_fields.get("params")
    return field.annotation if field else None


def paths_of(model: Any) -> list[str]:
    """The fields of what a model reads, such as `message.parts[].text`."""
    schema = TypeAdapter(model).json_schema(by_alias=True)
    return [one for one in dict.fromkeys(leaves(schema, schema.get("$defs", {}))) if one]


def ask_door(caller: Caller, field: DoorField, own: JSON, value: Any) -> Answer:
    """The answer to a request whose field has the value; its other fields name what is one's own."""
    path, body, headers = _request(field, own)
    if field.door == OPENAI and field.path == "user":
        value = f"session:{value}"
    if "params" in body:
        body["params"] = put(body["params"], field.path, str(value))
    else:
        body = put(body, field.path, str(value))
    method = "PATCH" if field.method == LANGGRAPH_PATHS[langgraph.ThreadChanges] else "POST"
    return caller.ask(method, path, body, **headers)


def _request(field: DoorField, own: JSON) -> tuple[str, JSON, dict[str, str]]:
    """Path, body and headers."""
    if field.door == OPENAI:
        said = [{"role": "user", "content": "a"}]
        words = {"messages": said} if "chat" in field.method else {"input": said}
        return field.method, {"model": "echo", "stream": True, **words}, {}
    if field.door == AGUI:
        said = [{"id": "m", "role": "user", "content": "a"}]
        empty = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
        resumed = {"resume": [{"status": "resolved", "payload": "a"}]} if "resume" in field.path else {}
        run = {"threadId": str(uuid.uuid4()), "runId": str(uuid.uuid4()), "messages": said}
        return field.method, {**run, **empty, **resumed}, {}
    if field.door == LANGGRAPH:
        body = {"metadata": {}} if "{session}" in field.method and field.path.startswith("metadata.") else {}
        if field.method.endswith("/runs"):
            body = {"assistant_id": "echo", "input": {"messages": "a"}}
        return f"/langgraph{field.method}".format(session=own["session"]), body, {}
    method, params = field.method, _params_of_rpc(field, own)
    if method in TOOL_ARGUMENTS:
        params, method = {"name": method, **params}, "tools/call"
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    if field.door == MCP:
        return "/mcp", body, {"MCP-Protocol-Version": protocol.WITH_TASKS}
    path = "/a2a" if field.path == "tenant" else "/a2a/echo"
    return path, body, {"A2A-Version": "1.0" if field.door == EXTENSION else "0.3"}


def _params_of_rpc(field: DoorField, own: JSON) -> JSON:
    task = str(own["task of session"])
    if field.door == MCP:
        if field.method == "completion/complete":
            kind = "ref/resource" if field.path == "ref.uri" else "ref/prompt"
            return {"ref": {"type": kind}, "argument": {"name": "a", "value": "a"}}
        is_agents = field.method in (AGENTS_TOOL, "tools/call")
        return {"arguments": {"message": "a"}, "task": {}} if is_agents else {}
    if field.door == EXTENSION:
        return {"taskId": task, "rating": 1} if field.method == "tasks/feedback" else {}
    if field.method.startswith("message/"):
        parts = [{"kind": "text", "text": "a"}]
        message = {"kind": "message", "messageId": str(uuid.uuid4()), "role": "user", "parts": parts}
        return {"message": message, "configuration": {"blocking": False}}
    if field.method.endswith("/set"):
        return {"taskId": task, "pushNotificationConfig": {"url": "https://example.org/"}}
    if field.method.endswith(("Config/get", "Config/delete")):
        return {"id": task, "pushNotificationConfigId": own["webhook"]}
    return {"id": task}
