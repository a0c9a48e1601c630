"""Deleting a session: its running work is canceled, and only a tombstone and an entry of the audit stay.

Files that nothing uses are deleted after the commit. Owners delete sessions; retention deletes those older than their
workspace or agent keeps them.
"""

from __future__ import annotations

import datetime
import logging
import uuid
from contextlib import suppress
from functools import partial

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import Membership, Workspace
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.conversations.sessions import holds
from apps.engine import cancel
from apps.record import ledger, lineage
from apps.record.errors import ContextNotFound, Refusal
from apps.record.events import EventType
from apps.record.models import Artifact, Context, ContextQuerySet, Event, Message, Task
from apps.record.projection import tombstone_of
from apps.record.reading import lookup, notifications
from apps.record.reading.lookup import DamagedArchive
from parley.db import sql
from parley.db.sql import write_transaction
from parley.registry import added
from parley.work import send_job

logger = logging.getLogger("parley.clearing")

Actor = Principal | str
"""Who deletes: a caller, or the name of a rule."""

UNREADABLE_ARCHIVE = (DamagedArchive, FileNotFoundError)
RETENTION = "retention"
ACCOUNT = "deleted account"
WORKSPACE = "deleted workspace"
SESSIONS_AT_ONCE = 100


class _Touched(Exception):
    """Something happened in the context."""


def delete_context(principal: Principal, agent: Agent, context_id: str) -> None:
    """Delete the caller's context with this agent. Raises ContextNotFound.

    The caller may use the same contextId again for a new context.
    """
    context = lookup.context_of(principal, context_id)
    if context is None or context.agent_id != agent.pk or context.owner_id != principal.user_id:
        raise ContextNotFound
    delete(context, principal)


def delete_session(principal: Principal, session: uuid.UUID) -> None:
    delete(lookup.find_own_session(principal, session), principal)


def delete(context: Context, actor: Actor, untouched_at: int | None = None) -> None:
    """Delete a context that the actor may delete.

    Raises ContextNotFound if it was deleted just now, and UnderLegalHold.
    """
    deleted: Deleted = []
    with write_transaction():
        lineage.lock_shared_logs(context.workspace_id)
        _delete_with_children(context, deleted, untouched_at)
        for one, counts in deleted:
            subject = audit.session_subject(one.pk)
            workspace = one.workspace_id
            audit.record(AuditAction.SESSION_DELETED, actor=actor, object=subject, workspace=workspace, details=counts)


Deleted = list[tuple[Context, dict[str, int]]]
"""The contexts that were deleted, with the numbers of their rows: entries of the audit are written last."""


def _delete_with_children(context: Context, deleted: Deleted, untouched_at: int | None = None) -> None:
    """Delete the contexts of its child tasks, then itself, then those that were created in the meantime.

    Keeps contexts of tasks that forks share.
    """
    holds.check_session(context)
    _restore_from_archive(context, deleted)
    tasks = lineage.unshared_tasks(context)
    _delete_children(tasks, deleted)
    _delete_alone(context, deleted, untouched_at)
    _delete_children(tasks, deleted)


def _restore_from_archive(context: Context, deleted: Deleted) -> None:
    """Restore the context, and forks of it, so that all their rows are deleted. Discards a damaged file."""
    try:
        lookup.restored(context)
    except UNREADABLE_ARCHIVE:
        logger.exception("session %s is deleted with what its file held; uses of stored files stay counted", context.pk)
        _delete_children(added["discard_archive"](context), deleted)
    for fork in Context.objects.filter(segments__source=context).exclude(cold_file="").distinct():
        try:
            lookup.restored(fork)  # the fork takes over its shared beginning
        except UNREADABLE_ARCHIVE:
            logger.exception("session %s, a fork of one that is deleted, stays as it is", fork.pk)


def _delete_children(tasks: list[uuid.UUID], deleted: Deleted) -> None:
    for child in Context.objects.filter(parent_task__in=tasks, deleted_at=None):
        with suppress(ContextNotFound):
            _delete_with_children(child, deleted)


