"""The composition root and Django's admin as apps."""

import gc
from importlib.metadata import version
from typing import Any

from django.conf import settings
from django.contrib.admin import autodiscover
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core import checks
from django.core.exceptions import ImproperlyConfigured

from parley import outbound
from parley.registry import ParleyApp
from parley.telemetry import errors, tracing


class ParleyConfig(ParleyApp):
    """The composition root as an app, for its commands."""

    periodic_jobs = {"work.sweep": ("SWEEP_SECONDS", "work.lists.sweep")}

    def ready(self) -> None:
        gc.freeze()  # later collections skip what was imported
        gc.enable()
        from apps.installation.current import CurrentAllowances  # it needs the registry of apps
        from parley import celery  # noqa: F401 - jobs find it once settings are read

        try:
            outbound.configure(settings.OUTBOUND_ALLOW, CurrentAllowances())
        except ValueError as error:
            raise ImproperlyConfigured(f"OUTBOUND_ALLOW: {error}") from None
        _configure_telemetry()


def _configure_telemetry() -> None:
    release = version("parley-platform")
    try:
        tracing.configure(release)
        errors.configure(settings.SENTRY_DSN, release=f"parley@{release}", environment=settings.SENTRY_ENVIRONMENT)
    except ValueError as error:
        raise ImproperlyConfigured(str(error)) from None


class AdminConfig(SimpleAdminConfig):
    """Loads no admin pages: `parley.urls` and the check do."""

    def ready(self) -> None:
        checks.register(check_dependencies, checks.Tags.admin)
        checks.register(check_admin_pages, checks.Tags.admin)


def check_admin_pages(app_configs: Any, **options: Any) -> list[checks.CheckMessage]:
    """Django's checks of the admin, after its pages are loaded."""
    autodiscover()
    found: list[checks.CheckMessage] = check_admin_app(app_configs, **options)
    return found
