"""Deleting a session: its running work is canceled, and only a tombstone and an entry of the audit stay.

Files that nothing uses are deleted after the commit. Owners delete sessions; retention deletes those older than their
workspace or agent keeps them.
"""

from __future__ import annotations

import datetime
import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from time import monotonic
from typing import Any

from django.db import connection, transaction
from django.db.models import Count, Exists, OuterRef, Q

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.models import FORMER_MEMBER, Membership, User, Workspace
from apps.accounts.people.erasure import Person, Remains
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
from parley.db.sql import Keys, write_transaction
from parley.registry import added
from parley.work import send_job

logger = logging.getLogger("parley.clearing")

Actor = Principal | str
"""Who deletes: a caller, or the name of a rule."""

UNREADABLE_ARCHIVE = (DamagedArchive, FileNotFoundError)
RETENTION = "retention"
ACCOUNT = "deleted account"
WORKSPACE = "deleted workspace"
FOUND_AT_ONCE = 2_000
AT_ONCE = {"postgresql": (200, 2_000), "sqlite": (50, 500)}
"""Sessions and events in one transaction. SQLite has one writer."""
JOB_SECONDS = 30.0
OF_DELETED_ACCOUNTS = "sessions.of_deleted_accounts"


class _Touched(Exception):
    """Something happened in the context."""


def delete_context(principal: Principal, agent: Agent, context_id: str) -> None:
    """Delete the caller's context with this agent. Raises ContextNotFound.

    The caller may use the same contextId again for a new context.
    """
    context = lookup.context_of(principal, context_id)
    if context is None or context.agent_id != agent.pk or context.owner_id != principal.user_id:
        raise ContextNotFound
    _delete_own(context, principal)


def delete_session(principal: Principal, session: uuid.UUID) -> None:
    """Raises ContextNotFound, UnderLegalHold."""
    _delete_own(lookup.find_own_session(principal, session), principal)


def _delete_own(context: Context, principal: Principal) -> None:
    if context.pk not in delete([context], principal):
        raise ContextNotFound  # it was deleted just now


def delete(contexts: Sequence[Context], actor: Actor, *, untouched: bool = False) -> list[uuid.UUID]:
    """Delete contexts of one owner and workspace, with those of their child tasks, in one transaction.

    Returns which were deleted; somebody else may have deleted others just now. `untouched`: only if nothing happened in
    them since they were read. Raises UnderLegalHold, and then nothing was deleted.
    """
    deleted: Deleted = []
    with write_transaction():
        lineage.lock_shared_logs(contexts[0].workspace_id)
        _delete_with_children(contexts, deleted, untouched=untouched)
        if deleted:
            audit.append([_entry(context, actor, counts) for context, counts in deleted])
    return [context.pk for context, _ in deleted]


Deleted = list[tuple[Context, dict[str, int]]]
"""The contexts that were deleted, with the numbers of their rows: entries of the audit are written last."""


def _entry(context: Context, actor: Actor, counts: dict[str, int]) -> AuditEntry:
    subject = audit.session_subject(context.pk)
    action, workspace = AuditAction.SESSION_DELETED, context.workspace_id
    return audit.entry_of(action, actor=actor, object=subject, workspace=workspace, details=counts)


def _delete_with_children(contexts: Sequence[Context], deleted: Deleted, *, untouched: bool = False) -> None:
    """Delete the contexts of their child tasks, then themselves, then those that were created in the meantime.

    Keeps contexts of tasks that other forks share.
    """
    keys = Keys(one.pk for one in contexts)
    holds.check_sessions(keys)
    _restore_from_archive(contexts, keys, deleted)
    tasks = lineage.unshared_tasks(keys)
    _delete_children(tasks, deleted)
    _delete_alone(contexts, deleted, untouched=untouched)
    _delete_children(tasks, deleted)


def _restore_from_archive(contexts: Sequence[Context], keys: Keys, deleted: Deleted) -> None:
    """Restore the contexts, and forks of them, so that all their rows are deleted. Discards a damaged file."""
    for context in contexts:
        try:
            lookup.restored(context)
        except UNREADABLE_ARCHIVE:
            logger.exception(
                "session %s is deleted with what its file held; uses of stored files stay counted", context.pk
            )
            _delete_children(added["discard_archive"](context), deleted)
    for fork in Context.objects.filter(segments__source__in=keys).exclude(cold_file="").distinct():
        try:
            lookup.restored(fork)  # the fork takes over its shared beginning
        except UNREADABLE_ARCHIVE:
            logger.exception("session %s, a fork of one that is deleted, stays as it is", fork.pk)


def _delete_children(tasks: list[uuid.UUID], deleted: Deleted) -> None:
    children = Context.objects.filter(parent_task__in=Keys(tasks), deleted_at=None).order_by(
        "workspace_id", "owner_id", "pk"
    )
    for _, some in groupby(children, key=_whose):
        _delete_with_children([*some], deleted)


def _whose(context: Context) -> tuple[int, int]:
    return context.workspace_id, context.owner_id or 0


def _delete_alone(contexts: Sequence[Context], deleted: Deleted, *, untouched: bool) -> None:
    known = {one.pk: one.last_event for one in contexts}
    stopped: list[uuid.UUID] = []
    with ledger.clearing(contexts) as logs:
        if untouched and any(log.context.last_event != known[log.context.pk] for log in logs):
            raise _Touched
        found = {log.context.pk: log for log in logs}
        here = Keys(found)
        counts = _row_counts(here)
        for task in Task.objects.unfinished().filter(context__in=here).order_by("created_at", "pk"):
            stopped += cancel.record_cancel(found[task.context_id], task.pk)
        for log in logs:
            log.add(EventType.SESSION_DELETED, tombstone_of(log.context))
            deleted.append((log.context, counts[log.context.pk]))
    for run in stopped:
        transaction.on_commit(partial(notifications.stop, run))


