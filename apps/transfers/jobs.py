import logging

from celery import current_app, shared_task
from kombu.exceptions import OperationalError

from apps.transfers import exports

log = logging.getLogger("parley.exports")
MAKE = "transfers.make_exports"


@shared_task(name=MAKE, acks_late=False)  # type: ignore[untyped-decorator]
def make_exports() -> bool:
    """Writes an archive that waits or that a killed worker left. Returns whether there was one.

    It may take longer than a broker waits for an acknowledgement; what is lost, the next run finds.
    """
    return exports.make_next()


@shared_task(name="transfers.sweep")  # type: ignore[untyped-decorator]
def sweep_exports() -> int:
    """Deletes expired archives of accounts. Returns the number of archives."""
    return exports.delete_expired()


def publish_export() -> None:
    """Have a worker make a new export now; otherwise the periodic job does."""
    try:
        current_app.send_task(MAKE)
    except (OperationalError, ConnectionError, OSError) as error:
        log.warning("the broker is away; an export waits for the periodic job: %s", error)
