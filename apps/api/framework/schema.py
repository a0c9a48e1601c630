"""The OpenAPI document, made from the views: what each takes, answers and refuses; and the page that shows it."""

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
from apps.api.framework.problems import MEDIA_TYPE
from apps.api.framework.serializers import Query, Shape, Strict
from apps.api.framework.views import IDEMPOTENCY_HEADER, Endpoint

ALWAYS = (401, 403, 406, 429, 503)
OF_A_BODY = (400, 413, 415, 422)
OF_A_QUERY = (414, 422)
KEY_PARAMETER = OpenApiParameter(
    IDEMPOTENCY_HEADER,
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="1 to 200 printable characters. Sent again with the same one, the request leads to nothing new.",
)

FILE_ANSWERS = {(200, "application/octet-stream"): OpenApiTypes.BINARY, (200, "*/*"): OpenApiTypes.BINARY}
"""The answers of an operation that gives a file, of whatever type; the first of the two is what generators know."""


class Violation(Shape):
    field = serializers.CharField(help_text="The path of a field of the body, or the name of a parameter.")
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
class Problem(Shape):
    """Why a request was refused (RFC 9457)."""

    type = serializers.CharField(help_text="A URN that ends with the code.")
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField(help_text="A sentence for people that says what to do.")
    code = serializers.CharField(help_text="For programs.")
    errors = Violation(many=True, required=False)  # type: ignore[assignment]


class Key(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "apps.accounts.authentication.ApiKeyAuthentication"
    name = "key"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "description": "An API key."}


class Cookie(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "apps.accounts.authentication.CookieAuthentication"
    name = "cookie"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        words = "A browser that is signed in. What writes sends the header X-CSRFToken too."
        return {"type": "apiKey", "in": "cookie", "name": settings.SESSION_COOKIE_NAME, "description": words}


class Operations(AutoSchema):
    """The operations of our endpoints: each is said by `documented`."""

    def get_operation_id(self) -> str:
        raise NotImplementedError(f"{self.view} {self.method} is not documented")

    def get_description(self) -> str:  # type: ignore[override]
        """What the handler's docstring says; that of the class is for readers of the code."""
        handler = getattr(self.view, self.method.lower(), None)
        return inspect.getdoc(handler) or ""

    def get_tags(self) -> list[str]:
        """The first word of the path below the prefix: sessions, tasks, …"""
        return [self.path.removeprefix("/api/v1/").partition("/")[0]]

    def _map_basic_serializer(self, serializer: Any, direction: Any) -> Any:
        """What takes nothing that it does not know says so."""
        mapped = super()._map_basic_serializer(serializer, direction)  # type: ignore[no-untyped-call]
        return {**mapped, "additionalProperties": False} if isinstance(serializer, Strict) else mapped


def documented(
    operation_id: str,
    summary: str,
    *,
    query: type[Query] | None = None,
    body: type[serializers.Serializer[Any]] | dict[Any, Any] | None = None,
    answers: dict[Any, Any],
    refuses: Sequence[int] = (),
    keyed: bool = False,
    examples: Sequence[OpenApiExample] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a handler to the schema; what its docstring says becomes the description.

    `answers` are shapes by status, or by status and media type (None: no body), `refuses` the statuses that are its own
    beside those of every operation, of a query and of a body. `keyed`: it takes an Idempotency-Key.
    """
    refused = {
        *ALWAYS,
        *refuses,
        *(OF_A_BODY if body else ()),
        *((422,) if keyed else ()),
        *(OF_A_QUERY if query else ()),
    }
    problems = {
        (status, MEDIA_TYPE): OpenApiResponse(Problem, description=HTTPStatus(status).phrase)
        for status in sorted(refused)
    }
    return extend_schema(
        operation_id=operation_id,
        summary=summary,
        request=body,
        parameters=[*([query] if query else []), *([KEY_PARAMETER] if keyed else [])],
        responses={**answers, **problems},
        examples=list(examples),
    )


def without_trailing_slashes(endpoints: list[Any]) -> list[Any]:
    """Each address once: without the trailing slash with which it answers too."""
    return [endpoint for endpoint in endpoints if not endpoint[0].endswith("/")]


class Schema(Endpoint):
    """The OpenAPI document of this API; anybody may read it."""

    permission_classes = [AllowAny]

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(openapi_document(), content_type="application/json")


@cache
def openapi_document() -> bytes:
    """The OpenAPI document: the same for as long as the code is the same."""
    generator: Any = SchemaGenerator
    return encode_json(generator().get_schema(request=None, public=True))


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """The page. Its scripts and styles are files of ours, as on every page."""
    return render(request, "api/docs.html")


urlpatterns = [
    path("schema", Schema.as_view(), name="schema"),
    path("docs", docs, name="docs"),
]
