"""Optional apps that an installation leaves out (PARLEY_APPS) must have left nothing behind.

Rows of an app that is not there would keep people and agents from being deleted, and nobody could read them.
"""

from __future__ import annotations

from django.apps import AppConfig
from django.conf import settings
from django.db import connection

from apps.record.models import Context
from apps.remote.models import Peer
from parley.misconfigured import Misconfigured, stop


def refuse_apps_with_rows() -> None:
    """End this process with two lines for each app that is left out and has rows. Raises SystemExit."""
    needs = {name: _rows_of(name, path) for name, path in settings.LEFT_OUT.items()}
    advice = "Name it, delete or restore them, then leave it out (docs/how-to/write-an-app.md)."
    found = [f"PARLEY_APPS leaves out {name}, but there are {rows}." for name, rows in needs.items() if rows]
    if found:
        stop(*(Misconfigured(cause, advice) for cause in found))


def _rows_of(name: str, path: str) -> str:
    """What the app still has, for people; "" if nothing."""
    if name == "archive" and Context.objects.exclude(cold_file="").exists():
        return "sessions in cold storage"
    if name == "federation" and Peer.objects.filter(state__in=(Peer.State.INVITED, Peer.State.PAIRED)).exists():
        return "paired installations, or codes to pair"
    prefix = f"{AppConfig.create(path).label}_"
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            if table.startswith(prefix):
                cursor.execute(f"SELECT 1 FROM {connection.ops.quote_name(table)} LIMIT 1")  # noqa: S608
                if cursor.fetchone():
                    return f"rows in its table {table}"
    return ""
