"""Settings with short sweeps."""

from config.settings import *  # noqa: F403
from config.settings import CELERY_BEAT_SCHEDULE

SWEEP_SECONDS = 1.0
WEBHOOK_SECONDS = 2.0
CELERY_BEAT_MAX_LOOP_INTERVAL = 1
for name in ("engine.sweep", "a2a.sweep", "plans.sweep", "remote.cancel"):
    CELERY_BEAT_SCHEDULE[name] |= {"schedule": SWEEP_SECONDS}
