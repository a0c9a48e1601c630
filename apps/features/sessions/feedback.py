"""What callers think of a task: lines of its log, of which the newest counts."""

from __future__ import annotations

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.record import addressing, ledger
from apps.record.errors import InvalidParams, TaskNotFound
from apps.record.events import EventType, Feedback
from apps.record.models import Context

MOST = 5  # stars
LONGEST = 10_000  # characters of what is said with them


def read(rating: str, text: str) -> Feedback:
    """Feedback from a form. Raises InvalidParams for what is none."""
    if rating not in map(str, range(1, MOST + 1)):
        raise InvalidParams(f"Give 1 to {MOST} stars.", "rating")
    if len(text) > LONGEST:
        raise InvalidParams(f"Write at most {LONGEST:,} characters.", "text")
    words = "".join(letter for letter in text if letter != "\0" and not "\ud800" <= letter <= "\udfff").strip()
    return {"rating": int(rating), "feedback": words} if words else {"rating": int(rating)}


def give(principal: Principal, agent: Agent, task_id: str, feedback: Feedback) -> None:
    """Record feedback on the caller's task, whatever state it is in. Raises TaskNotFound."""
    task = addressing.find_task(principal, agent, task_id)
    try:
        with ledger.writing(task.context) as log:
            log.add(EventType.FEEDBACK, feedback, task=task.pk)
    except Context.DoesNotExist:  # it was cleared just now
        raise TaskNotFound from None
