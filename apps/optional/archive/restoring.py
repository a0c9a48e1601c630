"""Restoring a session from cold storage: one transaction fills the tables from the file, then the file is deleted."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import batched, groupby

from django.apps import apps
from django.core.files.storage import default_storage
from django.db import transaction

from apps.optional.archive import file_format
from apps.record.chain import problem_of_own_events
from apps.record.events import JSON
from apps.record.ledger import ContextIsCold, lock_context
from apps.record.models import ColdKey, Context, Message, Segment, Task
from apps.record.reading.lookup import DamagedArchive
from parley.db import sql
from parley.db.sql import write_transaction

ROWS_AT_ONCE = 500  # rows of one statement


def restore_context(context_id: uuid.UUID) -> None:
    """Restore a context from cold storage, after the contexts whose rows it refers to.

    Raises Context.DoesNotExist, DamagedArchive.
    """
    while True:
        needed = list(_prerequisites(Context.objects.get(pk=context_id)))
        for other in needed:
            restore_context(other)
        with suppress(ContextIsCold), write_transaction():
            for other in needed:
                lock_context(Context(pk=other))  # otherwise it might be archived again before this one is restored
            try:
                lock_context(Context(pk=context_id))
            except ContextIsCold:
                restore_locked(Context.objects.get(pk=context_id))
            return


def _prerequisites(context: Context) -> Iterator[uuid.UUID]:
    for segment in Segment.objects.filter(context=context).exclude(source=context):
        yield segment.source_id
    if context.parent_task is not None:
        for kept in ColdKey.objects.filter(kind=Task._meta.label_lower, key=str(context.parent_task)):
            yield kept.context_id


def restore_locked(context: Context) -> None:
    """Fill the tables from the file of a locked context; the file is deleted after the commit.

    Raises DamagedArchive; then nothing was changed.
    """
    name = context.cold_file
    manifest = file_format.verify_archive(name)  # before any row is used
    if manifest.get("session") != str(context.pk):
        raise DamagedArchive("The file is of another session.")
    with default_storage.open(name) as stream:
        _insert_rows(file_format.ArchiveReader(stream))
    if problem := problem_of_own_events(context):
        raise DamagedArchive(f"The file is not what was archived: {problem}.")
    # Files of earlier versions do not say who wrote a message.
    unsigned = Message.objects.filter(context=context, role=Message.Role.USER, author=None)
    unsigned.update(author=context.owner_id)
    ColdKey.objects.filter(context=context).delete()
    values = {"cold_file": "", "cold_at": None, "cold_messages": 0, "warmed_at": sql.database_time()}
    Context.objects.filter(pk=context.pk).update(**values)
    transaction.on_commit(lambda: default_storage.delete(name))


def _insert_rows(reader: file_format.ArchiveReader) -> None:
    for name, lines in groupby(reader.rows(), key=lambda line: line[0]):
        for batch in batched((row for _, row in lines), ROWS_AT_ONCE):
            if name == file_format.REFERENCES:
                _restore_references(batch)
            else:
                model = file_format.sections_by_name()[name].model
                model._base_manager.bulk_create(file_format.deserialize_row(model, row) for row in batch)


def _restore_references(rows: Iterable[JSON]) -> None:
    for row in rows:
        found = apps.get_model(row["model"])._base_manager.filter(pk=row["key"], **{f"{row['field']}__isnull": True})
        found.update(**{f"{row['field']}_id": row["value"]})


def discard_archive(context: Context) -> list[uuid.UUID]:
    """Give up an unreadable file: the context is then empty, and can be deleted.

    Returns the known keys of its tasks.
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
