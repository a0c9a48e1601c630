"""Triggers that protect tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from django.db import connection

from parley.db import sql

NAMES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": "SELECT tgname FROM pg_trigger WHERE tgenabled IN ('O', 'A') AND NOT tgisinternal",
}


def missing(expected: Mapping[str, Collection[str]]) -> list[str]:
    """Which of the triggers, by the vendor of the database, do not exist or are switched off."""
    found = {str(row[0]) for row in sql.execute(NAMES[connection.vendor], []).fetchall()}
    return sorted(set(expected[connection.vendor]) - found)
