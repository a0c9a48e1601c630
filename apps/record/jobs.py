"""The Celery task that deletes files which nothing names any more."""

from celery import shared_task

from apps.record import unused_blobs


@shared_task(name="record.sweep_files")  # type: ignore[untyped-decorator]
def sweep_files() -> None:
    unused_blobs.sweep()
