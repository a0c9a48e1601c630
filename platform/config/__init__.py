"""The composition root: settings, URLs, the ASGI application and the Celery application."""

from config.celery import app as celery_app

__all__ = ["celery_app"]
