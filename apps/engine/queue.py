"""Telling the workers that a run is queued. The message is a wake-up: the sweep finds runs whose message was lost."""

import logging
import uuid
from functools import partial

from celery import current_app
from kombu.exceptions import OperationalError

log = logging.getLogger("parley.engine")

EXECUTE = "engine.execute"
SEND_QUEUED = "queue.send"

_declared: set[str] = set()  # queues that are known to be there


def publish(run_id: uuid.UUID) -> None:
    """Name a run to the workers. Call it after the commit; a broker that is away is logged, and no error."""
    try:
        _send(str(run_id))
    except (OperationalError, ConnectionError, OSError) as error:
        log.warning("the broker is away; run %s waits for the sweep: %s", run_id, error)


def publish_queue(context_id: uuid.UUID) -> None:
    """Name a session to the workers, whose queue may be due. As `publish`."""
    try:
        current_app.send_task(SEND_QUEUED, (str(context_id),))
    except (OperationalError, ConnectionError, OSError) as error:
        log.warning("the broker is away; the queue of session %s waits for the sweep: %s", context_id, error)


def _send(key: str) -> None:
    """Send a Celery message of the task EXECUTE, with the headers that a worker needs (`send_task` makes twenty).

    What makes it patient takes as long as the rest, so it is left for the first time and for a line that broke.
    https://docs.celeryq.dev/en/stable/internals/protocol.html
    """
    queue = current_app.amqp.default_queue
    with current_app.producer_or_acquire() as producer:
        send = partial(
            producer.publish,
            f'[["{key}"], {{}}, {{}}]',
            content_type="application/json",
            content_encoding="utf-8",
            routing_key=queue.name,
            headers={"lang": "py", "task": EXECUTE, "id": key, "root_id": key},
            correlation_id=key,
        )
        if queue.name in _declared:
            try:
                send()
                return
            except producer.connection.recoverable_connection_errors:
                pass
        send(declare=[queue], retry=True, retry_policy=current_app.conf.task_publish_retry_policy)
        _declared.add(queue.name)
