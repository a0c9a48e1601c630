"""What a deleted context leaves: its own row, and the event that says so. Called by the ledger, in its transaction."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import Any

from django.db import transaction
from django.db.models import Q

from apps.record import blobs, unused_blobs
from apps.record.hooks import hooks
from apps.record.models import Accepted, Context, Event, Message, Run, Task


def erase(context: Context, upto: int) -> None:
    """Delete the rows of the context's tasks and messages, with all that hangs on them, and its log up to an event.

    What forks share of it is theirs, and stays. What a sender's messages led to is forgotten, but not that they were
    sent: none of them runs again. Files that nobody else uses go after the commit.
    """
    stored = [part for prepare in hooks("BEFORE_ERASURE") for part in prepare(context) or ()]
    led_here = Q(task__context=context) | Q(answer__context=context)
    Accepted.objects.filter(led_here).update(task=None, answer=None, claimed_until=None)
    _forget_what_others_were_given(context)
    Task.objects.filter(context=context).delete()
    Message.objects.filter(context=context).delete()
    _erase_log(context, upto, stored)


def _erase_log(context: Context, upto: int, besides: list[Any]) -> None:
    """Delete the events, and let go of the files that they name, and of those `besides`."""
    log = Event.objects.filter(context=context, index__lte=upto)
    stored = besides + [
        part
        for event in log.filter(payload__icontains='"stored"').order_by("index").iterator(100)
        for part in event.parts
        if "stored" in part
    ]
    blobs.release(context.workspace_id, stored)  # all at once, that is in their order
    released = blobs.kept(stored).keys()
    log._raw_delete(log.db)
    for forget in hooks("FILES_RELEASED"):
        forget(context.owner_id, released)
    if released:
        transaction.on_commit(lambda: unused_blobs.delete(released), robust=True)


def _forget_what_others_were_given(context: Context) -> None:
    """Tasks elsewhere may refer to tasks of this one, and what their turns were given has words of it."""
    gone = {str(task) for task in Task.objects.filter(context=context).values_list("pk", flat=True)}
    elsewhere = Task.objects.filter(owner=context.owner_id).exclude(context=context).exclude(references=[])
    referring = [key for key, references in elsewhere.values_list("pk", "references") if gone.intersection(references)]
    _forget_inputs(referring)


def _forget_inputs(tasks: Collection[uuid.UUID]) -> None:
    """The hashes stay, which tell whether two turns were given the same."""
    Run.objects.filter(task__in=tasks).update(input={})
