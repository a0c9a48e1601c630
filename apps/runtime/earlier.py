"""What was said and done earlier, as an agent is given it with a message."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from agentkit import Message as Said
from agentkit import ReferencedTask
from apps.conversations import blobs, wire
from apps.conversations.models import Context, Message, Task

HISTORY = 100  # earlier messages that a handler is given


def messages(context: uuid.UUID, before: int | None = None) -> list[Message]:
    """The newest messages of a context, oldest first; those before an index, if one is given."""
    found = Message.objects.filter(context_id=context)
    if before is not None:
        found = found.filter(index__lt=before)
    return list(found.order_by("-index")[:HISTORY])[::-1]


def said(row: Message, context: Context) -> Said:
    """A recorded message as handlers see it; content that is kept in files is loaded when it is read."""
    return Said.from_wire(wire.stored_message(row, context), load=blobs.content_of)


def tasks(references: Sequence[str], owner: int | None) -> list[ReferencedTask]:
    """The tasks that are referred to, as far as they are the owner's."""
    if not references:
        return []
    found = Task.objects.select_related("context").filter(pk__in=references, owner_id=owner)
    by_key = {str(one.pk): one for one in found}
    ordered = [by_key[key] for key in references if key in by_key]
    return [ReferencedTask.from_wire(wire.stored_task(one), load=blobs.content_of) for one in ordered]
