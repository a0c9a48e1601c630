"""The OpenAPI document, generated from the views, and its page."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_safe
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
    extend_schema_serializer,
)
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request

from apps.api.framework.policies import encode_json
from apps.api.framework.problems import IDEMPOTENCY_HEADER, MEDIA_TYPE
from apps.api.framework.serializers import Query, Shape, Strict
from apps.api.framework.views import Endpoint
from apps.budgets.models import Measure
from apps.budgets.spending import INSTALLATION
from apps.limits.models import Kind, Whose

ALWAYS = (401, 403, 406, 429, 503)
OF_A_BODY = (400, 413, 415, 422)
OF_A_QUERY = (414, 422)
KEY_PARAMETER = OpenApiParameter(
    IDEMPOTENCY_HEADER,
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="1 to 200 printable characters. A repeated request with the same key has no further effect.",
)

FILE_ANSWERS = {(200, "application/octet-stream"): OpenApiTypes.BINARY, (200, "*/*"): OpenApiTypes.BINARY}
"""The answers of an operation that gives a file, of whatever type; the first of the two is what generators know."""


class Violation(Shape):
    field = serializers.CharField(help_text="The path of a field in the request's body, or the name of a parameter.")
    message = serializers.CharField()


@extend_schema_serializer(
    examples=[
        OpenApiExample(
            "A value that cannot be used",
            {
                "type": "urn:parley:problem:invalid",
                "title": "Unprocessable Content",
                "status": 422,
                "detail": "title: Must be a string.",
                "code": "invalid",
                "errors": [{"field": "title", "message": "Must be a string."}],
            },
        )
    ]
)
@extend_schema_serializer(component_name="ReachedLimit")
class Reached(Shape):
    name = serializers.ChoiceField([*Kind.values, *Measure.values])
    of = serializers.ChoiceField([*Whose.values, INSTALLATION])
    max = serializers.FloatField(required=False, help_text="Not there for budgets that others pay.")
    used = serializers.FloatField(required=False)
    retry_after = serializers.IntegerField(required=False, help_text="Seconds.")


class Problem(Shape):
    """Why a request was refused (RFC 9457)."""

    type = serializers.CharField(help_text="A URN that ends with `code`.")
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField(help_text="A sentence for people that says what to do.")
    code = serializers.CharField(help_text="A stable code for programs.")
    errors = Violation(many=True, required=False)  # type: ignore[assignment]
    limit = Reached(required=False, help_text="The limit that was reached.")


class Key(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "apps.accounts.requests.authentication.ApiKeyAuthentication"
    name = "key"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "description": "An API key, sent as a bearer token."}


class Cookie(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "apps.accounts.requests.authentication.CookieAuthentication"
    name = "cookie"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        words = "The session cookie of a browser. Requests that change data must also send the header `X-CSRFToken`."
        return {"type": "apiKey", "in": "cookie", "name": settings.SESSION_COOKIE_NAME, "description": words}


LIMITS = frozenset({"readOnly", "maxLength", "minLength", "maximum", "minimum"})


def _unlimited(about: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in about.items() if name not in LIMITS}


class Operations(AutoSchema):
    """Reads what `documented` declares."""

    def get_operation_id(self) -> str:
        raise NotImplementedError(f"{self.view} {self.method} is not documented")

    def get_description(self) -> str:  # type: ignore[override]
        handler = getattr(self.view, getattr(self.view, "action", self.method.lower()), None)
        return inspect.getdoc(handler) or ""

    def get_tags(self) -> list[str]:
        """The first path component: sessions, tasks, …"""
        return [self.path.removeprefix("/api/v1/").partition("/")[0]]

    def _map_basic_serializer(self, serializer: Any, direction: Any) -> Any:
        """Strict serializers accept no other properties. What is shown has no limits, and all of it is there."""
        mapped = super()._map_basic_serializer(serializer, direction)  # type: ignore[no-untyped-call]
        if direction == "response" and isinstance(serializer, serializers.ModelSerializer):
            shown = {name: _unlimited(about) for name, about in mapped["properties"].items()}
            return {**mapped, "properties": shown, "required": sorted(shown)}
        return {**mapped, "additionalProperties": False} if isinstance(serializer, Strict) else mapped


def documented(
    operation_id: str,
    summary: str,
    *,
    query: type[Query] | None = None,
    body: type[serializers.Serializer[Any]] | dict[Any, Any] | None = None,
    answers: dict[Any, Any] | type[serializers.Serializer[Any]] | None,
    refuses: Sequence[int] = (),
    keyed: bool = False,
    examples: Sequence[OpenApiExample] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a handler to the schema. Its docstring is the description.

    Args:
        answers: the shape of status 200, or shapes by status or by status and media type; None for no body, status 204.
        refuses: further error statuses, beyond those of every operation, query, body and path.
        keyed: whether it takes an Idempotency-Key.
    """
    if not isinstance(answers, dict):
        answers = {200: answers} if answers else {204: None}
    refused = {*ALWAYS, *refuses, *(OF_A_QUERY if query else ())}
    refused |= set(OF_A_BODY if body else (422,) if keyed else ())
    parameters: list[Any] = [*([query] if query else []), *([KEY_PARAMETER] if keyed else [])]

    def decorate(handler: Callable[..., Any]) -> Callable[..., Any]:
        has_path_parameters = len(inspect.signature(handler).parameters) > len(("self", "request"))
        problems = {
            (status, MEDIA_TYPE): OpenApiResponse(Problem, description=HTTPStatus(status).phrase)
            for status in sorted(refused | ({404} if has_path_parameters else set()))
        }
        return extend_schema(
            operation_id=operation_id,
            summary=summary,
            request=body,
            parameters=parameters,
            responses={**answers, **problems},
            examples=list(examples),
        )(handler)

    return decorate


def without_trailing_slashes(endpoints: list[Any]) -> list[Any]:
    """Leaves out addresses with a trailing slash."""
    return [endpoint for endpoint in endpoints if not endpoint[0].endswith("/")]


class Schema(Endpoint):
    """The OpenAPI document, for anybody."""

    permission_classes = [AllowAny]

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(openapi_document(), content_type="application/json")


@cache
def openapi_document() -> bytes:
    generator: Any = SchemaGenerator
    return encode_json(generator().get_schema(request=None, public=True))


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    return render(request, "api/docs.html")


urlpatterns = [
    path("schema", Schema.as_view(), name="schema"),
    path("docs", docs, name="docs"),
]
