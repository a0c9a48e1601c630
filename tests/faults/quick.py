"""Settings with short sweeps."""

from parley.settings import *  # noqa: F403

SWEEP_SECONDS = 1.0
WEBHOOK_SECONDS = 2.0
CELERY_BEAT_MAX_LOOP_INTERVAL = 1
