"""Moving sessions into cold storage: the file is written and read back, and only then are the rows deleted.

If the process dies, the session is complete, in the tables or in the file; `blobs.delete_unused` removes files that no
row names.
"""

from __future__ import annotations

import datetime
import logging
import uuid
from collections.abc import Callable, Iterator

from django.conf import settings
from django.core.files.storage import default_storage
from django.db.models import Q

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import Workspace
from apps.accounts.principals import Principal
from apps.accounts.resources import Act, NotNeeded, Resource
from apps.optional.archive import file_format
from apps.record import lineage
from apps.record.chain import erasing, problem_of_own_events
from apps.record.content import blobs
from apps.record.errors import UnsupportedOperation
from apps.record.execution import Accepted, Run
from apps.record.ledger import ContextIsCold, lock_context
from apps.record.models import ColdKey, Context, ContextQuerySet, Segment, Task
from apps.record.reading.lookup import DamagedArchive, restored
from parley.db import sql
from parley.db.sql import write_transaction
from parley.registry import added

log = logging.getLogger("parley.archives")

SESSIONS_AT_ONCE = 100
RETRY_AFTER = datetime.timedelta(days=1)  # between tries to archive a session

Obstacle = Callable[[Context], str]
"""One of the `cold_obstacles`: a sentence that says why a session has to stay in the tables, or ""."""


class CannotArchive(Exception):
    """The session has to stay in the tables; the message says why."""


def due_sessions() -> ContextQuerySet:
    """Sessions that were archived longer ago than the limit of their workspace, or else of the installation; oldest
    first.
    """
    now = sql.database_time()
    stated = Workspace.objects.exclude(cold_after_days=None)
    rules = Q(pk=None)
    for days in {None, *stated.values_list("cold_after_days", flat=True)}:
        length = datetime.timedelta(days=settings.COLD_AFTER_DAYS if days is None else days)
        rules |= Q(workspace__cold_after_days=days, archived_at__lt=now - length)
    due = Context.objects.filter(rules, deleted_at=None, cold_file="").exclude(warmed_at__gt=now - RETRY_AFTER)
    return due.order_by("archived_at")


def archive_due_sessions() -> int:
    """Moves old archived sessions into cold storage.

    Several processes may call it at the same time.

    A session that has to stay is tried again a day later.
    """
    moved = 0
    for context in due_sessions()[:SESSIONS_AT_ONCE]:
        try:
            move_with_children(context)
            moved += 1
            continue
        except (CannotArchive, Context.DoesNotExist) as reason:
            log.info("session %s stays in the tables: %s", context.pk, reason)
        except Exception:
            log.exception("session %s could not be moved into cold storage", context.pk)
        Context.objects.filter(pk=context.pk).update(warmed_at=sql.database_time())
    return moved


def move_with_children(context: Context) -> None:
    """Move a session, after the sessions of its child tasks. Raises what `move_to_cold_storage` does."""
    for child in child_contexts(context):
        move_with_children(child)
    move_to_cold_storage(context.pk)


def first_obstacle(context: Context) -> str:
    """The first obstacle for a session or the sessions of its child tasks; "" if there is none."""
    below = (first_obstacle(child) for child in child_contexts(context))
    return next(filter(None, (*obstacles(context), *below)), "")


def move_to_cold_storage(context_id: uuid.UUID) -> str:
    """Move a session into cold storage; returns the name of its file.

    Raises CannotArchive, ContextCleared, Context.DoesNotExist; then nothing has changed.
    """
    context = Context.objects.get(pk=context_id)
    _check_obstacles(context)
    for prepare in added["before_cold"]:
        prepare(context)
    now = sql.database_time()
    writer = file_format.ArchiveWriter(context)
    for file in writer.files:
        if not default_storage.exists(blobs.path_of(file["sha256"])):
            raise CannotArchive(f"Its file {file['sha256'][:12]} is missing.")
    name = file_format.save_archive(writer, now)
    try:
        manifest = file_format.verify_archive(name)
        if manifest != writer.manifest(now):
            raise DamagedArchive(DamagedArchive.__doc__)
        _replace_rows_by_file(context, name, writer, now)
    except (CannotArchive, DamagedArchive, Context.DoesNotExist):
        default_storage.delete(name)
        raise  # other errors may come after the commit: a sweep deletes unused files
    return name


def _check_obstacles(context: Context) -> None:
    if reason := next(obstacles(context), ""):
        raise CannotArchive(reason)
    if child_contexts(context).exists():
        raise CannotArchive("Its sub-sessions are not in cold storage.")


