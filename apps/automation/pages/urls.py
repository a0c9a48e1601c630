"""Addresses of schedules and incoming webhooks."""

from apps.automation.pages import incoming_webhooks, schedules

urlpatterns = [*schedules.urlpatterns, *incoming_webhooks.urlpatterns]
