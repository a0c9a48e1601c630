"""The JSON-RPC 2.0 binding (A2A 1.0 §9, 0.3 §7): one request object in, one response object or a stream of them out."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

import bridge
from apps.a2a import extensions, versions
from apps.a2a.callers import admit
from apps.a2a.errors import JSON, InvalidRequest, MethodNotFound, NotJson, Problem, problem
from apps.a2a.fields import UNSTORABLE
from apps.a2a.old.forms import JSON_RPC
from apps.a2a.old.methods import METHODS
from apps.a2a.operations import OPERATIONS, Call, check_scope
from apps.a2a.reading import read_json
from apps.a2a.sse import event_stream

log = logging.getLogger("parley.a2a")

LARGE_BODY = 64 * 1024  # bytes; a larger one is not read on the event loop
JSON_TYPE = re.compile(r"application/([a-z0-9.+-]+\+)?json", re.IGNORECASE)

Id = str | int | None
Asked = Callable[[Call], Awaitable[Any]]
"""Answers with a JSON value, or with updates to be streamed."""


@csrf_exempt
async def endpoint(request: HttpRequest, slug: str) -> HttpResponseBase:
    """An agent's JSON-RPC endpoint: `POST /a2a/<slug>`."""
    if request.method != "POST":
        return HttpResponse(status=405, headers={"Allow": "POST"})
    request_id: Id = None
    try:
        check_headers(request)
        principal, agent = await bridge.run(admit, request.headers.get("Authorization", ""), slug)
        body = await _read(request.body)
        request_id = id_of(body)
        name, operation = operation_of(body, versions.version_of(request))
        check_scope(principal, name)
        activated = extensions.negotiate(agent, request)
        call = Call(principal, agent, body.get("params", {}), request.headers.get("Last-Event-ID", ""))
        response = _answer(request_id, await operation(call))
        if activated:
            response[extensions.HEADER] = ", ".join(activated)
        return response
    except Exception as error:
        return _refusal(request_id, error)


def check_headers(request: HttpRequest) -> None:
    """Raises NotJson."""
    media_type = request.headers.get("Content-Type", "").partition(";")[0].strip()
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if not JSON_TYPE.fullmatch(media_type) or encoding != "identity":
        raise NotJson


async def _read(body: bytes) -> Any:
    if len(body) > LARGE_BODY:
        return await asyncio.to_thread(read_json, body)
    return read_json(body)


def id_of(body: Any) -> Id:
    """The id of a request object. Raises InvalidRequest for what is none."""
    if isinstance(body, list):
        raise InvalidRequest("A batch is not taken: send one request at a time.")
    if not isinstance(body, dict):
        raise InvalidRequest
    if "id" not in body:
        raise InvalidRequest("The id is missing: A2A knows no notifications.")
    request_id = body["id"]
    if isinstance(request_id, bool) or not isinstance(request_id, str | int | None):
        raise InvalidRequest("The id must be a string, an integer or null.")
    if isinstance(request_id, str) and UNSTORABLE.search(request_id):
        raise InvalidRequest("The id must not contain U+0000 or half of a surrogate pair.")
    return request_id


def operation_of(body: JSON, version: str) -> tuple[str, Asked]:
    """The operation that a request object asks for, by its name in 1.0, and how to ask for it in the caller's version.

    Raises InvalidRequest, VersionNotSupported, MethodNotFound.
    """
    method = body.get("method")
    if body.get("jsonrpc") != "2.0":
        raise InvalidRequest('A JSON-RPC request says "jsonrpc": "2.0".')
    if not isinstance(method, str):
        raise InvalidRequest("The method must be a string.")
    if version == versions.OLD:
        return _old_operation(method)
    if version != versions.CURRENT:
        raise versions.refusal(version)
    if method in METHODS:
        raise MethodNotFound(
            f"{method} is a method of A2A {versions.OLD}. "
            f"In A2A {versions.CURRENT}, which the request speaks, it is {METHODS[method].operation}."
        )
    if method not in OPERATIONS:
        raise MethodNotFound
    return method, OPERATIONS[method]


def _old_operation(method: str) -> tuple[str, Asked]:
    if method in OPERATIONS:
        raise MethodNotFound(
            f"{method} is a method of A2A {versions.CURRENT}. Send the header {versions.HEADER}: {versions.CURRENT}."
        )
    if method not in METHODS:
        raise MethodNotFound
    return METHODS[method].operation, partial(METHODS[method], form=JSON_RPC)


def _answer(request_id: Id, answer: Any) -> HttpResponseBase:
    if not isinstance(answer, AsyncGenerator):
        return _json(_result(request_id, answer))
    return event_stream(
        answer,
        lambda response: _result(request_id, response),
        lambda error: _error(request_id, problem(error)),
    )


def _refusal(request_id: Id, error: Exception) -> HttpResponse:
    told = problem(error)
    if told.is_unexpected:
        log.exception("a request failed")
    elif told.row.http == 503:
        log.warning("a request was put off: %s", error)
    status = told.row.http if told.row.keeps_http else 200
    return _json(_error(request_id, told), status, told.http_headers)


def _result(request_id: Id, result: Any) -> JSON:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def _error(request_id: Id, told: Problem) -> JSON:
    error: JSON = {"code": told.row.code, "message": told.message}
    if told.details:
        error["data"] = told.details
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


def _json(value: JSON, status: int = 200, headers: dict[str, str] | None = None) -> HttpResponse:
    content = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    response = HttpResponse(content, content_type="application/json", status=status, headers=headers)
    response["Cache-Control"] = "no-store"
    return response
