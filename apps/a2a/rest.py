"""The HTTP+JSON binding (A2A 1.0 §11): every operation has an address and an HTTP method of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from apps.a2a import answers, versions
from apps.a2a.answers import json_response
from apps.a2a.calls import Answer, CarryOut, arrive, carry_out, check_headers, read_body
from apps.a2a.errors import JSON, WrongVerb, problem
from apps.a2a.fields import Fields, snake
from apps.a2a.queries import read_query
from apps.a2a.sse import EventStream, Wording
from apps.record.errors import InvalidParams

A2A_TYPE = "application/a2a+json"
WORDING = Wording(update=lambda response: response, error=lambda error: problem(error).status, error_event="error")

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
"""The operation of each HTTP method at each address below an agent's, or below the front door's."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of A2A over HTTP+JSON: its name, and how its operations are carried out."""

    name: str
    carry_out: CarryOut


CURRENT = Version(versions.CURRENT, carry_out)


@csrf_exempt
async def resource(
    request: HttpRequest, operations: Mapping[str, str], slug: str = "", **named: str
) -> HttpResponseBase:
    """One of the ADDRESSES, of the agent `slug` or at the front door; `named` are the fields that its path states."""
    return await answered(request, operations, slug, named, CURRENT)


async def answered(
    request: HttpRequest, operations: Mapping[str, str], slug: str, named: Mapping[str, str], version: Version
) -> HttpResponseBase:
    """What a version answers at an address of its own."""
    try:
        method = operation_of(request, operations)
        _check_body(request)
        arrival = await arrive(request, slug)
        versions.check(request, version.name)
        params = agreed(await _given(request), named)
        return _response(request, await version.carry_out(arrival, method, params))
    except Exception as error:
        return answers.refusal(error, media_type(request))


def operation_of(request: HttpRequest, operations: Mapping[str, str]) -> str:
    """Raises WrongVerb. HEAD asks for what GET would answer."""
    verb = "GET" if request.method == "HEAD" else str(request.method)
    if verb not in operations:
        raise WrongVerb(sorted(operations))
    return operations[verb]


def agreed(given: JSON, named: Mapping[str, str]) -> JSON:
    """The request message: what was given, with what the path names. Raises InvalidFields where the two differ."""
    fields = Fields(given)
    for name, value in named.items():
        if fields.text(name) not in ("", value):
            fields.refuse(name, "Differs from what the address says.")
    fields.check()
    spelled = {*named, *map(snake, named)}
    return {name: value for name, value in given.items() if name not in spelled} | dict(named)


def media_type(request: HttpRequest) -> str:
    """`application/a2a+json` for who prefers it or, with no preference, sends it; otherwise plain JSON."""
    offered = [answers.JSON_TYPE, A2A_TYPE]
    if request.content_type == A2A_TYPE:
        offered.reverse()
    try:
        preferred = request.get_preferred_type([f"{offer}; charset=utf-8" for offer in offered])
    except ValueError:  # the header cannot be read
        preferred = None
    return preferred.partition(";")[0] if preferred else offered[0]


def _check_body(request: HttpRequest) -> None:
    """Raises NotJson. A request without a body need not say what it is."""
    if request.method == "POST" and (request.body or request.content_type):
        check_headers(request)


async def _given(request: HttpRequest) -> JSON:
    """Raises ParseError, InvalidParams."""
    if request.method != "POST":
        return read_query(request.META["QUERY_STRING"])
    body = await read_body(request.body) if request.body else {}
    if not isinstance(body, dict):
        raise InvalidParams("The body must be a JSON object.")
    return body


def _response(request: HttpRequest, answer: Answer) -> HttpResponseBase:
    if not answer.streams:
        return json_response(answer.content, headers=answer.headers, content_type=media_type(request))
    return EventStream(answer, WORDING)
