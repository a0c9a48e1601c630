"""The addresses of the client API."""

from __future__ import annotations

from django.urls import URLPattern, path, re_path

from apps.accounts.resources import faces
from apps.api.framework import schema
from apps.api.framework.views import UnknownAddress

app_name = "api"


def in_both_forms(pattern: URLPattern) -> list[URLPattern]:
    """With and without a trailing slash; the latter has the name."""
    return [pattern, path(f"{pattern.pattern}/", pattern.callback)]


urlpatterns = [
    *(form for part in (schema, *faces("api")) for pattern in part.urlpatterns for form in in_both_forms(pattern)),
    re_path(".*", UnknownAddress.as_view()),
]
