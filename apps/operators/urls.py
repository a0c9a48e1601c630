"""The dashboard, and what a monitoring system reads."""

from django.urls import include, path

from apps.operators.metrics import metrics

urlpatterns = [path("admin/", include("apps.operators.dashboard.urls")), path("metrics", metrics)]
