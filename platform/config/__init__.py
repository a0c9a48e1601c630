"""The composition root: settings, URLs, the ASGI application and the Celery application."""

import gc

# What is imported is no garbage, and to look for some meanwhile is a sixth of a start. `ConfigConfig.ready` ends it.
gc.disable()

from config.celery import app as celery_app  # noqa: E402

__all__ = ["celery_app"]
