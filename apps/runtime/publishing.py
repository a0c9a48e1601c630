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
        _send(str(run_id))
    except (OperationalError, ConnectionError, OSError) as error:
        log.warning("the broker is away; run %s waits for the sweep: %s", run_id, error)


def _send(key: str) -> None:
    """Send a Celery message of the task EXECUTE, with the headers that a worker needs (`send_task` makes twenty).

    https://docs.celeryq.dev/en/stable/internals/protocol.html
    """
    queue = current_app.amqp.default_queue
    with current_app.producer_or_acquire() as producer:
        producer.publish(
            ((key,), {}, {}),
            routing_key=queue.name,
            declare=[queue],
            headers={"lang": "py", "task": EXECUTE, "id": key, "root_id": key},
            correlation_id=key,
            retry=True,
            retry_policy=current_app.conf.task_publish_retry_policy,
        )
