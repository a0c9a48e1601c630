"""Addresses of the dashboard and of analytics, below /admin/."""

from django.contrib import admin
from django.urls import path

from apps.operators.dashboard import analytics, manual, page

app_name = "operators"

urlpatterns = [
    path("dashboard/parts", admin.site.admin_view(page.dashboard_parts), name="dashboard-parts"),
    path("manual/<path:path>", admin.site.admin_view(manual.page), name="manual"),
    path("analytics/", admin.site.admin_view(analytics.overview), name="analytics"),
    path("analytics/agents/<int:agent>/", admin.site.admin_view(analytics.agent_page), name="agent-analytics"),
]
