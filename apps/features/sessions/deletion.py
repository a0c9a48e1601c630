"""Deleting a conversation: what runs there is canceled, and nothing of it stays but a tombstone and a line of audit."""

from __future__ import annotations

import logging
import uuid
from contextlib import suppress
from functools import partial

from django.db import transaction

from apps.accounts import audit
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine import canceling
from apps.features.archive import restoring
from apps.features.archive.files import DamagedArchive
from apps.features.forks import inheritance
from apps.record import addressing, cold, ledger, lineage, notifications
from apps.record.errors import ContextNotFound
from apps.record.events import EventType
from apps.record.models import Artifact, Context, Event, Message, Task
from apps.record.projection import tombstone_of
from db.transactions import transacting

logger = logging.getLogger("parley.clearing")

Actor = Principal | str
"""Who deletes: a caller, or the name of a rule."""


def clear(principal: Principal, agent: Agent, context_id: str) -> None:
    """Delete the caller's context with this agent. Raises ContextNotFound, also for one that was deleted before.

    The caller may use the same contextId again: that opens another conversation, which knows nothing of this one.
    """
    context = addressing.context_of(principal, context_id)
    if context is None or context.agent_id != agent.pk:
        raise ContextNotFound
    clear_found(context, principal)


def clear_session(principal: Principal, session: uuid.UUID) -> None:
    """Delete the caller's context of this key, with whatever agent. Raises ContextNotFound."""
    context = Context.objects.visible_to(principal).filter(pk=session).first()
    if context is None:
        raise ContextNotFound
    clear_found(context, principal)


def clear_untouched(context: Context, actor: Actor) -> bool:
    """Delete a context in which nothing has happened since it was read; says whether it was deleted.

    Raises ContextNotFound.
    """
    try:
        clear_found(context, actor, untouched_at=context.last_event)
    except _Touched:
        return False
    return True


def clear_found(context: Context, actor: Actor, untouched_at: int | None = None) -> None:
    """Delete a context that the actor may delete. Raises ContextNotFound where somebody else did so just now."""
    with transacting():
        lineage.hold_still(context.workspace_id)
        _clear_with_children(context, actor, untouched_at)


UNUSABLE = (DamagedArchive, FileNotFoundError)


class _Touched(Exception):
    """Something happened in the context."""


def _clear_with_children(context: Context, actor: Actor, untouched_at: int | None = None) -> None:
    """Clear the conversations in which agents worked for this one, then itself, then those that came meanwhile.

    What agents did for tasks that forks share stays with those.
    """
    _bring_back(context, actor)
    tasks = inheritance.unshared_tasks(context)
    _clear_children(tasks, actor)
    _clear(context, actor, untouched_at)
    _clear_children(tasks, actor)


def _bring_back(context: Context, actor: Actor) -> None:
    """Only what is in the tables can be deleted thoroughly. A file that is of no use any more is simply deleted."""
    try:
        cold.restored(context)
    except UNUSABLE:
        logger.exception("session %s is deleted with what its file held; uses of stored files stay counted", context.pk)
        _clear_children(restoring.tasks_of(context), actor)  # while it is known which they are
        restoring.drop(context)
    for fork in Context.objects.filter(segments__source=context).exclude(cold_file="").distinct():
        try:
            cold.restored(fork)  # what it begins with becomes its own
        except UNUSABLE:
            logger.exception("session %s, a fork of one that is deleted, stays as it is", fork.pk)


def _clear_children(tasks: list[uuid.UUID], actor: Actor) -> None:
    for child in Context.objects.filter(parent_task__in=tasks, deleted_at=None):
        with suppress(ContextNotFound):
            _clear_with_children(child, actor)


def _clear(context: Context, actor: Actor, untouched_at: int | None) -> None:
    stopped = []
    try:
        with ledger.writing(context) as log:
            if untouched_at not in (None, context.last_event):
                raise _Touched
            audit.write(audit.Act.SESSION_DELETED, context.pk, actor, _counts(context))
            for task in Task.objects.unfinished().filter(context=context).order_by("created_at", "pk"):
                stopped += canceling.record_cancel(log, task.pk)
            log.add(EventType.SESSION_DELETED, tombstone_of(context))
    except Context.DoesNotExist:
        raise ContextNotFound from None
    for run in stopped:
        transaction.on_commit(partial(notifications.stop, run))


def _counts(context: Context) -> dict[str, int]:
    """How many rows of its own it has."""
    return {
        "events": Event.objects.filter(context=context).count(),
        "messages": Message.objects.filter(context=context).count(),
        "tasks": Task.objects.filter(context=context).count(),
        "artifacts": Artifact.objects.filter(task__context=context).count(),
    }
