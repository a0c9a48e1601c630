"""The composition root and Django's admin as apps."""

import gc
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.contrib.admin import autodiscover
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core import checks
from django.core.exceptions import ImproperlyConfigured

import outbound


class ConfigConfig(AppConfig):
    """The composition root as an app, for its commands."""

    name = "config"
    default = True
    verbose_name = "Parley"

    def ready(self) -> None:
        gc.freeze()  # all that was imported is left out of later looks
        gc.enable()
        try:
            outbound.configure(settings.OUTBOUND_ALLOW)
        except ValueError as error:
            raise ImproperlyConfigured(f"OUTBOUND_ALLOW: {error}") from None


class AdminConfig(SimpleAdminConfig):
    """Leaves it to `config.urls`, and to who checks the pages, to look for them."""

    def ready(self) -> None:
        checks.register(check_dependencies, checks.Tags.admin)
        checks.register(check_admin_pages, checks.Tags.admin)


def check_admin_pages(app_configs: Any, **options: Any) -> list[checks.CheckMessage]:
    """Django's checks of the pages, all of which are there by then."""
    autodiscover()
    found: list[checks.CheckMessage] = check_admin_app(app_configs, **options)
    return found
