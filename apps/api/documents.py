"""The schema, and the page on which people read it and try it out."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request

from apps.api.bodies import encoded
from apps.api.views import Endpoint


class Schema(Endpoint):
    """The OpenAPI document of this API; anybody may read it."""

    permission_classes = [AllowAny]

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(document(), content_type="application/json")


@cache
def document() -> bytes:
    """The OpenAPI document: the same for as long as the code is the same."""
    generator: Any = SchemaGenerator
    return encoded(generator().get_schema(request=None, public=True))


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """The page. Its scripts and styles are files of ours, as on every page."""
    return render(request, "api/docs.html")


urlpatterns = [
    path("schema", Schema.as_view(), name="schema"),
    path("docs", docs, name="docs"),
]
