"""A session goes into cold storage: written, read back, and only then deleted from the tables, in one transaction.

A process that dies at any step leaves the session whole, in the tables or in the file, and at most a file that nobody
names, which `unused_blobs` removes.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from django.core.files.storage import default_storage
from django.db.models import QuerySet

from apps.features.archive import files, sections
from apps.features.search import indexing
from apps.record import blobs, lineage
from apps.record.hooks import hooks
from apps.record.locking import IsCold, lock
from apps.record.models import Accepted, ColdKey, Context, ContextQuerySet, Run, Segment, Task
from db import statements
from db.transactions import transacting

Obstacle = Callable[[Context], str]
"""What `COLD_OBSTACLES` names: a sentence that says why a session has to stay in the tables, or ""."""

ASKED_FOR = (Task, Run)
"""Rows that people and programs ask for by their key alone."""


class StaysWarm(Exception):
    """The session has to stay in the tables; the message says why."""


def obstacles(context: Context) -> Iterator[str]:
    """Each reason why the session has to stay in the tables, but for conversations in which agents worked for it."""
    if context.cold_file:
        yield "It is in cold storage already."
    if context.deleted_at is not None:
        yield "It was deleted."
    if context.parent_task is None and context.archived_at is None:
        yield "It is not archived."
    if Task.objects.unfinished().filter(context=context).exists():
        yield "Something in it has not ended."
    if Run.objects.unfinished().filter(task__context=context).exists():
        yield "A turn of it has not ended."
    if _forks(context).exists():
        yield "Forks of it that are not in cold storage begin with what was said in it."
    if sections.holds_secrets(context):
        yield "Secrets belong to it, such as a webhook's token, and those never leave the database."
    yield from filter(None, (obstacle(context) for obstacle in hooks("COLD_OBSTACLES")))


def _forks(context: Context) -> QuerySet[Segment]:
    """What forks of it share that are in the tables."""
    shared = Segment.objects.filter(source=context).exclude(context=context)
    return shared.filter(context__deleted_at=None, context__cold_file="")


def children(context: Context) -> ContextQuerySet:
    """The conversations in which agents worked for this one, as far as they are in the tables: they go before it."""
    tasks = Task.objects.filter(context=context).values("pk")
    return Context.objects.filter(parent_task__in=tasks, deleted_at=None, cold_file="")


def cool(context_id: uuid.UUID) -> str:
    """Move a session into cold storage; gives the name of its file.

    Raises StaysWarm, ContextCleared, Context.DoesNotExist; then nothing has changed.
    """
    context = Context.objects.get(pk=context_id)
    _refuse(context)
    indexing.complete(context)
    now = statements.database_time()
    written = files.Written(context)
    for file in written.files:
        if not default_storage.exists(blobs.path_of(file["sha256"])):
            raise StaysWarm(f"The file {file['sha256'][:12]} that it names is missing.")
    name = files.save(written, now)
    try:
        manifest = files.verify(name)
        if manifest != written.manifest(now):
            raise files.DamagedArchive(files.DamagedArchive.__doc__)
        _hand_over(context, name, written, now)
    except (StaysWarm, files.DamagedArchive, Context.DoesNotExist):
        default_storage.delete(name)
        raise  # any other error may have come after the commit: `unused_blobs` deletes the file if nobody names it
    return name


def _refuse(context: Context) -> None:
    if reason := next(obstacles(context), ""):
        raise StaysWarm(reason)
    if children(context).exists():
        raise StaysWarm("What agents worked for it is not in cold storage.")


def _hand_over(context: Context, name: str, written: files.Written, now: datetime.datetime) -> None:
    """Delete the rows and name the file, if the rows are still those that were written, to the last byte."""
    began_at = context.last_event
    with transacting():
        lineage.hold_still(context.workspace_id)
        try:
            lock(context)
        except IsCold:
            raise StaysWarm("Something else moved it into cold storage meanwhile.") from None
        current = Context.objects.get(pk=context.pk)
        _refuse(current)
        if current.last_event != began_at or files.Written(current).digest != written.digest:
            raise StaysWarm("Something happened in it meanwhile.")
        shown = lineage.messages(current).count()
        _leave_keys(current)
        for pointer in sections.pointers():
            pointer.rows(current).update(**{pointer.field: None})
        for section in reversed(sections.all_sections()):
            rows = section.rows(current)
            rows._raw_delete(rows.db)
        values = {"cold_file": name, "cold_at": now, "cold_messages": shown}
        if not Context.objects.filter(pk=current.pk, last_event=began_at, cold_file="").update(**values):
            raise StaysWarm("Something happened in it meanwhile.")


def _leave_keys(context: Context) -> None:
    """Remember where the rows are that somebody may ask for by their key, and what idempotency leads to."""
    keys: list[tuple[str, Any]] = []
    for model in ASKED_FOR:
        section = sections.by_name()[model._meta.label_lower]
        keys += [(section.name, key) for key in section.rows(context).values_list("pk", flat=True)]
    for pointer in sections.pointers():
        if pointer.model is Accepted:
            keys += [(pointer.name, key) for key in pointer.rows(context).values_list("pk", flat=True)]
    named = dict.fromkeys((kind, str(key)) for kind, key in keys)
    ColdKey.objects.bulk_create([ColdKey(context=context, kind=kind, key=key) for kind, key in named], batch_size=500)
