"""Counts database statements on all threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from django.db.backends.utils import CursorWrapper


@contextmanager
def statements() -> Iterator[list[str]]:
    made: list[str] = []
    execute = CursorWrapper.execute

    def noted(cursor: CursorWrapper, sql: Any, params: Any = None) -> Any:
        made.append(str(sql))
        return execute(cursor, sql, params)

    with mock.patch.object(CursorWrapper, "execute", noted):
        yield made
