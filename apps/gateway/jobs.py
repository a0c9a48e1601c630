"""The Celery tasks of the gateway."""

from asgiref.sync import async_to_sync
from celery import shared_task

from apps.gateway import canceling


@shared_task(name="gateway.cancel")  # type: ignore[untyped-decorator]
def pass_cancels_on() -> None:
    """Tell remote agents what is not wanted any more and what nobody told them yet."""
    async_to_sync(canceling.sweep)()
