"""The client API: what people's clients see of the record, as sessions. Each part brings its own addresses."""

from __future__ import annotations

from django.urls import URLPattern, path, re_path

from apps.api import agents, artifacts, events, forks, messages, plan_runs, plans, sessions, shares, tasks, uploads
from apps.api.framework import schema
from apps.api.framework.views import UnknownAddress

app_name = "api"

PARTS: list[list[URLPattern]] = [
    schema.urlpatterns,
    sessions.urlpatterns,
    shares.urlpatterns,
    messages.urlpatterns,
    events.urlpatterns,
    forks.urlpatterns,
    agents.urlpatterns,
    artifacts.urlpatterns,
    tasks.urlpatterns,
    uploads.urlpatterns,
    plan_runs.urlpatterns,
    plans.urlpatterns,
]


def in_both_forms(pattern: URLPattern) -> list[URLPattern]:
    """An address answers with a trailing slash too; its name is that of the form without."""
    return [pattern, path(f"{pattern.pattern}/", pattern.callback)]


urlpatterns = [
    *(form for part in PARTS for pattern in part for form in in_both_forms(pattern)),
    re_path("", UnknownAddress.as_view()),
]
