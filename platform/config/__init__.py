"""The composition root: settings, URLs, the ASGI application and the Celery application."""

import gc

# Nearly nothing of what is imported is garbage, and to look for it is a sixth of a start. `ConfigConfig.ready` ends it.
gc.disable()

from config.celery import app as celery_app  # noqa: E402

__all__ = ["celery_app"]
