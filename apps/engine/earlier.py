"""What was said and done earlier, as an agent is given it with a message."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from agentkit import Message as Said
from agentkit import ReferencedTask
from apps.record import blobs, lineage, wire
from apps.record.models import Context, Message, Task
from db.selections import Among

TASKS = Among(lambda: Task.objects.select_related("context"), "pk")
HISTORY = 100  # earlier messages that a handler is given


def messages(context: Context, before: int | None = None) -> list[Message]:
    """The newest messages of a context, oldest first; those before an index, if one is given."""
    return lineage.newest_messages(context, HISTORY, before)


def said(row: Message, context: Context) -> Said:
    """A recorded message as handlers see it; content that is kept in files is loaded when it is read."""
    return Said.from_wire(wire.stored_message(row, context), load=blobs.content_of)


def tasks(references: Sequence[str], owner: int | None, context: Context | None = None) -> list[ReferencedTask]:
    """The tasks that are referred to in a context, as far as they are the owner's, and as that shows them."""
    if not references:
        return []
    left = lineage.leavings(context) if context else {}
    found = TASKS.all([uuid.UUID(key) for key in references])
    by_key = {str(one.pk): one for one in found if one.owner_id == owner}
    ordered = [by_key[key] for key in references if key in by_key]
    left_at = {task: fork.payload["at"] for task, fork in left.items()}
    shown = wire.stored_tasks(ordered, left_at)
    return [ReferencedTask.from_wire(one, load=blobs.content_of) for one in shown]
