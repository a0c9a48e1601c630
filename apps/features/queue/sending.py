"""Sending what is queued in a session, when whoever works there has ended.

A ledger listener hears of the end and names the session to the workers; the sweep finds what that missed.
"""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from collections.abc import Sequence
from functools import partial

from django.conf import settings
from django.db import transaction

import db
from apps.engine import send
from apps.engine.queue import publish_queue
from apps.engine.send import Sent
from apps.features.queue import messages
from apps.features.queue.messages import NotNow, Taken
from apps.features.queue.models import QueuedMessage
from apps.features.sessions import switching
from apps.record.errors import ContentTypeNotSupported, Refusal, TaskFinished
from apps.record.models import Context, Event
from db import statements
from db.selections import Selection

AT_ONCE = 500
QUEUED = Selection(lambda context: QueuedMessage.everything.only("pk").filter(context=context)[:1], uuid.UUID(int=0))


def go_on_after(context: Context, events: Sequence[Event]) -> None:
    """A ledger listener: when a task has settled, what waits in its session is sent, after the commit."""
    if any(event.settles for event in events):
        transaction.on_commit(lambda: db.later(wake, context.pk))


def wake(context_id: uuid.UUID) -> None:
    """Have the queue of a session looked at, if it has one."""
    if QUEUED.one(context_id) is not None:
        publish_queue(context_id)


def sweep() -> int:
    """Name sessions again whose queue is due, and say how many; drop what was deleted.

    It is safe to run it anywhere, at any time, twice.
    """
    long_ago = statements.database_time() - datetime.timedelta(seconds=settings.SWEEP_SECONDS)
    due = QueuedMessage.objects.free().filter(queued_at__lt=long_ago).due().order_by("context")
    sessions = list(due.values_list("context_id", flat=True).distinct()[:AT_ONCE])
    for context_id in sessions:
        publish_queue(context_id)
    messages.forget_removed()
    return len(sessions)


async def send_due(context_id: uuid.UUID) -> int:
    """Send what is due, in order, until somebody works on it or something holds it; gives how many were sent."""
    sent = 0
    while (taken := await db.run(messages.take_next, context_id)) is not None:
        try:
            led_to = await _send(taken)
        except NotNow:
            await db.run(messages.give_back, taken)
            break
        except Refusal as refusal:
            await db.run(messages.give_back, taken, str(refusal))
            break
        sent += 1
        if led_to.task is not None:
            break
    return sent


async def send_now(context: Context, message: uuid.UUID) -> Sent:
    """Send a queued message at once: to the task that works or asks, or as what comes next.

    Raises queued.QueuedNotFound, BeingSent, and errors.Refusal for what cannot be sent, which stays in the queue.
    """
    taken = await db.run(messages.take, context, message)
    try:
        try:
            return await _send(taken)
        except TaskFinished:
            return await _send(dataclasses.replace(taken, task=None))
    except Refusal:
        await db.run(messages.give_back, taken)
        raise


async def _send(taken: Taken) -> Sent:
    """Raises errors.Refusal; then the message is still this caller's to send, or to give back."""
    await db.run(_check, taken)
    alongside = partial(messages.recorded, taken)
    sent = await send.send(taken.principal, taken.agent, taken.message, alongside=alongside)
    await db.run(messages.settle, taken)  # unless it went with the record
    return sent


def _check(taken: Taken) -> None:
    """Raises UnsupportedOperation, ContentTypeNotSupported: the agent may be another one by now."""
    switching.check_open(taken.principal, taken.agent)
    if refused := taken.agent.refused_type(taken.row.parts):
        raise ContentTypeNotSupported(f"{taken.agent.name} does not take {refused}. Switch to another agent.")
