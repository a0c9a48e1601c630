"""The addresses below /langgraph, as LangGraph's SDKs call them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from inspect import iscoroutinefunction
from typing import Any, get_type_hints

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import path, re_path
from django.views.decorators.csrf import csrf_exempt

from apps.a2a import http
from apps.a2a.http import AuthenticatedRequest
from apps.accounts.errors import NotFound
from apps.accounts.principals import READ, WRITE
from apps.api.framework.problems import problem
from apps.doors.cors import Cors
from apps.optional.langgraph import assistants, runs, threads
from apps.optional.langgraph.requests import Body, Query
from apps.record.errors import MethodNotAllowed, check_allowed
from apps.record.events import JSON
from parley import db

RESOURCE = "/langgraph"
KEY, AUTHORIZATION = "HTTP_X_API_KEY", "HTTP_AUTHORIZATION"
CORS = Cors(
    "GET, POST, PATCH, DELETE, OPTIONS",
    "Authorization, X-Api-Key, Content-Type, Accept, Cache-Control, Last-Event-ID",
    "Content-Location, Location",
)
INFO: JSON = {"version": version("parley-platform"), "flags": {"assistants": True, "crons": False, "langsmith": False}}


@dataclass(frozen=True, slots=True)
class Operation:
    """What answers a method: a coroutine gets the request, a function on a database thread its principal.

    Both get what the path names, the body as `asked`, and a `query`. The types of these arguments read them.
    """

    scope: str
    operate: Callable[..., Any]
    body: type[Body] | None
    query: type[Query] | None

    async def answer(self, incoming: AuthenticatedRequest, named: dict[str, Any]) -> HttpResponseBase:
        if iscoroutinefunction(self.operate):
            found = await self.operate(incoming, **named)
        else:
            found = await db.run(self.operate, incoming.principal, **named)
        if found is None:
            return HttpResponse(status=204)
        return found if isinstance(found, HttpResponseBase) else http.json_response(found)


def _operation(scope: str, operate: Callable[..., Any]) -> Operation:
    types = get_type_hints(operate)
    return Operation(scope, operate, types.get("asked"), types.get("query"))


reading, writing = partial(_operation, READ), partial(_operation, WRITE)


def address(**operations: Operation) -> Callable[..., Coroutine[Any, Any, HttpResponseBase]]:
    """A view, by the names of HTTP methods."""

    async def answer(request: HttpRequest, **named: Any) -> HttpResponseBase:
        if (operation := operations.get(str(request.method))) is None:
            raise MethodNotAllowed([*operations])
        if operation.body is not None:
            http.check_content_type(request)
        if (key := request.META.get(KEY)) and not request.META.get(AUTHORIZATION):
            request.META[AUTHORIZATION] = f"Bearer {key}"
        incoming = await http.authenticate_request(request, "", RESOURCE)
        check_allowed(incoming.principal, operation.scope)
        if operation.body is not None:
            named["asked"] = await incoming.work_on_body(operation.body.read, await http.read_object(incoming))
        if operation.query is not None:
            named["query"] = operation.query.of(request)
        return await operation.answer(incoming, named)

    return view_of(answer)


def view_of(answer: Callable[..., Coroutine[Any, Any, HttpResponseBase]]) -> Callable[..., Any]:
    """The view of an answer, or of a refusal, for programs and for pages of LANGGRAPH_ORIGINS."""

    @csrf_exempt
    async def view(request: HttpRequest, **named: str) -> HttpResponseBase:
        try:
            response = CORS.preflight() if request.method == "OPTIONS" else await answer(request, **named)
        except Exception as error:
            response = problem(error).response
        return CORS.allow(request, response, settings.LANGGRAPH_ORIGINS)

    return view


async def info(incoming: AuthenticatedRequest) -> JSON:
    return INFO


async def is_up(incoming: AuthenticatedRequest) -> JSON:
    return {"ok": True}


async def unknown(request: HttpRequest, rest: str) -> HttpResponseBase:
    raise NotFound("This part of LangGraph's API is not served here.")


THREAD = "threads/<str:thread_id>"
RUN = f"{THREAD}/runs/<str:run_id>"
ASSISTANT = "assistants/<str:assistant_id>"
urlpatterns = [
    path("info", address(GET=reading(info)), name="info"),
    path("ok", address(GET=reading(is_up)), name="ok"),
    path("assistants/search", address(POST=reading(assistants.search)), name="assistants"),
    path("assistants/count", address(POST=reading(assistants.count)), name="assistant-count"),
    path(ASSISTANT, address(GET=reading(assistants.show)), name="assistant"),
    path(f"{ASSISTANT}/schemas", address(GET=reading(assistants.schemas)), name="schemas"),
    path(f"{ASSISTANT}/graph", address(GET=reading(assistants.graph)), name="graph"),
    path("threads", address(POST=writing(threads.create)), name="threads"),
    path("threads/search", address(POST=reading(threads.search)), name="thread-search"),
    path("threads/count", address(POST=reading(threads.count)), name="thread-count"),
    path(
        THREAD,
        address(GET=reading(threads.show), PATCH=writing(threads.change), DELETE=writing(threads.remove)),
        name="thread",
    ),
    path(f"{THREAD}/state", address(GET=reading(threads.state)), name="state"),
    path(f"{THREAD}/history", address(POST=reading(threads.history)), name="history"),
    path(f"{THREAD}/copy", address(POST=writing(threads.copy)), name="copy"),
    path("runs", address(POST=writing(runs.create)), name="stateless-run"),
    path("runs/stream", address(POST=writing(runs.stream)), name="stateless-stream"),
    path("runs/wait", address(POST=writing(runs.wait)), name="stateless-wait"),
    path(f"{THREAD}/runs", address(GET=reading(runs.list_runs), POST=writing(runs.create)), name="runs"),
    path(f"{THREAD}/runs/stream", address(POST=writing(runs.stream)), name="stream"),
    path(f"{THREAD}/runs/wait", address(POST=writing(runs.wait)), name="wait"),
    path(RUN, address(GET=reading(runs.show)), name="run"),
    path(f"{RUN}/join", address(GET=reading(runs.join)), name="join"),
    path(f"{RUN}/stream", address(GET=reading(runs.join_stream)), name="join-stream"),
    path(f"{RUN}/cancel", address(POST=writing(runs.cancel_run)), name="cancel"),
    re_path("(?P<rest>.*)$", view_of(unknown), name="unknown"),
]
