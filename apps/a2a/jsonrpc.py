"""The JSON-RPC 2.0 binding (A2A 1.0 §9, 0.3 §7): one request object in, one response object or a stream of them out."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from apps.a2a import versions
from apps.a2a.answers import json_response
from apps.a2a.calls import Answer, CarryOut, arrive, carry_out, check_headers, read_body
from apps.a2a.errors import JSON, InvalidRequest, MethodNotFound, Problem, WrongVerb, log_problem, problem
from apps.a2a.old.forms import JSON_RPC
from apps.a2a.old.methods import METHODS, carry_out_old
from apps.a2a.operations import OPERATIONS, OWN_METHODS
from apps.a2a.sse import EventStream, Wording
from apps.record.strict_json import UNSTORABLE

Id = str | int | None
CARRY_OUT: dict[str, CarryOut] = {versions.CURRENT: carry_out, versions.OLD: partial(carry_out_old, form=JSON_RPC)}


@csrf_exempt
async def endpoint(request: HttpRequest, slug: str = "") -> HttpResponseBase:
    """An agent's JSON-RPC endpoint, `POST /a2a/<slug>`; the front door, `POST /a2a`, where `tenant` names the agent."""
    request_id: Id = None
    try:
        if request.method != "POST":
            raise WrongVerb(("POST",))
        check_headers(request)
        arrival = await arrive(request, slug)
        body = await read_body(request.body)
        request_id = id_of(body)
        version = versions.version_of(request)
        method = method_of(body, version)
        return _response(request_id, await CARRY_OUT[version](arrival, method, body.get("params", {})))
    except Exception as error:
        return _refusal(request_id, error)


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


def method_of(body: JSON, version: str) -> str:
    """The method of that version which a request object calls.

    Raises InvalidRequest, VersionNotSupported, MethodNotFound.
    """
    method = body.get("method")
    if body.get("jsonrpc") != "2.0":
        raise InvalidRequest('A JSON-RPC request says "jsonrpc": "2.0".')
    if not isinstance(method, str):
        raise InvalidRequest("The method must be a string.")
    if version not in CARRY_OUT:
        raise versions.refusal(version)
    if version == versions.OLD and method in OPERATIONS:
        raise MethodNotFound(
            f"{method} is a method of A2A {versions.CURRENT}. Send the header {versions.HEADER}: {versions.CURRENT}."
        )
    if version == versions.CURRENT and method in METHODS:
        raise MethodNotFound(
            f"{method} is a method of A2A {versions.OLD}. "
            f"In A2A {versions.CURRENT}, which the request speaks, it is {METHODS[method].operation}."
        )
    if method not in (METHODS if version == versions.OLD else OPERATIONS | OWN_METHODS):
        raise MethodNotFound
    return method


def _response(request_id: Id, answer: Answer) -> HttpResponseBase:
    if not answer.streams:
        return json_response(_result(request_id, answer.content), headers=answer.headers)
    wording = Wording(
        update=lambda response: _result(request_id, response),
        error=lambda error: _error(request_id, problem(error)),
    )
    return EventStream(answer, wording)


def _refusal(request_id: Id, error: Exception) -> HttpResponse:
    told = problem(error)
    log_problem(error, told)
    status = told.row.http if told.row.keeps_http else 200
    return json_response(_error(request_id, told), status, told.http_headers)


def _result(request_id: Id, result: Any) -> JSON:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def _error(request_id: Id, told: Problem) -> JSON:
    error: JSON = {"code": told.row.code, "message": told.message}
    if told.details:
        error["data"] = told.details
    return {"jsonrpc": "2.0", "id": request_id, "error": error}
