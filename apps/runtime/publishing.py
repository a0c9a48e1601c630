"""Telling the workers that a run is queued. The message is a wake-up: the sweep finds runs whose message was lost."""

import logging
import uuid

from celery import current_app
from kombu.exceptions import OperationalError

log = logging.getLogger("parley.runtime")

EXECUTE = "runtime.execute"


def publish(run_id: uuid.UUID) -> None:
    """Name a run to the workers. Call it after the commit; a broker that is away is logged, and no error."""
    try:
        current_app.send_task(EXECUTE, (str(run_id),))
    except (OperationalError, ConnectionError, OSError) as error:
        log.warning("the broker is away; run %s waits for the sweep: %s", run_id, error)
