"""The addresses below /v1."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import path, re_path
from django.views.decorators.csrf import csrf_exempt

from apps.a2a import http
from apps.a2a.http import AuthenticatedRequest
from apps.accounts.principals import READ, WRITE
from apps.doors.callers import authenticate_caller, with_agent
from apps.optional.openai import chat, models, responses
from apps.optional.openai.errors import AddressNotFound, error_response
from apps.record.errors import MethodNotAllowed
from apps.record.events import JSON
from parley import db

RESOURCE = "/v1"
Operation = Callable[..., Coroutine[Any, Any, HttpResponseBase]]


def address(method: str, scope: str, operate: Operation) -> Operation:
    """A view for one HTTP method. `operate` gets the caller, what the path names and, of a POST, the body."""

    @csrf_exempt
    async def view(request: HttpRequest, **named: Any) -> HttpResponseBase:
        try:
            if request.method != method:
                raise MethodNotAllowed([method])
            if method == "POST" and not named:
                return await operate(*await _with_body(request, scope))
            return await operate(await authenticate_caller(request, RESOURCE, scope), **named)
        except Exception as error:
            return error_response(error)

    return view


async def _with_body(request: HttpRequest, scope: str) -> tuple[AuthenticatedRequest, JSON]:
    http.check_content_type(request)
    incoming = await authenticate_caller(request, RESOURCE, scope)
    body = await http.read_object(incoming)
    model = body.get("model")
    return await with_agent(incoming, model if isinstance(model, str) else ""), body


async def _models(incoming: AuthenticatedRequest) -> HttpResponseBase:
    return http.json_response(await db.run(models.list_models, incoming.principal))


async def _model(incoming: AuthenticatedRequest, model: str) -> HttpResponseBase:
    return http.json_response(await db.run(models.one_model, incoming.principal, model))


@csrf_exempt
async def unknown(request: HttpRequest, rest: str) -> HttpResponseBase:
    return error_response(AddressNotFound())


urlpatterns = [
    path("models", address("GET", READ, _models), name="models"),
    path("models/<str:model>", address("GET", READ, _model), name="model"),
    path("chat/completions", address("POST", WRITE, chat.complete), name="chat"),
    path("responses", address("POST", WRITE, responses.create), name="responses"),
    path("responses/<str:response_id>", address("GET", READ, responses.show), name="response"),
    path("responses/<str:response_id>/cancel", address("POST", WRITE, responses.cancel_response), name="cancel"),
    re_path("(?P<rest>.*)$", unknown, name="unknown"),
]