def obstacles(context: Context) -> Iterator[str]:
    """The reasons why the session has to stay in the tables, apart from the sessions of its child tasks."""
    if context.cold_file:
        yield "It is already in cold storage."
    if context.deleted_at is not None:
        yield "It was deleted."
    if context.parent_task is None and context.archived_at is None:
        yield "It is not archived."
    if Task.objects.unfinished().filter(context=context).exists():
        yield "It has an unfinished task."
    if Run.objects.unfinished().filter(task__context=context).exists():
        yield "It has an unfinished run."
    shared = Segment.objects.filter(source=context).exclude(context=context)
    if shared.filter(context__deleted_at=None, context__cold_file="").exists():
        yield "It has forks that are not in cold storage."
    if file_format.holds_secrets(context):
        yield "It has secrets, such as a webhook's token, which must stay in the database."
    yield from filter(None, (obstacle(context) for obstacle in added["cold_obstacles"]))


def child_contexts(context: Context) -> ContextQuerySet:
    """The sessions of its child tasks that are in the tables. They must be moved first."""
    tasks = Task.objects.filter(context=context).values("pk")
    return Context.objects.filter(parent_task__in=tasks, deleted_at=None, cold_file="")


def _replace_rows_by_file(
    context: Context, name: str, writer: file_format.ArchiveWriter, now: datetime.datetime
) -> None:
    last_event = context.last_event
    with write_transaction():
        lineage.lock_shared_logs(context.workspace_id)
        try:
            lock_context(context)
        except ContextIsCold:
            raise CannotArchive("Another process moved it to cold storage.") from None
        current = Context.objects.get(pk=context.pk)
        _check_obstacles(current)
        if current.last_event != last_event or file_format.ArchiveWriter(current).digest != writer.digest:
            raise CannotArchive("It changed in the meantime.")
        if problem := problem_of_own_events(current):
            raise CannotArchive(f"Its log was changed: {problem}.")
        shown = lineage.messages(current).count()
        _keep_keys(current)
        for reference in file_format.references():
            reference.rows(current).update(**{reference.field: None})
        with erasing(current.pk):
            for section in reversed(file_format.all_sections()):
                section.rows(current).delete()
        values = {"cold_file": name, "cold_at": now, "cold_messages": shown}
        if not Context.objects.filter(pk=current.pk, last_event=last_event, cold_file="").update(**values):
            raise CannotArchive("It changed in the meantime.")


def _keep_keys(context: Context) -> None:
    """Remember the keys by which the session is found again: those of tasks, runs and accepted messages."""
    kinds: list[file_format.Section | file_format.Reference] = [
        *(file_format.sections_by_name()[model._meta.label_lower] for model in (Task, Run)),
        *(reference for reference in file_format.references() if reference.model is Accepted),
    ]
    named = {(kind.name, str(key)) for kind in kinds for key in kind.rows(context).values_list("pk", flat=True)}
    ColdKey.objects.bulk_create([ColdKey(context=context, kind=kind, key=key) for kind, key in named], batch_size=500)


def _freeze(context: Context, principal: Principal) -> Context:
    if context.cold_file:
        raise NotNeeded("It is in cold storage already.")
    try:
        move_with_children(context)
    except CannotArchive as reason:
        raise UnsupportedOperation(f"It was not moved: {reason}") from None
    _record(AuditAction.SESSION_ARCHIVED, context, principal)
    return context


def _restore(context: Context, principal: Principal) -> Context:
    if context.deleted_at or not context.cold_file:
        raise NotNeeded("It is not in cold storage.")
    restored(context)
    _record(AuditAction.SESSION_RESTORED, context, principal)
    return context


def _record(action: AuditAction, context: Context, principal: Principal) -> None:
    subject = audit.session_subject(context.pk)
    audit.record(action, actor=principal, object=subject, workspace=context.workspace_id)


MOVE_TO_COLD_STORAGE = Act[Context](
    "move-to-cold-storage",
    "Move to cold storage",
    _freeze,
    "Move a session to cold storage",
    "Its rows become a file. It is restored when somebody opens it.",
    lambda _: "It is in cold storage.",
    lambda context: not context.cold_file,
    icon="ac_unit",
    records=True,
)
RESTORE = Act[Context](
    "restore",
    "Restore from cold storage",
    _restore,
    "Restore a session from cold storage",
    "Its file becomes rows again.",
    lambda _: "It was restored.",
    lambda context: bool(context.cold_file),
    icon="unarchive",
    records=True,
)
SESSIONS = Resource("sessions", "session", Context, acts=(MOVE_TO_COLD_STORAGE, RESTORE))
"""As operators act on them. What their owners do is in `conversations.sessions.commands`."""
