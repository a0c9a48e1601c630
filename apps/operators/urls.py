"""The dashboard and analytics, and what a monitoring system and the doctor read."""

from django.contrib import admin
from django.urls import include, path

from apps.operators.dashboard import analytics, manual, page
from apps.operators.metrics import metrics
from apps.operators.probes import REQUEST, seen_request

site = admin.site.admin_view
of_admin = [
    path("dashboard/parts", site(page.dashboard_parts), name="dashboard-parts"),
    path("manual/<path:path>", site(manual.page), name="manual"),
    path("analytics/", site(analytics.overview), name="analytics"),
    path("analytics/agents/<int:agent>/", site(analytics.agent_page), name="agent-analytics"),
]
urlpatterns = [
    path("admin/", include((of_admin, "operators"))),
    path("metrics", metrics),
    path(REQUEST, seen_request),
]
