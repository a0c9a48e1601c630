"""What a cleared context leaves: its own row and its log. Called by the ledger, inside its transaction."""

from __future__ import annotations

from django.db.models import Q

from apps.conversations import blobs
from apps.conversations.models import Accepted, Context, Event, Message, Task


def erase(context: Context) -> None:
    """Delete the rows of the context's tasks and messages, with all that hangs on them, and let go of their files.

    What a sender's messages led to is forgotten, but not that they were sent: none of them runs again.
    """
    led_here = Q(task__context=context) | Q(answer__context=context)
    Accepted.objects.filter(led_here).update(task=None, answer=None, claimed_until=None)
    Task.objects.filter(context=context).delete()
    Message.objects.filter(context=context).delete()
    with_files = Event.objects.filter(context=context, payload__icontains='"stored"').order_by("index")
    blobs.release(context.workspace_id, (part for event in with_files.iterator(100) for part in event.parts))
