"""The dashboard, and what a monitoring system and the doctor read."""

from django.urls import include, path

from apps.operators.metrics import metrics
from apps.operators.probes import REQUEST, seen_request

urlpatterns = [
    path("admin/", include("apps.operators.dashboard.urls")),
    path("metrics", metrics),
    path(REQUEST, seen_request),
]
