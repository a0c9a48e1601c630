"""What operators see of it. Django loads this module."""

from apps.automation.admin import incoming_webhooks, schedules  # noqa: F401
