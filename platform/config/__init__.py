"""The composition root: settings, URLs, the ASGI application and the Celery application."""

import gc

# Collecting garbage during imports takes a sixth of the start and finds none. `ConfigConfig.ready` turns it on again.
gc.disable()

from config.celery import app as celery_app  # noqa: E402

__all__ = ["celery_app"]
