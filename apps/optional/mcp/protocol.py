"""Requests and results of MCP as JSON-RPC: of versions with a handshake, and of those without (from 2026-07-28).

Nothing is kept between requests. A client of the first kind tells its capabilities once, so they are not known later;
one of the second kind tells them with each request.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version as version_of_package
from typing import Any

import mcp_types as types
from django.http.request import HttpHeaders
from mcp_types import jsonrpc, methods
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_HANDSHAKE_VERSION,
    MODERN_PROTOCOL_VERSIONS,
    is_version_at_least,
)
from pydantic import BaseModel, TypeAdapter, ValidationError

from apps.a2a.errors import problem
from apps.doors.prompts import library
from apps.record.errors import InvalidRequest, MethodNotFound, Refusal
from apps.record.events import JSON

VERSION_HEADER, METHOD_HEADER, NAME_HEADER = "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
ENCODED = re.compile(r"=\?base64\?(.*)\?=")
WITH_TASKS = "2025-11-25"
"""The only version whose core has tasks."""
INSTRUCTIONS = (
    "Each tool asks an agent. A result names the session; give it as `session` to go on with the conversation. "
    "If a tool answers that its task still works, wait for it with get_task. If it answers with a question, call the "
    "same tool with `task` and the answer as `message`."
)

RESOURCE_NOT_FOUND = -32002
"""Until 2025-11-25; afterwards INVALID_PARAMS."""
_TASK_REQUESTS: dict[str, type[types.Request[Any, Any]]] = {
    "tasks/get": types.GetTaskRequest,
    "tasks/result": types.GetTaskPayloadRequest,
    "tasks/cancel": types.CancelTaskRequest,
    "tasks/list": types.ListTasksRequest,
}
SURFACE = {**methods.CLIENT_REQUESTS, **{(name, WITH_TASKS): kind for name, kind in _TASK_REQUESTS.items()}}
MONOLITH = {**methods.MONOLITH_REQUESTS, **_TASK_REQUESTS}


class McpError(Refusal):
    """The request cannot be served. `code` and `data` are of the JSON-RPC error."""

    def __init__(self, code: int, message: str, data: JSON | None = None) -> None:
        super().__init__(message)
        self.code, self.data = code, data


def invalid(message: str) -> McpError:
    return McpError(jsonrpc.INVALID_PARAMS, message)


@dataclass(frozen=True, slots=True)
class Call:
    """A request. `capabilities` are the client's, so far as they are known."""

    id: str | int
    method: str
    params: Any
    version: str
    capabilities: JSON
    progress_token: str | int | None

    @property
    def is_modern(self) -> bool:
        return self.version in MODERN_PROTOCOL_VERSIONS

    @property
    def takes_links(self) -> bool:
        """Whether results may have links to resources."""
        return is_version_at_least(self.version, "2025-06-18")

    @property
    def takes_forms(self) -> bool:
        """Whether people at the client can be asked with the result of a call."""
        asked = self.capabilities.get("elicitation")
        return self.is_modern and isinstance(asked, dict) and (not asked or "form" in asked)

    @property
    def takes_addresses(self) -> bool:
        """Whether the client can lead people to a page that asks them."""
        asked = self.capabilities.get("elicitation")
        return self.is_modern and isinstance(asked, dict) and "url" in asked

    def result(self, value: BaseModel) -> JSON:
        """The response, in the shape of the call's version. Raises ValidationError."""
        data = value.model_dump(by_alias=True, mode="json", exclude_none=True)
        method = "tools/call" if self.method == "tasks/result" else self.method
        if method not in _TASK_REQUESTS and not isinstance(value, types.CreateTaskResult):
            data = methods.serialize_server_result(method, self.version, data)
        for task in (data, data.get("task"), *data.get("tasks", ())):
            if isinstance(task, dict) and "taskId" in task:
                task.setdefault("ttl", None)  # required: null, for a task that is kept
        if self.is_modern:
            data.setdefault("_meta", {})[types.SERVER_INFO_META_KEY] = SERVER.model_dump(exclude_none=True)
        return {"jsonrpc": "2.0", "id": self.id, "result": data}


SERVER = types.Implementation(name="parley", title="Parley", version=version_of_package("parley-platform"))


def read_request(body: Any, version: str) -> jsonrpc.JSONRPCRequest | None:
    """The request in a body; None for what needs no answer. `version`: the header's.

    Raises McpError, InvalidRequest.
    """
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be one JSON-RPC 2.0 request or notification.")
    try:
        if "id" not in body:
            jsonrpc.JSONRPCNotification.model_validate(body)
            _check_version(version)
            return None
        if "method" not in body:
            TypeAdapter(jsonrpc.JSONRPCResponse | jsonrpc.JSONRPCError).validate_python(body)
            return None
        return jsonrpc.JSONRPCRequest.model_validate(body)
    except ValidationError:
        raise InvalidRequest from None


def read_call(request: jsonrpc.JSONRPCRequest, version: str, headers: HttpHeaders) -> Call:
    """Raises McpError, MethodNotFound."""
    if request.method == "initialize" and version not in MODERN_PROTOCOL_VERSIONS:
        version = LATEST_HANDSHAKE_VERSION
    capabilities = _envelope(request, version, headers) if version in MODERN_PROTOCOL_VERSIONS else {}
    _check_version(version)
    meta = (request.params or {}).get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return Call(request.id, request.method, _params(request, version), version, capabilities, token)


