"""Addresses of schedules, incoming webhooks and reruns."""

from apps.automation.api import incoming_webhooks, reruns, schedules

urlpatterns = [
    *incoming_webhooks.urlpatterns,
    *reruns.urlpatterns,
    *schedules.urlpatterns,
]
