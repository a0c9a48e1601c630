"""The Celery application. Its queues carry wake-ups; what must not be lost is in the database."""

import os

from celery import Celery
from kombu.transport import TRANSPORT_ALIASES

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

# Named, not imported: kombu reads the module of the broker that there is.
TRANSPORT_ALIASES["memory"] = "apps.engine.memory_broker:Transport"
TRANSPORT_ALIASES["redis"] = TRANSPORT_ALIASES["rediss"] = "apps.engine.redis_broker:Transport"
app = Celery("parley")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(related_name="jobs")
