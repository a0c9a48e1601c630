from celery import shared_task

from apps.features.uploads import resumable


@shared_task(name="uploads.sweep")  # type: ignore[untyped-decorator]
def sweep_uploads() -> None:
    """Deletes expired uploads and their files."""
    resumable.delete_expired()
