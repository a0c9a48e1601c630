"""The addresses that other systems call."""

from apps.automation.api.hooks import urlpatterns

__all__ = ["urlpatterns"]
