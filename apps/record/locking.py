"""How a transaction gets hold of a context: it locks its row, and has what lies in cold storage brought back first."""

import datetime
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.db import connection
from django.utils import timezone

from apps.record.hooks import hook
from apps.record.leases import LeaseLost
from apps.record.models import Context
from db import statements
from db.statements import TIME, time_from
from db.transactions import transacting


class ContextCleared(LeaseLost, Context.DoesNotExist):
    """The context was cleared: its log has ended, and no run of it is anybody's."""


class IsCold(Exception):
    """The context is in cold storage: it is to be restored."""


@contextmanager
def holding(row: Context) -> Iterator[datetime.datetime]:
    """A transaction that holds the context, at the database's time; one in cold storage is brought back before it."""
    while True:
        with suppress(IsCold), transacting():
            yield timezone.now() if row._state.adding else lock(row)
            return
        hook("RESTORE_CONTEXT")(row.pk)


def lock(context: Context) -> datetime.datetime:
    """Lock the row, read under the lock what changes, and give the database's time.

    Raises Context.DoesNotExist (ContextCleared for one that was cleared), IsCold.
    """
    suffix = connection.ops.for_update_sql() if connection.features.has_select_for_update else ""
    table, key = Context._meta.db_table, Context._meta.pk.get_db_prep_value(context.pk, connection)
    columns = f"last_event, is_watched, deleted_at, archived_at, cold_file, {TIME[connection.vendor]}"
    found = statements.execute(f"SELECT {columns} FROM {table} WHERE id = %s {suffix}", [key]).fetchone()  # noqa: S608
    if found is None:
        raise Context.DoesNotExist
    deleted_at, archived_at, cold_file, now = found[2:]
    if deleted_at is not None:
        raise ContextCleared
    if cold_file:
        raise IsCold
    context.last_event, context.is_watched = found[0], bool(found[1])
    context.archived_at = time_from(archived_at) if archived_at else None
    context.cold_file, context.cold_at = "", None
    return time_from(now)
