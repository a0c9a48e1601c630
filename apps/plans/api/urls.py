"""Addresses of plans and their runs."""

from apps.plans.api import plans, runs

urlpatterns = [
    *runs.urlpatterns,
    *plans.urlpatterns,
]