def _row_counts(contexts: Keys) -> dict[uuid.UUID, dict[str, int]]:
    counts = {one: {"events": 0, "messages": 0, "tasks": 0, "artifacts": 0} for one in contexts}
    for model, of in ((Event, "context"), (Message, "context"), (Task, "context"), (Artifact, "task__context")):
        rows = model._base_manager.filter(**{f"{of}__in": contexts}).order_by().values_list(of)
        for context, number in rows.annotate(Count("pk")):
            counts[context][f"{model._meta.model_name}s"] = number
    return counts


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
    return _delete_all(expired_sessions, lambda context: RETENTION, "sessions.expire", untouched=True)


def delete_with_account(person: Person) -> None:
    """Soon after the commit (`account_erasers`)."""
    transaction.on_commit(publish_deleted_account, robust=True)


def remains_of(person: User) -> Iterator[Remains]:
    """See `account_remains`."""
    own = Context.objects.listed().filter(owner=person, deleted_at=None)
    if kept := own.filter(_is_read_by_others()).count():
        yield Remains("Shared sessions", kept, "until no other member of the workspace can read them.")
    if left := own.exclude(_is_read_by_others()).count():
        yield Remains("Sessions", left, f"until a job deletes them within minutes, with their files. {YOUNG_FILES}")
    elsewhere = Message.objects.filter(author=person.pk, context__deleted_at=None).exclude(context__owner=person)
    if said := elsewhere.count():
        yield Remains("Messages in sessions of others", said, f'by "{FORMER_MEMBER}". They belong to a conversation.')


YOUNG_FILES = "Files that were stored in the hour before go within two hours."


def publish_deleted_account() -> None:
    """Have a worker delete the sessions of a deleted account now; otherwise the periodic job does."""
    send_job(OF_DELETED_ACCOUNTS)


def delete_sessions_of_deleted_accounts() -> int:
    """Deletes the sessions of people who deleted their account, and of deleted workspaces.

    Running work is canceled. Sessions of a workspace that others can read stay: those shared with it, while it has
    another member.
    """
    rule = lambda one: WORKSPACE if one.workspace.deleted_at else ACCOUNT  # noqa: E731
    return _delete_all(sessions_without_owner, rule, OF_DELETED_ACCOUNTS)


def sessions_without_owner() -> ContextQuerySet:
    """Those that `delete_sessions_of_deleted_accounts` deletes."""
    ended = Q(workspace__deleted_at__isnull=False) | (Q(owner__erased_at__isnull=False) & ~_is_read_by_others())
    left = Context.objects.filter(~holds.held(), ended, deleted_at=None, parent_task=None)
    return left.select_related("workspace").order_by("pk")


def _is_read_by_others() -> Q:
    others = Membership.objects.filter(workspace=OuterRef("workspace"), user__is_active=True)
    return Q(Exists(others.exclude(user=OuterRef("owner"))), is_shared=True)


def _delete_all(
    find: Callable[[], ContextQuerySet], rule: Callable[[Context], str], job: str, *, untouched: bool = False
) -> int:
    """Delete what `find` finds, in portions, by a rule of this name. Returns how many.

    After JOB_SECONDS another `job` goes on, so that a worker that stops need not wait long. What cannot be deleted
    keeps nothing else.
    """
    ends = monotonic() + JOB_SECONDS
    deleted, failed = 0, set[uuid.UUID]()
    while due := list(find().exclude(pk__in=Keys(failed))[:FOUND_AT_ONCE]):
        for portion in _portions(due):
            asked = {one.pk for one in portion}
            left = asked.difference(_delete_quietly(portion, rule(portion[0]), untouched=untouched))
            failed |= left
            deleted += len(asked) - len(left)
            if deleted and monotonic() > ends:
                send_job(job)
                return deleted
    return deleted


def _portions(contexts: Iterable[Context]) -> Iterator[list[Context]]:
    """Contexts to delete in one transaction: of one owner and workspace, and so few that nobody waits long for it.

    Those in cold storage are alone, because their files are read first.
    """
    most, most_events = AT_ONCE[connection.vendor]
    key: Callable[[Context], Any] = lambda one: (*_whose(one), one.cold_file)  # noqa: E731
    for _, some in groupby(sorted(contexts, key=key), key=key):
        portion: list[Context] = []
        for one in some:
            events = sum(other.last_event for other in portion)
            if portion and (len(portion) == most or events + one.last_event > most_events):
                yield portion
                portion = []
            portion.append(one)
        yield portion


def _delete_quietly(contexts: list[Context], rule: str, *, untouched: bool) -> list[uuid.UUID]:
    """Which were deleted. If that fails for several, each is tried alone; the failure of one is logged."""
    try:
        return delete(contexts, rule, untouched=untouched)
    except (_Touched, Refusal):  # held just now
        pass
    except Exception:
        if len(contexts) == 1:
            logger.exception("session %s could not be deleted by the rule %s", contexts[0].pk, rule)
    alone = contexts if len(contexts) > 1 else ()
    return [key for one in alone for key in _delete_quietly([one], rule, untouched=untouched)]
