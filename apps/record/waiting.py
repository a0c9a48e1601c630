"""What waits for somebody: tasks that ask, over all sessions."""

from __future__ import annotations

from apps.accounts.principals import Principal
from apps.record.lifecycle import INTERRUPTED
from apps.record.models import Context, Task
from apps.record.models.record import ContextQuerySet, TaskQuerySet


def waiting_for(principal: Principal) -> TaskQuerySet:
    """The caller's tasks that wait for an answer or a credential, in sessions that are not put away.

    What agents called for is not among them: its question is asked by the task that called for it.
    """
    waiting = Task.objects.visible_to(principal).filter(state__in=INTERRUPTED)
    return waiting.filter(parent=None, context__in=in_sight(principal))


def in_sight(principal: Principal) -> ContextQuerySet:
    """The caller's sessions that are not put away."""
    return Context.objects.visible_to(principal).listed().filter(archived_at=None)
