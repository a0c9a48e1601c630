"""What stored data takes. A periodic job measures it, because counting files and rows is too slow for a page."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from django.core.files.storage import default_storage
from django.db import connection
from django.db.models import Count, Sum
from django.utils import timezone

from apps.analytics import rollup
from apps.analytics.models import StorageSize
from apps.record.models import Blob, Context
from parley.registry import added

SIZE_SQL = {
    "postgresql": "SELECT pg_database_size(current_database())",
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
}


class Size(NamedTuple):
    name: str
    bytes: int
    rows: int | None


def sum_up() -> None:
    """Adds what happened to the sums of the dashboard, and checks older ones."""
    rollup.keep_up()
    if not StorageSize.objects.exists():  # a new installation need not wait for it
        measure()


def measure() -> None:
    """Measures the database, files, uploads and archives.

    It asks the `storage_meters` of all apps.
    """
    for meter in added["storage_meters"]:
        size = Size(*meter())
        values = {"bytes": size.bytes, "rows": size.rows, "measured_at": timezone.now()}
        StorageSize.objects.update_or_create(name=size.name, defaults=values)


def database() -> Size:
    with connection.cursor() as cursor:
        cursor.execute(SIZE_SQL[connection.vendor])
        return Size("database", int(cursor.fetchone()[0]), None)


def files() -> Size:
    """Content that several workspaces use is stored once."""
    once = Blob.objects.order_by().values("sha256", "size").distinct()
    found = once.aggregate(rows=Count("*"), bytes=Sum("size"))
    return Size("files", found["bytes"] or 0, found["rows"])


def archives() -> Size:
    """Sessions in cold storage."""
    rows = size = 0
    for name in Context.objects.exclude(cold_file="").order_by().values_list("cold_file", flat=True).iterator():
        with suppress(OSError):  # moved back meanwhile
            size += default_storage.size(name)
            rows += 1
    return Size("archives", size, rows)
