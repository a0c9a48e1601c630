"""The address /mcp: POST of one JSON-RPC message, answered by JSON or by a stream that ends with the response."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, aclosing
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt
from mcp_types import DEFAULT_NEGOTIATED_VERSION, EmptyResult, JSONRPCRequest
from pydantic import BaseModel

from apps.a2a import http
from apps.a2a.http import AuthenticatedRequest, json_response
from apps.accounts.principals import READ, WRITE
from apps.accounts.requests import bodies, challenges
from apps.agents.models import AgentNotFound
from apps.doors.callers import authenticate_caller, recheck, with_agent
from apps.doors.prompts import library as offered_library
from apps.limits import current as limits
from apps.optional.mcp import calls, prompts, protocol, resources, tasks, tools
from apps.optional.mcp.calls import Turn
from apps.optional.mcp.protocol import VERSION_HEADER, Call, failure
from apps.record import wire
from apps.record.errors import Kind, MethodNotAllowed, MethodNotFound, ParseError, Refusal, check_allowed
from apps.record.events import JSON
from parley import db

RESOURCE = "/mcp"
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class ForeignOrigin(Refusal):
    """Pages of other origins may not use this address. Call it from a program, or from a page of this server."""

    kind = Kind.FORBIDDEN


@csrf_exempt
async def mcp(request: HttpRequest) -> HttpResponseBase:
    version = request.headers.get(VERSION_HEADER) or DEFAULT_NEGOTIATED_VERSION
    request_id: str | int | None = None
    try:
        if request.method != "POST":  # there are no sessions, so nothing to listen to or to end
            raise MethodNotAllowed(["POST"])
        _check_origin(request)
        http.check_content_type(request)
        caller = await authenticate_caller(request, RESOURCE, READ)
        message = await caller.work_on_body(protocol.read_request, await _read_body(caller), version)
        request_id = message.id if message else None
        incoming = await _with_tool(caller, message)
        if message is None:
            return HttpResponse(status=202)
        return await _answer(incoming, protocol.read_call(message, version, request.headers))
    except Exception as error:
        challenges.resource.set(RESOURCE)
        failed = failure(error, version, request_id)
        return json_response(failed.response, failed.status, dict(failed.headers))


async def _with_tool(caller: AuthenticatedRequest, message: JSONRPCRequest | None) -> AuthenticatedRequest:
    """The request with the agent whose tool is called.

    Raises MissingScope, MissingRole, and McpError for an unknown tool.
    """
    method, params = (message.method, message.params or {}) if message else ("", {})
    name = params.get("name") if method == "tools/call" else None
    changes = method == "tasks/cancel" or (method == "tools/call" and name != tools.GET_TASK)
    check_allowed(caller.principal, WRITE if changes else READ)
    try:
        return await with_agent(caller, tools.slug_of(name))
    except AgentNotFound:
        raise tools.unknown_tool(str(name)) from None


async def _read_body(caller: AuthenticatedRequest) -> Any:
    """Raises ParseError, also for halves of surrogate pairs: answers repeat ids and names, and could not be written."""
    body = await http.parsed(await bodies.read(caller.request, caller.principal))
    if SURROGATE.search(caller.request.body):
        try:
            (await caller.work_on_body(wire.json_text, body)).encode()
        except UnicodeEncodeError:
            raise ParseError from None
    return body


def _check_origin(request: HttpRequest) -> None:
    """Raises ForeignOrigin for a page of another site, whatever name it gave this server (DNS rebinding)."""
    origin = request.headers.get("Origin")
    if origin and origin not in (settings.PUBLIC_BASE_URL, f"{request.scheme}://{request.get_host()}"):
        raise ForeignOrigin


async def _answer(incoming: AuthenticatedRequest, call: Call) -> HttpResponseBase:
    """Raises Refusal."""
    if call.method not in ("tools/call", "tasks/result"):
        return json_response(call.result(await db.run(_result, incoming, call)))
    with ExitStack() as stack:  # before anything is sent
        agent = incoming.agent.pk if incoming.agent else None
        stack.callback(limits.open_stream(incoming.principal, incoming.address, agent))
        if call.method == "tasks/result":
            return await _settled(incoming, await db.run(tasks.wait_for_task, incoming.principal, call), stack)
        done = await calls.begin(incoming, call)
        if not isinstance(done, Turn):
            return json_response(done)
        if call.params.task is not None and call.version == protocol.WITH_TASKS:
            return json_response(call.result(await db.run(tasks.created, done)))
        return await _settled(incoming, done, stack)


def _result(incoming: AuthenticatedRequest, call: Call) -> BaseModel:
    """Of a method that does not wait. Raises Refusal."""
    principal, cursor = incoming.principal, getattr(call.params, "cursor", None)
    match call.method:
        case "initialize":
            return protocol.initialize(call.params)
        case "server/discover":
            return protocol.discover(call.version)
        case "ping":
            return EmptyResult()
        case "tools/list":
            return tools.list_tools(principal, cursor, call.version)
        case "resources/list":
            return resources.list_resources(principal, cursor)
        case "resources/templates/list":
            return resources.list_templates()
        case "resources/read":
            return resources.read_resource(principal, call)
        case "prompts/list" if library := offered_library():
            return prompts.list_prompts(library, principal, cursor)
        case "prompts/get" if library := offered_library():
            return prompts.get_prompt(library, principal, call.params)
        case "tasks/get":
            return tasks.get_task(principal, call)
        case "tasks/cancel":
            return tasks.cancel_task(principal, call)
        case "tasks/list":
            return tasks.list_tasks(principal, call)
        case _:
            raise MethodNotFound


async def _settled(incoming: AuthenticatedRequest, turn: Turn, stack: ExitStack) -> HttpResponseBase:
    """The turn's result: in a stream if the client wants its progress, or it may take long. It closes the stack."""
    call, request = turn.call, incoming.request
    is_stream = call.progress_token is not None or turn.seconds is None
    if not (is_stream and request.accepts("text/event-stream")):
        async with aclosing(turn.messages()) as messages:
            last = [batch async for batch in messages][-1][-1]
        return json_response(last)
    frames = http.checked_frames(turn.messages(), _frames, _error_frame(call), recheck(request, turn.agent.slug))
    return wire.EventStream(frames, stack.pop_all().close)


def _frames(batch: list[JSON]) -> Iterator[bytes]:
    return (wire.sse_frame(one, event="message") for one in batch)


def _error_frame(call: Call) -> Callable[[Exception], bytes]:
    return lambda error: wire.sse_frame(failure(error, call.version, call.id).response, event="message")
