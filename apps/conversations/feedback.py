"""What callers think of a task: lines of its log, of which the newest counts."""

from __future__ import annotations

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.conversations import intake, ledger
from apps.conversations.errors import TaskNotFound
from apps.conversations.events import EventType, Feedback
from apps.conversations.models import Context


def give(principal: Principal, agent: Agent, task_id: str, feedback: Feedback) -> None:
    """Record feedback on the caller's task, whatever state it is in. Raises TaskNotFound."""
    task = intake.find_task(principal, agent, task_id)
    try:
        with ledger.writing(task.context) as log:
            log.add(EventType.FEEDBACK, feedback, task=task.pk)
    except Context.DoesNotExist:  # it was cleared just now
        raise TaskNotFound from None
