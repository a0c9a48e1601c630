"""What stored data takes. A periodic job measures it, because counting files and rows is too slow for a page."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from django.conf import settings
from django.core.files.storage import default_storage
from django.db import connection
from django.db.models import Count, Sum
from django.utils import timezone
from django.utils.module_loading import import_string

from apps.features.analytics.models import StorageSize
from apps.record.models import Blob, Context

SIZE_SQL = {
    "postgresql": "SELECT pg_database_size(current_database())",
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
}


class Size(NamedTuple):
    name: str
    bytes: int
    rows: int | None


def measure() -> None:
    """Ask the functions that `settings.STORAGE_METERS` names."""
    for path in settings.STORAGE_METERS:
        size = Size(*import_string(path)())
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
