"""The record (`record`), what belongs to the work on it (`execution`), and the index of its words (`search`).

A foreign key that is the beginning of another index has none of its own (`db_index=False`): each costs every event.
"""

from apps.conversations.models.branches import ChosenLeaf
from apps.conversations.models.execution import Accepted, Blob, ColdKey, Run, Suspension
from apps.conversations.models.marks import SessionMark
from apps.conversations.models.queued import QueuedMessage
from apps.conversations.models.record import (
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
from apps.conversations.models.search import Indexed, SearchEntry, SearchWords
from apps.conversations.models.segments import Segment
from apps.conversations.models.shares import Share
from apps.conversations.models.uploads import Upload

__all__ = [
    "Accepted",
    "Artifact",
    "Blob",
    "ChosenLeaf",
    "ColdKey",
    "Context",
    "ContextQuerySet",
    "Event",
    "Feedback",
    "Indexed",
    "Message",
    "QueuedMessage",
    "Run",
    "SearchEntry",
    "SearchWords",
    "Segment",
    "SessionMark",
    "Share",
    "Shown",
    "Suspension",
    "Task",
    "TaskQuerySet",
    "Upload",
]
