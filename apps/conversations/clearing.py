"""Clearing a conversation: what runs there is canceled, and nothing of it is shown again."""

from __future__ import annotations

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
