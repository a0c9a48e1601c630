"""The database is emptied after each test that commits, in some milliseconds.

Django's way truncates all tables, which takes PostgreSQL more than a second, and then writes its content types and
permissions anew. Here rows are deleted, and those that migrating made stay.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection, transaction

KEPT = {model._meta.db_table for model in (ContentType, Permission)}


def empty(_case: Any = None) -> None:
    """Stands in for `TransactionTestCase._fixture_teardown`. All foreign keys are checked at the end alone."""
    tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
    with transaction.atomic(), connection.cursor() as cursor:
        for table in set(tables) - KEPT:
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")


def end_other_connections() -> None:
    """Those of threads that outlive the tests: PostgreSQL drops no database that somebody is connected to."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
