"""The Celery application. Its messages carry only ids; the work is in the database."""

import os

from celery import Celery
from kombu.transport import TRANSPORT_ALIASES

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

TRANSPORT_ALIASES["memory"] = "apps.engine.queue:MemoryTransport"
TRANSPORT_ALIASES["redis"] = TRANSPORT_ALIASES["rediss"] = "apps.engine.queue:RedisTransport"
app = Celery("parley")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(related_name="jobs")
app.steps["consumer"].add("apps.engine.jobs:RunConsumer")
