"""The client API: what people's clients see of the record, as sessions. Each part brings its own addresses."""

from __future__ import annotations

from django.urls import URLPattern, path, re_path

from apps.api import (
    agents,
    artifacts,
    branches,
    documents,
    events,
    forks,
    marks,
    messages,
    plan_runs,
    plan_schema,
    plans,
    playing,
    queue,
    runs,
    search,
    sessions,
    shares,
    tasks,
    uploads,
)
from apps.api.views import Nowhere

app_name = "api"

PARTS: list[list[URLPattern]] = [
    documents.urlpatterns,
    sessions.urlpatterns,
    marks.urlpatterns,
    shares.urlpatterns,
    messages.urlpatterns,
    events.urlpatterns,
    forks.urlpatterns,
    branches.urlpatterns,
    agents.urlpatterns,
    runs.urlpatterns,
    search.urlpatterns,
    artifacts.urlpatterns,
    tasks.urlpatterns,
    uploads.urlpatterns,
    playing.urlpatterns,
    queue.urlpatterns,
    plan_schema.urlpatterns,
    plan_runs.urlpatterns,
    plans.urlpatterns,
]


def in_both_forms(pattern: URLPattern) -> list[URLPattern]:
    """An address answers with a trailing slash too; its name is that of the form without."""
    return [pattern, path(f"{pattern.pattern}/", pattern.callback)]


urlpatterns = [
    *(form for part in PARTS for pattern in part for form in in_both_forms(pattern)),
    re_path("", Nowhere.as_view()),
]
