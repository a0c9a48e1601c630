"""The two bindings: JSON-RPC 2.0 (A2A 1.0 §9, 0.3 §7) and HTTP+JSON (A2A 1.0 §11, 0.3 §3.2.3; below `/v1/`)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt
from pydantic.alias_generators import to_snake

from apps.a2a import http
from apps.a2a.authentication import TaskReading
from apps.a2a.errors import JSON, Problem, problem
from apps.a2a.operations import (
    EXTENSION_METHODS,
    OPERATIONS,
    STREAMING_OPERATIONS,
    Execute,
    check_old,
    execute,
    execute_old,
)
from apps.a2a.protojson import read_query
from apps.a2a.versions.v0_3 import HTTP_JSON, JSON_RPC, METHODS
from apps.a2a.versions.v1_1 import execute_next
from apps.accounts.requests import bodies, quotas
from apps.record import wire
from apps.record.content.strict_json import UNSTORABLE
from apps.record.errors import InvalidFields, InvalidRequest, MethodNotAllowed, MethodNotFound
from parley.telemetry import metrics

Id = str | int | None
EXECUTE: dict[str, Execute] = {
    http.V1_0: execute,
    http.V0_3: partial(execute_old, form=JSON_RPC),
    http.V1_1: execute_next,
}
REST_EXECUTE: dict[str, Execute] = EXECUTE | {http.V0_3: partial(execute_old, form=HTTP_JSON)}


@csrf_exempt
async def jsonrpc(request: HttpRequest, slug: str = "") -> HttpResponseBase:
    """`POST /a2a/<slug>`, or `POST /a2a`: JSON-RPC of an agent, or of the front door."""
    request_id: Id = None
    began, method = time.perf_counter(), ""
    try:
        if request.method != "POST":
            raise MethodNotAllowed(("POST",))
        http.check_content_type(request)
        early = await http.early_value(request)
        incoming = await http.authenticate_request(request, slug, reading=_reading_of(early) if slug else None)
        content = await bodies.read(request, incoming.principal)
        body = await http.parsed(content) if early is None else early
        request_id, has_id = _read_id(body)
        version = http.version_of(request)
        method = _read_method(body, version)
        if not has_id:
            await _refuse_without_id(incoming, method, body, version)
        answer = await EXECUTE[version](incoming, method, body.get("params", {}))
        _count(method, began)
        if answer.is_stream:
            return _jsonrpc_stream(request_id, answer)
        return http.json_response(http.jsonrpc_text(request_id, answer.content), headers=answer.headers)
    except Exception as error:
        refused = problem(error)
        _count(method, began, str(refused.codes.rpc))
        if _wants_stream_of_error(request, method, refused):
            return _one_event(request_id, refused)
        return _jsonrpc_refusal(request_id, refused)


def _count(method: str, began: float, code: str = "ok") -> None:
    """Count an operation by its name in A2A 1.0; "" if the request names none."""
    name = METHODS[method].operation if method in METHODS else method or "none"
    metrics.A2A_REQUESTS[name, code].inc()
    metrics.A2A_SECONDS[name].observe(time.perf_counter() - began)


def _reading_of(body: Any) -> TaskReading | None:
    """What a GetTask, in any version, reads."""
    is_get = isinstance(body, dict) and body.get("method") in ("GetTask", "tasks/get")
    return TaskReading.of(body.get("params")) if is_get else None


def _read_id(body: Any) -> tuple[Id, bool]:
    """The id, and whether there is one. Raises InvalidRequest."""
    if isinstance(body, list):
        raise InvalidRequest("A batch is not taken: send one request at a time.")
    if not isinstance(body, dict):
        raise InvalidRequest
    request_id = body.get("id")
    if isinstance(request_id, bool) or not isinstance(request_id, str | int | None):
        raise InvalidRequest("The id must be a string, an integer or null.")
    if isinstance(request_id, str) and UNSTORABLE.search(request_id):
        raise InvalidRequest("The id must not contain U+0000 or half of a surrogate pair.")
    return request_id, "id" in body


async def _refuse_without_id(incoming: http.AuthenticatedRequest, method: str, body: JSON, version: str) -> None:
    """Raises Refusal. In 0.3, what is wrong in the request comes first."""
    if version == http.V0_3:
        await check_old(incoming, method, body.get("params", {}), JSON_RPC)
    raise InvalidRequest("The id is missing: A2A knows no notifications.")


def _read_method(body: JSON, version: str) -> str:
    """Raises InvalidRequest, VersionNotSupported, MethodNotFound."""
    method = body.get("method")
    if body.get("jsonrpc") != "2.0":
        raise InvalidRequest('A JSON-RPC request says "jsonrpc": "2.0".')
    if not isinstance(method, str):
        raise InvalidRequest("The method must be a string.")
    if version != http.V1_0 and not http.is_served(version):
        raise http.version_refusal(version)
    if version == http.V0_3 and method in OPERATIONS:
        raise MethodNotFound(
            f"{method} is a method of A2A {http.V1_0}. Send the header {http.VERSION_HEADER}: {http.V1_0}."
        )
    if version != http.V0_3 and method in METHODS:
        raise MethodNotFound(
            f"{method} is a method of A2A {http.V0_3}. "
            f"In A2A {http.V1_0}, which the request speaks, it is {METHODS[method].operation}."
        )
    if method not in METHODS if version == http.V0_3 else method not in OPERATIONS and method not in EXTENSION_METHODS:
        raise MethodNotFound
    return method


def _jsonrpc_stream(request_id: Id, answer: http.Answer) -> HttpResponseBase:
    stream_format = http.StreamFormat(
        update=partial(http.jsonrpc_text, request_id),
        error=lambda error: error_object(request_id, problem(error)),
    )
    return http.event_stream(answer, stream_format)


def _jsonrpc_refusal(request_id: Id, refused: Problem) -> HttpResponse:
    status = refused.codes.a2a if refused.codes.keeps_status else 200
    return http.json_response(error_object(request_id, refused), status, refused.http_headers)


def _wants_stream_of_error(request: HttpRequest, method: str, refused: Problem) -> bool:
    """Whether a client of 0.3 wants a stream and no JSON, in which it would not find the error's code.

    It reads an HTTP status, if the error has one. The SDK's sends `*/*`, too.
    """
    accepted = {one.partition(";")[0].strip() for one in request.headers.get("Accept", "").split(",")}
    wants_only_events = "text/event-stream" in accepted and accepted <= {"text/event-stream", "*/*"}
    is_stream = method in METHODS and METHODS[method].operation in STREAMING_OPERATIONS
    return is_stream and wants_only_events and not refused.codes.keeps_status


def _one_event(request_id: Id, refused: Problem) -> HttpResponse:
    """A stream of one event: the error."""
    frame = wire.sse_frame(error_object(request_id, refused))
    return HttpResponse(frame, content_type="text/event-stream", headers={"Cache-Control": "no-store"})


def error_object(request_id: Id, refused: Problem) -> JSON:
    error: JSON = {"code": refused.codes.rpc, "message": refused.message}
    if refused.details:
        error["data"] = refused.details
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


REST_STREAM = http.StreamFormat(
    update=lambda text: text, error=lambda error: problem(error).status, error_event="error"
)

ADDRESSES: dict[str, dict[str, str]] = {
    "message:send": {"POST": "SendMessage"},
    "message:stream": {"POST": "SendStreamingMessage"},
    "tasks": {"GET": "ListTasks"},
    "tasks/{id}:cancel": {"POST": "CancelTask"},
    "tasks/{id}:subscribe": {"GET": "SubscribeToTask", "POST": "SubscribeToTask"},
    "tasks/{id}": {"GET": "GetTask"},
    "tasks/{taskId}/pushNotificationConfigs": {
        "GET": "ListTaskPushNotificationConfigs",
        "POST": "CreateTaskPushNotificationConfig",
    },
    "tasks/{taskId}/pushNotificationConfigs/{id}": {
        "GET": "GetTaskPushNotificationConfig",
        "DELETE": "DeleteTaskPushNotificationConfig",
    },
    "extendedAgentCard": {"GET": "GetExtendedAgentCard"},
}
"""The operation of each HTTP method, by the address below an agent or the front door."""


@csrf_exempt
async def rest(
    request: HttpRequest, operations: Mapping[str, str], version: str, slug: str = "", **path_fields: str
) -> HttpResponseBase:
    """An address of HTTP+JSON, of the agent `slug` or at the front door."""
    began, method = time.perf_counter(), ""
    try:
        method = _operation_of(request, operations)
        _check_rest_body(request)
        is_plain_get = method in ("GetTask", "tasks/get") and slug and not request.META["QUERY_STRING"]
        is_known = quotas.was_verified(request.META.get("HTTP_AUTHORIZATION", ""))
        reading = TaskReading.of(path_fields) if is_plain_get and is_known else None
        incoming = await http.authenticate_request(request, slug, reading=reading)
        version = http.check_version(request, version)
        params = _merge_path(await _request_fields(incoming), path_fields)
        answer = await REST_EXECUTE[version](incoming, method, params)
        _count(method, began)
        if answer.is_stream:
            return http.event_stream(answer, REST_STREAM)
        kind = http.response_type(request, version)
        return http.json_response(answer.content, headers=answer.headers, content_type=kind)
    except Exception as error:
        refused = problem(error)
        _count(method, began, str(refused.codes.rpc))
        return http.problem_response(refused, http.response_type(request, version))


def _operation_of(request: HttpRequest, operations: Mapping[str, str]) -> str:
    """HEAD counts as GET. Raises MethodNotAllowed."""
    verb = "GET" if request.method == "HEAD" else str(request.method)
    if verb not in operations:
        raise MethodNotAllowed(sorted(operations))
    return operations[verb]


def _merge_path(given: JSON, path_fields: Mapping[str, str]) -> JSON:
    """The given fields and those of the path. Raises InvalidFields where they differ."""
    spellings = {spelling: name for name in path_fields for spelling in (name, to_snake(name))}
    differing = [
        name for spelling, name in spellings.items() if given.get(spelling) not in (None, "", path_fields[name])
    ]
    if differing:
        raise InvalidFields([(name, "Differs from what the address says.") for name in differing])
    return {name: value for name, value in given.items() if name not in spellings} | dict(path_fields)


def _check_rest_body(request: HttpRequest) -> None:
    """Raises UnsupportedMediaType. Without a body, no `Content-Type` is needed."""
    if request.method == "POST" and (bodies.has_body(request) or request.content_type):
        http.check_content_type(request)


async def _request_fields(incoming: http.AuthenticatedRequest) -> JSON:
    """Raises as `http.read_object`."""
    request = incoming.request
    if request.method != "POST":
        return read_query(request.META["QUERY_STRING"])
    return await http.read_object(incoming) if await bodies.read(request, incoming.principal) else {}


OLD_ADDRESSES: dict[str, dict[str, str]] = {
    "v1/message:send": {"POST": "message/send"},
    "v1/message:stream": {"POST": "message/stream"},
    "v1/tasks/{id}:cancel": {"POST": "tasks/cancel"},
    "v1/tasks/{id}:subscribe": {"GET": "tasks/resubscribe", "POST": "tasks/resubscribe"},
    "v1/tasks/{id}": {"GET": "tasks/get"},
    "v1/tasks/{id}/pushNotificationConfigs": {
        "GET": "tasks/pushNotificationConfig/list",
        "POST": "tasks/pushNotificationConfig/set",
    },
    "v1/tasks/{id}/pushNotificationConfigs/{pushNotificationConfigId}": {
        "GET": "tasks/pushNotificationConfig/get",
        "DELETE": "tasks/pushNotificationConfig/delete",
    },
    "v1/card": {"GET": "agent/getAuthenticatedExtendedCard"},
}
"""The addresses and methods of A2A 0.3."""

REST_ADDRESSES = {http.V1_0: ADDRESSES, http.V0_3: OLD_ADDRESSES}
