"""The addresses below /langgraph, as LangGraph's SDKs call them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

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
from apps.optional.langgraph.requests import (
    AssistantFilter,
    AssistantSearch,
    Body,
    HistoryPage,
    NewRun,
    NewThread,
    ThreadChanges,
    ThreadFilter,
    ThreadSearch,
)
from apps.record import wire
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
    """What answers a method. `operate` gets the caller, what the path names, and a body that it takes as `asked`."""

    scope: str
    operate: Callable[..., Coroutine[Any, Any, HttpResponseBase | JSON | str]]
    body: type[Body] | None = None


def reading(read: Callable[..., Any], body: type[Body] | None = None, scope: str = READ) -> Operation:
    """An operation of the caller's principal that only the database answers."""

    async def operate(incoming: AuthenticatedRequest, **named: Any) -> HttpResponseBase | str:
        found = await db.run(read, incoming.principal, **named)
        return HttpResponse(status=204) if found is None else wire.json_text(found)

    return Operation(scope, operate, body)


def address(**operations: Operation) -> Callable[..., Coroutine[Any, Any, HttpResponseBase]]:
    """A view, by the names of HTTP methods."""

    @csrf_exempt
    async def view(request: HttpRequest, **named: str) -> HttpResponseBase:
        try:
            response = CORS.preflight() if request.method == "OPTIONS" else await answer(request, named)
        except Exception as error:
            response = problem(error).response
        return CORS.allow(request, response, settings.LANGGRAPH_ORIGINS)

    async def answer(request: HttpRequest, named: dict[str, Any]) -> HttpResponseBase:
        if (operation := operations.get(str(request.method))) is None:
            raise MethodNotAllowed([*operations])
        if operation.body is not None:
            http.check_content_type(request)
        if (key := request.META.get(KEY)) and not request.META.get(AUTHORIZATION):
            request.META[AUTHORIZATION] = f"Bearer {key}"
        incoming = await http.authenticate_request(request, "", RESOURCE)
        check_allowed(incoming.principal, operation.scope)
        if operation.body is not None:
            named |= {"asked": await incoming.work_on_body(operation.body.read, await http.read_object(incoming))}
        found = await operation.operate(incoming, **named)
        return found if isinstance(found, HttpResponseBase) else http.json_response(found)

    return view


async def _info(incoming: AuthenticatedRequest) -> JSON:
    return INFO


async def _ok(incoming: AuthenticatedRequest) -> JSON:
    return {"ok": True}


@csrf_exempt
async def unknown(request: HttpRequest, rest: str) -> HttpResponseBase:
    missing = NotFound("This part of LangGraph's API is not served here.")
    response = CORS.preflight() if request.method == "OPTIONS" else problem(missing).response
    return CORS.allow(request, response, settings.LANGGRAPH_ORIGINS)


def writing(write: Callable[..., Any], body: type[Body] | None = None) -> Operation:
    return reading(write, body, WRITE)


THREAD = "threads/<str:thread_id>"
RUN = f"{THREAD}/runs/<str:run_id>"
ASSISTANT = "assistants/<str:assistant_id>"
urlpatterns = [
    path("info", address(GET=Operation(READ, _info)), name="info"),
    path("ok", address(GET=Operation(READ, _ok)), name="ok"),
    path("assistants/search", address(POST=reading(assistants.search, AssistantSearch)), name="assistants"),
    path("assistants/count", address(POST=reading(assistants.count, AssistantFilter)), name="assistant-count"),
    path(ASSISTANT, address(GET=reading(assistants.show)), name="assistant"),
    path(f"{ASSISTANT}/schemas", address(GET=reading(assistants.schemas)), name="schemas"),
    path(f"{ASSISTANT}/graph", address(GET=reading(assistants.graph)), name="graph"),
    path("threads", address(POST=writing(threads.create, NewThread)), name="threads"),
    path("threads/search", address(POST=reading(threads.search, ThreadSearch)), name="thread-search"),
    path("threads/count", address(POST=reading(threads.count, ThreadFilter)), name="thread-count"),
    path(
        THREAD,
        address(
            GET=reading(threads.show), PATCH=writing(threads.change, ThreadChanges), DELETE=writing(threads.remove)
        ),
        name="thread",
    ),
    path(f"{THREAD}/state", address(GET=reading(threads.state)), name="state"),
    path(f"{THREAD}/history", address(POST=reading(threads.history, HistoryPage)), name="history"),
    path(f"{THREAD}/copy", address(POST=writing(threads.copy)), name="copy"),
    path("runs", address(POST=Operation(WRITE, runs.create, NewRun)), name="stateless-run"),
    path("runs/stream", address(POST=Operation(WRITE, runs.stream, NewRun)), name="stateless-stream"),
    path("runs/wait", address(POST=Operation(WRITE, runs.wait, NewRun)), name="stateless-wait"),
    path(
        f"{THREAD}/runs",
        address(GET=Operation(READ, runs.list_runs), POST=Operation(WRITE, runs.create, NewRun)),
        name="runs",
    ),
    path(f"{THREAD}/runs/stream", address(POST=Operation(WRITE, runs.stream, NewRun)), name="stream"),
    path(f"{THREAD}/runs/wait", address(POST=Operation(WRITE, runs.wait, NewRun)), name="wait"),
    path(RUN, address(GET=Operation(READ, runs.show)), name="run"),
    path(f"{RUN}/join", address(GET=Operation(READ, runs.join)), name="join"),
    path(f"{RUN}/stream", address(GET=Operation(READ, runs.join_stream)), name="join-stream"),
    path(f"{RUN}/cancel", address(POST=Operation(WRITE, runs.cancel_run)), name="cancel"),
    re_path("(?P<rest>.*)$", unknown, name="unknown"),
]
