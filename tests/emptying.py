"""Empties the database quickly after each test that commits.

Django truncates all tables, which takes PostgreSQL over a second, and writes content types and permissions again.
This deletes rows, and keeps those from migrations.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection, transaction

KEPT = {model._meta.db_table for model in (ContentType, Permission)}


def empty(_case: Any = None) -> None:
    """Replaces `TransactionTestCase._fixture_teardown`. Foreign keys are checked at the end."""
    tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
    with transaction.atomic(), connection.cursor() as cursor:
        for table in set(tables) - KEPT:
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")


def end_other_connections() -> None:
    """Threads may outlive the tests, and PostgreSQL cannot drop a database with connections."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
