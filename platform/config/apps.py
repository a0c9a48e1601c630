import gc

from django.apps import AppConfig
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

import outbound


class ConfigConfig(AppConfig):
    """The composition root as an app, for its commands."""

    name = "config"
    verbose_name = "Parley"

    def ready(self) -> None:
        gc.freeze()  # all that was imported is left out of later looks
        gc.enable()
        try:
            outbound.configure(settings.OUTBOUND_ALLOW)
        except ValueError as error:
            raise ImproperlyConfigured(f"OUTBOUND_ALLOW: {error}") from None