def _delete_alone(context: Context, deleted: Deleted, untouched_at: int | None) -> None:
    stopped = []
    try:
        with ledger.writing(context) as log:
            if untouched_at not in (None, context.last_event):
                raise _Touched
            counts = _row_counts(context)
            for task in Task.objects.unfinished().filter(context=context).order_by("created_at", "pk"):
                stopped += cancel.record_cancel(log, task.pk)
            log.add(EventType.SESSION_DELETED, tombstone_of(context))
    except Context.DoesNotExist:
        raise ContextNotFound from None
    deleted.append((context, counts))
    for run in stopped:
        transaction.on_commit(partial(notifications.stop, run))


def _row_counts(context: Context) -> dict[str, int]:
    return {
        "events": Event.objects.filter(context=context).count(),
        "messages": Message.objects.filter(context=context).count(),
        "tasks": Task.objects.filter(context=context).count(),
        "artifacts": Artifact.objects.filter(task__context=context).count(),
    }


def expired_sessions() -> ContextQuerySet:
    """The sessions past their retention, in cold storage or not, the longest unchanged first.

    Leaves out sessions with unfinished tasks, and those under a legal hold.
    """
    now = sql.database_time()
    rules = Q(pk=None)
    for holder, model in (("workspace", Workspace), ("agent", Agent)):
        lengths = model._base_manager.exclude(retention_days=None).values_list("retention_days", flat=True).distinct()
        for days in filter(None, lengths):
            limit = now - datetime.timedelta(days=days)
            kept = Q(imported_at__gte=limit)  # it is older than its import
            rules |= Q(**{f"{holder}__retention_days": days}, updated_at__lt=limit) & ~kept
    at_work = Task.objects.unfinished().values("context")
    sessions = Context.objects.listed().filter(~holds.held(), rules, deleted_at=None).exclude(pk__in=at_work)
    return sessions.order_by("updated_at", "pk")


def delete_expired_sessions() -> int:
    """Deletes sessions whose retention has ended.

    Returns how many. Several processes may call it at the same time.
    """
    skipped = 0
    while True:
        due = list(expired_sessions()[skipped : skipped + SESSIONS_AT_ONCE])
        deleted = sum(map(_delete_expired, due))
        skipped += len(due) - deleted  # sessions that cannot be deleted stay the oldest
        if deleted or len(due) < SESSIONS_AT_ONCE:
            return deleted


def publish_deleted_account() -> None:
    """Have a worker delete the sessions of a deleted account now; otherwise the periodic job does."""
    send_job("sessions.of_deleted_accounts")


def delete_sessions_of_deleted_accounts() -> int:
    """Deletes the sessions of people who deleted their account, and of deleted workspaces.

    Running work is canceled. Sessions of a workspace that others can read stay: those shared with it, while it has
    another member.
    """
    deleted, tried = 0, set[uuid.UUID]()
    others = Membership.objects.filter(workspace=OuterRef("workspace"), user__is_active=True)
    is_read = Q(is_shared=True) & Exists(others.exclude(user=OuterRef("owner")))
    ended = Q(workspace__deleted_at__isnull=False) | (Q(owner__erased_at__isnull=False) & ~is_read)
    left = Context.objects.filter(~holds.held(), ended, deleted_at=None, parent_task=None).select_related("workspace")
    while due := list(left.exclude(pk__in=tried).order_by("pk")[:SESSIONS_AT_ONCE]):
        tried |= {context.pk for context in due}
        deleted += sum(_delete_quietly(one, WORKSPACE if one.workspace.deleted_at else ACCOUNT) for one in due)
    return deleted


def _delete_expired(context: Context) -> bool:
    return _delete_quietly(context, RETENTION, untouched_at=context.last_event)


def _delete_quietly(context: Context, rule: str, untouched_at: int | None = None) -> bool:
    """Was it deleted? A failure is logged."""
    try:
        delete(context, rule, untouched_at)
    except (_Touched, Refusal):  # a refusal: it was deleted just now
        return False
    except Exception:
        logger.exception("session %s could not be deleted by the rule %s", context.pk, rule)
        return False
    return True
