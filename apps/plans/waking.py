"""Telling the workers that a run is to be looked at. As with runs of tasks: a wake-up, which the sweep makes up for."""

from __future__ import annotations

import logging
import uuid

from celery import current_app
from kombu.exceptions import OperationalError

log = logging.getLogger("parley.plans")

ADVANCE = "plans.advance"


def wake(run: uuid.UUID) -> None:
    """Name a run of a plan to the workers. Call it after the commit; a broker that is away is logged, and no error."""
    try:
        current_app.send_task(ADVANCE, (str(run),))
    except (OperationalError, ConnectionError, OSError) as error:
        log.warning("the broker is away; plan run %s waits for the sweep: %s", run, error)
