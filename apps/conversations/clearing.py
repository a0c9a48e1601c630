"""Clearing a conversation: what runs there is canceled, and nothing of it is shown again."""

from __future__ import annotations

import uuid
from contextlib import suppress

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.conversations import intake, ledger, wakeups
from apps.conversations.errors import ContextNotFound
from apps.conversations.events import EventType
from apps.conversations.models import Context, Task


def clear(principal: Principal, agent: Agent, context_id: str) -> None:
    """Clear the caller's context with this agent. Raises ContextNotFound, also for one that was cleared before.

    A tombstone stays, with the log, which operators can read. The caller may use the same contextId again: that opens
    another conversation, which knows nothing of this one.
    """
    context = intake.context_of(principal, context_id)
    if context is None or context.agent_id != agent.pk:
        raise ContextNotFound
    _clear_with_children(context)


def _clear_with_children(context: Context) -> None:
    """Clear the conversations in which agents worked for this one, then itself, then those that came meanwhile."""
    tasks = list(Task.objects.filter(context=context).values_list("pk", flat=True))
    _clear_children(tasks)
    _clear(context)
    _clear_children(tasks)


def _clear_children(tasks: list[uuid.UUID]) -> None:
    for child in Context.objects.filter(parent_task__in=tasks, deleted_at=None):
        with suppress(ContextNotFound):
            _clear_with_children(child)


def _clear(context: Context) -> None:
    stopped = []
    try:
        with ledger.writing(context) as log:
            for task in Task.objects.unfinished().filter(context=context).order_by("created_at", "pk"):
                stopped += intake.record_cancel(log, task.pk)
            log.add(EventType.SESSION_DELETED, {})
    except Context.DoesNotExist:
        raise ContextNotFound from None
    for run in stopped:
        wakeups.stop(run)
