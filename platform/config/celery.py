"""The Celery application. Its queues carry wake-ups; what must not be lost is in the database."""

import os

from celery import Celery

from apps.runtime import inprocess, redis_broker

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

inprocess.install()
redis_broker.install()
app = Celery("parley")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(related_name="jobs")
