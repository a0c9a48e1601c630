"""A session comes back from cold storage: one transaction fills the tables from the file, then the file is deleted."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress

from django.apps import apps
from django.core.files.storage import default_storage
from django.db import models, transaction

from apps.features.archive import files, sections
from apps.features.archive.sections import JSON
from apps.record.locking import IsCold, lock
from apps.record.models import ColdKey, Context, Segment, Task
from db import statements
from db.transactions import transacting

AT_ONCE = 500  # rows of one statement


def bring_back(context_id: uuid.UUID) -> None:
    """Fill the tables from the file of a context in cold storage, after those whose rows it needs.

    Raises Context.DoesNotExist, files.DamagedArchive.
    """
    while True:
        needed = list(needed_by(Context.objects.get(pk=context_id)))
        for other in needed:
            bring_back(other)
        with suppress(IsCold), transacting():
            for other in needed:
                lock(Context(pk=other))  # or it might go again before this one is back
            _fill(context_id)
            return


def _fill(context_id: uuid.UUID) -> None:
    with suppress(IsCold):
        lock(Context(pk=context_id))
        return
    restore(Context.objects.get(pk=context_id))


def needed_by(context: Context) -> Iterator[uuid.UUID]:
    """The sessions whose rows this one's rows refer to: those it was forked from, and the one that it works for."""
    for segment in Segment.objects.filter(context=context).exclude(source=context):
        yield segment.source_id
    if context.parent_task is not None:
        for kept in ColdKey.objects.filter(kind=Task._meta.label_lower, key=str(context.parent_task)):
            yield kept.context_id


def restore(context: Context) -> None:
    """Fill the tables from the file of a context that is locked, and whose `cold_file` was read under the lock.

    Call it in that transaction; the file is deleted after the commit. Raises files.DamagedArchive; then nothing was
    changed.
    """
    name = context.cold_file
    manifest = files.verify(name)  # whole, before any of it is used: what a damaged row would do is anybody's guess
    if manifest.get("session") != str(context.pk):
        raise files.DamagedArchive("The file is of another session.")
    with default_storage.open(name) as stream:
        _insert(files.Reading(stream))
    ColdKey.objects.filter(context=context).delete()
    values = {"cold_file": "", "cold_at": None, "cold_messages": 0, "warmed_at": statements.database_time()}
    Context.objects.filter(pk=context.pk).update(**values)
    transaction.on_commit(lambda: default_storage.delete(name))


def _insert(reading: files.Reading) -> None:
    """Each section's rows in batches, as they are read."""
    batch: list[models.Model] = []
    for name, row in reading.rows():
        if name == files.LINKS:
            _link(row)
            continue
        batch.append(sections.read(sections.by_name()[name].model, row))
        if len(batch) == AT_ONCE or type(batch[0]) is not type(batch[-1]):
            batch = _write(batch)
    while batch:
        batch = _write(batch)


def _write(batch: list[models.Model]) -> list[models.Model]:
    """Insert the rows of the first one's model; gives those of another."""
    model = type(batch[0])
    model._base_manager.bulk_create(row for row in batch if type(row) is model)
    return [row for row in batch if type(row) is not model]


def _link(row: JSON) -> None:
    """Let a row that stayed name again what is back; where it is gone meanwhile, nothing is missing."""
    pointing = apps.get_model(row["model"])._base_manager.filter(pk=row["key"], **{f"{row['field']}__isnull": True})
    pointing.update(**{f"{row['field']}_id": row["value"]})


def tasks_of(context: Context) -> list[uuid.UUID]:
    """The tasks in the file of a context, as far as its keys tell."""
    kept = ColdKey.objects.filter(context=context, kind=Task._meta.label_lower)
    return [uuid.UUID(key) for key in kept.values_list("key", flat=True)]


def drop(context: Context) -> None:
    """Give up a file that cannot be read, with all that was in it: the context is empty then, and can be deleted."""
    name = context.cold_file
    with transaction.atomic():
        if Context.objects.filter(pk=context.pk, cold_file=name).update(cold_file="", cold_at=None, cold_messages=0):
            ColdKey.objects.filter(context=context).delete()
            transaction.on_commit(lambda: default_storage.delete(name))
    context.cold_file, context.cold_at = "", None
