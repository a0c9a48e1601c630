"""The record (`record`), what belongs to the work on it (`execution`), and what forks share (`segments`).

A foreign key that is the beginning of another index has none of its own (`db_index=False`): each costs every event.
"""

from apps.record.models.execution import Accepted, Blob, ColdKey, Run, Suspension
from apps.record.models.record import (
    Artifact,
    Context,
    ContextQuerySet,
    Event,
    Feedback,
    Message,
    Shown,
    Task,
    TaskQuerySet,
)
from apps.record.models.segments import Segment

__all__ = [
    "Accepted",
    "Artifact",
    "Blob",
    "ColdKey",
    "Context",
    "ContextQuerySet",
    "Event",
    "Feedback",
    "Message",
    "Run",
    "Segment",
    "Shown",
    "Suspension",
    "Task",
    "TaskQuerySet",
]
