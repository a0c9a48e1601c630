"""Django's admin, whose pages are loaded where they are needed: a command does without."""

from typing import Any

from django.contrib.admin import autodiscover
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core import checks


class OperatorsConfig(SimpleAdminConfig):
    """Leaves it to `config.urls`, and to who checks the pages, to look for them."""

    def ready(self) -> None:
        checks.register(check_dependencies, checks.Tags.admin)
        checks.register(check_pages, checks.Tags.admin)


def check_pages(app_configs: Any, **options: Any) -> list[checks.CheckMessage]:
    """Django's checks of the pages, all of which are there by then."""
    autodiscover()
    found: list[checks.CheckMessage] = check_admin_app(app_configs, **options)
    return found
