"""The record (`record`), and what belongs to the work on it (`execution`).

A foreign key that is the beginning of another index has none of its own (`db_index=False`): each costs every event.
"""

from apps.conversations.models.execution import Accepted, Blob, Run, Suspension
from apps.conversations.models.record import Artifact, Context, Event, Feedback, Message, Shown, Task, TaskQuerySet

__all__ = [
    "Accepted",
    "Artifact",
    "Blob",
    "Context",
    "Event",
    "Feedback",
    "Message",
    "Run",
    "Shown",
    "Suspension",
    "Task",
    "TaskQuerySet",
]