def _check_version(version: str) -> None:
    known = [*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS]
    if version not in known:
        told = {"supported": known, "requested": version}
        raise McpError(jsonrpc.UNSUPPORTED_PROTOCOL_VERSION, "This version of MCP is not supported.", told)


def _envelope(request: jsonrpc.JSONRPCRequest, version: str, headers: HttpHeaders) -> JSON:
    """The client's capabilities (MCP 2026-07-28, Per-request protocol fields). Raises McpError."""
    meta = (request.params or {}).get("_meta")
    needed = (types.PROTOCOL_VERSION_META_KEY, types.CLIENT_CAPABILITIES_META_KEY)
    if not isinstance(meta, dict) or any(key not in meta for key in needed):
        raise invalid(f"params._meta must have {needed[0]} and {needed[1]}.")
    pairs: list[tuple[str, Any]] = [
        (VERSION_HEADER, meta[needed[0]]),
        (METHOD_HEADER, request.method),
    ]
    if named := (request.params or {}).get(NAMED_BY.get(request.method, "")):
        pairs.append((NAME_HEADER, named))
    for header, value in pairs:
        if _decoded(headers.get(header, "")) != value:
            raise McpError(jsonrpc.HEADER_MISMATCH, f"The header {header} does not match the body.")
    capabilities = meta[needed[1]]
    return capabilities if isinstance(capabilities, dict) else {}


def _decoded(header: str) -> str | None:
    encoded = ENCODED.fullmatch(header)
    with suppress(ValueError):
        return b64decode(encoded[1], validate=True).decode() if encoded else header
    return None


def _params(request: jsonrpc.JSONRPCRequest, version: str) -> Any:
    """Raises McpError, MethodNotFound."""
    try:
        found = methods.parse_client_request(
            request.method, version, request.params, surface=SURFACE, monolith=MONOLITH
        )
    except KeyError:
        raise MethodNotFound from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = ".".join(str(step) for step in first["loc"][:6])
        raise invalid(f"{path or 'params'}: {first['msg']}.") from None
    return found.params


def capabilities(version: str) -> types.ServerCapabilities:
    offered = types.ServerCapabilities(tools=types.ToolsCapability(), resources=types.ResourcesCapability())
    if library() is not None:
        offered.prompts = types.PromptsCapability()
    if version == WITH_TASKS:
        calls = types.ServerTasksRequestsCapability(tools=types.TasksToolsCapability(call=types.TasksCallCapability()))
        offered.tasks = types.ServerTasksCapability(
            list=types.TasksListCapability(), cancel=types.TasksCancelCapability(), requests=calls
        )
    return offered


def initialize(params: types.InitializeRequestParams) -> types.InitializeResult:
    """With the client's version, or the newest that has a handshake."""
    asked = params.protocol_version
    version = asked if asked in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION
    return types.InitializeResult(
        protocol_version=version,
        capabilities=capabilities(version),
        server_info=SERVER,
        instructions=INSTRUCTIONS,
    )


def discover(version: str) -> types.DiscoverResult:
    return types.DiscoverResult(
        supported_versions=list(MODERN_PROTOCOL_VERSIONS),
        capabilities=capabilities(version),
        instructions=INSTRUCTIONS,
    )


JSONRPC_CODES = (
    jsonrpc.PARSE_ERROR,
    jsonrpc.INVALID_REQUEST,
    jsonrpc.METHOD_NOT_FOUND,
    jsonrpc.INVALID_PARAMS,
    jsonrpc.INTERNAL_ERROR,
)
ALWAYS_400 = (
    jsonrpc.PARSE_ERROR,
    jsonrpc.INVALID_REQUEST,
    jsonrpc.HEADER_MISMATCH,
    jsonrpc.UNSUPPORTED_PROTOCOL_VERSION,
)
MODERN_STATUS = {jsonrpc.INVALID_PARAMS: 400, jsonrpc.METHOD_NOT_FOUND: 404}


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as a JSON-RPC response, with its HTTP status and headers."""

    response: JSON
    status: int
    headers: Mapping[str, str]


def failure(error: Exception, version: str, request_id: str | int | None = None) -> Failure:
    """Errors of the platform keep their HTTP status."""
    refused = problem(error)
    keeps_status = refused.codes.keeps_status and not isinstance(error, McpError)
    if isinstance(error, McpError):
        code = error.code
    elif keeps_status or refused.codes.rpc in JSONRPC_CODES:
        code = refused.codes.rpc
    else:  # codes of A2A mean other things here
        code = jsonrpc.INVALID_PARAMS
    told: JSON = {"code": code, "message": refused.message}
    if isinstance(error, McpError) and error.data is not None:
        told["data"] = error.data
    if keeps_status or refused.codes.a2a >= 500:
        status = refused.codes.a2a
    else:
        table = MODERN_STATUS if version in MODERN_PROTOCOL_VERSIONS else {}
        status = 400 if code in ALWAYS_400 else table.get(code, 200)
    return Failure({"jsonrpc": "2.0", "id": request_id, "error": told}, status, refused.http_headers)
