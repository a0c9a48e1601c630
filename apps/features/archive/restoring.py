"""Restoring a session from cold storage: one transaction fills the tables from the file, then the file is deleted."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import batched, groupby

from django.apps import apps
from django.core.files.storage import default_storage
from django.db import transaction

from apps.features.archive import file_format
from apps.record.events import JSON
from apps.record.ledger import ContextIsCold, lock_context
from apps.record.lookup import DamagedArchive
from apps.record.models import ColdKey, Context, Segment, Task
from db import sql
from db.sql import write_transaction

ROWS_AT_ONCE = 500  # rows of one statement


def restore_context(context_id: uuid.UUID) -> None:
    """Fill the tables from the file of a context in cold storage, after those whose rows it needs.

    Raises Context.DoesNotExist, DamagedArchive.
    """
    while True:
        needed = list(_prerequisites(Context.objects.get(pk=context_id)))
        for other in needed:
            restore_context(other)
        with suppress(ContextIsCold), write_transaction():
            for other in needed:
                lock_context(Context(pk=other))  # or it might go again before this one is back
            _restore_if_cold(context_id)
            return


def _prerequisites(context: Context) -> Iterator[uuid.UUID]:
    """The sessions whose rows this one's rows refer to: those it was forked from, and the one that it works for."""
    for segment in Segment.objects.filter(context=context).exclude(source=context):
        yield segment.source_id
    if context.parent_task is not None:
        for kept in ColdKey.objects.filter(kind=Task._meta.label_lower, key=str(context.parent_task)):
            yield kept.context_id


def _restore_if_cold(context_id: uuid.UUID) -> None:
    with suppress(ContextIsCold):
        lock_context(Context(pk=context_id))
        return
    restore_locked(Context.objects.get(pk=context_id))


def restore_locked(context: Context) -> None:
    """Fill the tables from the file of a locked context; the file is deleted after the commit.

    Raises DamagedArchive; then nothing was changed.
    """
    name = context.cold_file
    manifest = file_format.verify_archive(name)  # all of it before any is used: a damaged row could do anything
    if manifest.get("session") != str(context.pk):
        raise DamagedArchive("The file is of another session.")
    with default_storage.open(name) as stream:
        _insert_rows(file_format.ArchiveReader(stream))
    ColdKey.objects.filter(context=context).delete()
    values = {"cold_file": "", "cold_at": None, "cold_messages": 0, "warmed_at": sql.database_time()}
    Context.objects.filter(pk=context.pk).update(**values)
    transaction.on_commit(lambda: default_storage.delete(name))


def _insert_rows(reader: file_format.ArchiveReader) -> None:
    """Each section's rows in batches, as they are read."""
    for name, lines in groupby(reader.rows(), key=lambda line: line[0]):
        for batch in batched((row for _, row in lines), ROWS_AT_ONCE, strict=False):
            if name == file_format.REFERENCES:
                _restore_references(batch)
            else:
                model = file_format.sections_by_name()[name].model
                model._base_manager.bulk_create(file_format.deserialize_row(model, row) for row in batch)


def _restore_references(rows: Iterable[JSON]) -> None:
    """Let rows that stayed in the tables refer again to what is back. A row that is gone meanwhile is not missed."""
    for row in rows:
        found = apps.get_model(row["model"])._base_manager.filter(pk=row["key"], **{f"{row['field']}__isnull": True})
        found.update(**{f"{row['field']}_id": row["value"]})


def discard_archive(context: Context) -> list[uuid.UUID]:
    """Give up a file that cannot be read, with all that was in it: the context is empty then, and can be deleted.

    Returns the keys of the tasks in it, as far as they are known.
    """
    name = context.cold_file
    tasks = ColdKey.objects.filter(context=context, kind=Task._meta.label_lower).values_list("key", flat=True)
    keys = [uuid.UUID(key) for key in tasks]
    with transaction.atomic():
        if Context.objects.filter(pk=context.pk, cold_file=name).update(cold_file="", cold_at=None, cold_messages=0):
            ColdKey.objects.filter(context=context).delete()
            transaction.on_commit(lambda: default_storage.delete(name))
    context.cold_file, context.cold_at = "", None
    return keys
