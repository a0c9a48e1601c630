from celery import shared_task

from apps.features.archive import archiving


@shared_task(name="archive.due")  # type: ignore[untyped-decorator]
def archive_due() -> int:
    """Moves old archived sessions into cold storage."""
    return archiving.archive_due_sessions()
