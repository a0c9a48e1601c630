"""The addresses of the client API."""

from __future__ import annotations

from django.urls import URLPattern, path, re_path

from apps.api import (
    agents,
    artifacts,
    events,
    forks,
    incoming_webhooks,
    keys,
    messages,
    notifications,
    plan_runs,
    plans,
    reruns,
    schedules,
    sessions,
    shares,
    tasks,
    transfers,
    uploads,
    workspaces,
)
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
    reruns.urlpatterns,
    agents.urlpatterns,
    artifacts.urlpatterns,
    tasks.urlpatterns,
    transfers.urlpatterns,
    uploads.urlpatterns,
    plan_runs.urlpatterns,
    plans.urlpatterns,
    schedules.urlpatterns,
    incoming_webhooks.urlpatterns,
    notifications.urlpatterns,
    keys.urlpatterns,
    workspaces.urlpatterns,
]


def in_both_forms(pattern: URLPattern) -> list[URLPattern]:
    """With and without a trailing slash; the latter has the name."""
    return [pattern, path(f"{pattern.pattern}/", pattern.callback)]


urlpatterns = [
    *(form for part in PARTS for pattern in part for form in in_both_forms(pattern)),
    re_path(".*", UnknownAddress.as_view()),
]
