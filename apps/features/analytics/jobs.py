from celery import shared_task

from apps.features.analytics import rollup, storage
from apps.features.analytics.models import StorageSize


@shared_task(name="analytics.sum")  # type: ignore[untyped-decorator]
def sum_up() -> None:
    """Add what happened to the sums of the dashboard, and check older ones."""
    rollup.keep_up()
    if not StorageSize.objects.exists():  # a new installation need not wait for it
        storage.measure()


@shared_task(name="analytics.measure_storage")  # type: ignore[untyped-decorator]
def measure_storage() -> None:
    """Measure the database, files, uploads and archives."""
    storage.measure()
