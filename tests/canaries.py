"""Where a text is: in which columns of all tables, and in which files. A new table counts without being named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from django.conf import settings
from django.core.files.storage import default_storage
from django.db import connection


def places(mark: str) -> list[str]:
    """Such as `record_message.parts`, or a file's name. Upper and lower case are the same."""
    return sorted({*_columns_with(mark.lower()), *_files_with(mark.lower().encode())})


def _columns_with(mark: str) -> Iterator[str]:
    quoted = connection.ops.quote_name
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            columns = [column.name for column in connection.introspection.get_table_description(cursor, table)]
            found = [f"MAX(CASE WHEN LOWER(CAST({quoted(one)} AS text)) LIKE %s THEN 1 END)" for one in columns]
            cursor.execute(f"SELECT {', '.join(found)} FROM {quoted(table)}", [f"%{mark}%"] * len(columns))
            yield from (f"{table}.{column}" for column, has in zip(columns, cursor.fetchone(), strict=True) if has)


def _files_with(mark: bytes) -> Iterator[str]:
    for folder in (Path(default_storage.path("")), settings.UPLOADS_DIR):
        for path in folder.rglob("*"):
            with suppress(FileNotFoundError):  # it was deleted just now
                if path.is_file() and mark in path.read_bytes().lower():
                    yield path.name
