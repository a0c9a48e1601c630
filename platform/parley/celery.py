"""The Celery application. Its messages carry only ids; the work is in the database."""

import os

from celery import Celery
from celery.signals import import_modules, worker_ready
from django.apps import apps
from kombu.transport import TRANSPORT_ALIASES

from parley.environment import setup
from parley.serving.garbage import freeze_imported_objects

if not apps.loading:  # the process is a worker or beat; in others, Django's apps import this
    setup()
    from apps.housekeeping.heartbeats import tell_watchdog, telling  # they need the apps
    from apps.installation.safety import refuse_to_start

    with telling(tell_watchdog):  # not ALIVE_FILE, by which a new worker takes the place of an old one
        refuse_to_start(waits=True)

os.environ.setdefault("CELERY_SKIP_CHECKS", "true")  # `prepare` makes them; they would import every page

TRANSPORT_ALIASES |= {
    "memory": "apps.engine.queue:MemoryTransport",
    "redis": "parley.work.redis_broker:RedisTransport",
    "rediss": "parley.work.redis_broker:RedisTransport",
}
app = Celery("parley")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(related_name="jobs")
app.steps["consumer"].add("apps.engine.worker:RunConsumer")
app.steps["worker"].add("apps.housekeeping.heartbeats:Heartbeat")


@import_modules.connect  # type: ignore[untyped-decorator]
def add_jobs(**_: object) -> None:
    from parley.work.jobs import register, schedule  # they need the apps

    register()
    app.conf.beat_schedule = schedule()


@worker_ready.connect  # type: ignore[untyped-decorator]
def freeze_before_work(**_: object) -> None:
    freeze_imported_objects()
