"""The queue of a session: what its owner says while an agent works waits here, in order, and is sent when that is done.

A row is taken by compare-and-swap and goes in the transaction that records its message: whatever dies in between, it is
sent once. `features.queue.sending` sends.
"""

from __future__ import annotations

import datetime
import uuid
from dataclasses import dataclass

from django.conf import settings
from django.db import transaction

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.features.queue.models import HELD_AFTER, QueuedMessage, QueuedMessageQuerySet, parts_of
from apps.record import blobs, unused_blobs
from apps.record.errors import ContextNotFound, InvalidParams, Refusal, UnsupportedOperation
from apps.record.events import JSON
from apps.record.ledger import Ledger
from apps.record.lifecycle import TaskState
from apps.record.models import Context, Message, Task
from db import statements
from db.transactions import transacting

MOST = 20  # messages of one session
REMOVED_SECONDS = 60  # in which what was deleted can be had back
AT_ONCE = 500
CLAIM_SECONDS = settings.ANSWER_SECONDS + 15  # within which a message was sent, or its sender died

HELD = {
    TaskState.CANCELED: "You stopped the work, so this waits. Send it now, or delete it.",
    TaskState.FAILED: "The work before it failed, so this waits. Send it now, or delete it.",
    TaskState.REJECTED: "The agent declined what was asked before, so this waits. Send it now, or delete it.",
    TaskState.INPUT_REQUIRED: "The agent asks something. Answer first; then this is sent.",
    TaskState.AUTH_REQUIRED: "The agent asks for something. Give it first; then this is sent.",
}
"""Why nothing is sent by itself, by the state of the session's newest task."""


class QueueFull(UnsupportedOperation):
    """So many messages wait already that no more are taken."""


class QueuedNotFound(Refusal):
    """There is no such message in the queue. It may have been sent."""


class BeingSent(UnsupportedOperation):
    """The message is being sent at this moment."""


class NotNow(Refusal):
    """Somebody works in the session, or asks something."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A message that this caller alone sends, by whom, and to whom in which session."""

    row: QueuedMessage
    context: Context
    task: Task | None  # that it goes on with

    @property
    def agent(self) -> Agent:
        return self.task.agent if self.task else self.context.agent

    @property
    def principal(self) -> Principal:
        return self.row.owner.principal

    @property
    def message(self) -> JSON:
        ids = {"messageId": self.row.message_id, "contextId": self.context.context_id}
        return {**ids, "role": "ROLE_USER", **self.row.message} | ({"taskId": str(self.task.pk)} if self.task else {})


def add(principal: Principal, context: Context, key: str, message: JSON) -> bool:
    """Queue a message (checked A2A parts, references) under a key; False where it was queued, deleted or sent before.

    Raises QueueFull, InvalidParams for a key that was used for another message, ContextNotFound for a session that was
    deleted just now; then nothing was stored.
    """
    if principal.user_id is None:
        raise ContextNotFound
    stored = {**message, "parts": blobs.store_large(message["parts"])}
    with transacting():
        if (now := _hold(context.pk)) is None or now.deleted_at:
            raise ContextNotFound
        if (same := QueuedMessage.everything.filter(context=context, message_id=key).first()) is not None:
            if same.message != stored:
                raise InvalidParams("This messageId was used for another message. Use a new messageId.", "messageId")
            return False
        if _is_said(context, key):
            return False
        _check_room(context)
        QueuedMessage.objects.create(context=context, owner_id=principal.user_id, message_id=key, message=stored)
        blobs.count_uses(context.workspace_id, stored["parts"])
        # From here on the end of a task is told to `features.queue.sending`.
        Context.objects.filter(pk=context.pk, is_watched=False).update(is_watched=True)
    return True


def change(context: Context, queued: uuid.UUID, text: str) -> None:
    """Let a queued message say something else; its files stay. Raises QueuedNotFound, BeingSent, InvalidParams."""
    row = _found(context, queued)
    files = [part for part in row.parts if "text" not in part or part.get("filename")]
    parts = [*([{"text": text}] if text.strip() else []), *files]
    if not parts:
        raise InvalidParams("Write something, or delete the message.", "text")
    free = QueuedMessage.objects.free().filter(pk=row.pk)
    if not free.update(message={**row.message, "parts": parts}, problem=""):
        raise BeingSent


def remove(context: Context, queued: uuid.UUID) -> None:
    """Delete a queued message; `restore` brings it back for a while. Raises QueuedNotFound, BeingSent."""
    with transacting():
        _hold(context.pk)  # nobody takes it meanwhile
        row = _found(context, queued)
        if not QueuedMessage.objects.free().filter(pk=row.pk).update(removed_at=statements.database_time()):
            raise BeingSent


def restore(context: Context, queued: uuid.UUID) -> None:
    """Take back that a message was deleted: it is as it was, and where. Raises QueuedNotFound, QueueFull."""
    with transacting():
        _hold(context.pk)
        row = QueuedMessage.everything.filter(context=context, pk=queued).first()
        if row is None:
            raise QueuedNotFound
        if row.removed_at is not None:
            _check_room(context)
            if not QueuedMessage.everything.filter(pk=row.pk).update(removed_at=None):
                raise QueuedNotFound


def forget_removed() -> None:
    """Drop what was deleted so long ago that nobody takes it back."""
    long_ago = statements.database_time() - datetime.timedelta(seconds=REMOVED_SECONDS)
    removed = QueuedMessage.everything.filter(removed_at__lt=long_ago)
    for row in removed.select_related("context")[:AT_ONCE]:
        with transacting():
            _delete(removed.all(), row, row.context.workspace_id)


def held(context: Context) -> str:
    """Why what is queued is not sent by itself, as a sentence; empty where it is, or will be."""
    newest = _newest(context)
    return HELD.get(TaskState(newest.state), "") if newest else ""


def take_next(context_id: uuid.UUID) -> Taken | None:
    """Take the first message of a queue, if it is its turn: nobody works or asks, nothing holds it."""
    with transacting():
        if (context := _hold(context_id)) is None or context.deleted_at or context.cold_file:
            return None
        first = _sent_before_are_gone(context)
        if first is None or first.problem or first.is_being_sent or not first.owner.is_active:
            return None
        if not _is_idle(context):
            return None
        newest = _newest(context)
        if newest is not None and newest.state in HELD_AFTER:
            return None
        _claim(first)
    return Taken(first, context, None)


def take(context: Context, queued: uuid.UUID) -> Taken:
    """Take a message whatever holds it, for the task that works or asks. Raises QueuedNotFound, BeingSent."""
    with transacting():
        now = _hold(context.pk)
        if now is None:
            raise ContextNotFound
        row = _found(now, queued)
        if row.is_being_sent:
            raise BeingSent
        _claim(row)
        here = Task.objects.unfinished().select_related("agent").filter(context=now, agent=now.agent)
        working = here.order_by("-created_at", "-pk")
        asking = working.filter(state__in=(TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED))
        return Taken(row, now, asking.first() or working.first())


def give_back(taken: Taken, problem: str = "") -> None:
    """Let go of a message that could not be sent."""
    QueuedMessage.objects.filter(pk=taken.row.pk).update(claimed_until=None, problem=problem)


def settle(taken: Taken) -> None:
    """What was sent waits no longer."""
    with transacting():
        _delete(QueuedMessage.objects.all(), taken.row, taken.context.workspace_id)


def recorded(taken: Taken, log: Ledger, task: uuid.UUID) -> None:
    """The same in the transaction that records the message. Raises NotNow where another task is not done."""
    if taken.task is None and not _is_idle(log.context, besides=task):
        raise NotNow
    _delete(QueuedMessage.objects.all(), taken.row, taken.context.workspace_id)


def _check_room(context: Context) -> None:
    if QueuedMessage.objects.filter(context=context).count() >= MOST:
        raise QueueFull(f"{MOST} messages wait already. Wait until some are sent, or delete one.")


def _hold(context_id: uuid.UUID) -> Context | None:
    """The context, locked, with its agent."""
    return Context.objects.select_related("agent").select_for_update(of=("self",)).filter(pk=context_id).first()


def _is_idle(context: Context, besides: uuid.UUID | None = None) -> bool:
    others = Task.objects.unfinished().filter(context=context.pk)
    return not (others.exclude(pk=besides) if besides else others).exists()


def _newest(context: Context) -> Task | None:
    return Task.objects.filter(context=context).order_by("-created_at", "-pk").first()


def _is_said(context: Context, key: str) -> bool:
    return Message.objects.filter(context=context, message_id=key, role=Message.Role.USER).exists()


def _sent_before_are_gone(context: Context) -> QueuedMessage | None:
    """The first message that is not in the record yet: one that is was sent by somebody who died right after."""
    rows = QueuedMessage.objects.select_related("owner").filter(context=context)
    for row in rows:
        if row.claimed_until is None or not _is_said(context, row.message_id):
            return row
        _delete(QueuedMessage.objects.all(), row, context.workspace_id)
    return None


def _found(context: Context, queued: uuid.UUID) -> QueuedMessage:
    row = QueuedMessage.objects.select_related("owner").filter(context=context, pk=queued).first()
    if row is not None and row.claimed_until is not None and _is_said(context, row.message_id):
        row = None  # its sender died before it could say so
    if row is None:
        raise QueuedNotFound
    return row


def _claim(row: QueuedMessage) -> None:
    until = statements.database_time() + datetime.timedelta(seconds=CLAIM_SECONDS)
    QueuedMessage.objects.filter(pk=row.pk).update(claimed_until=until)


def _delete(rows: QueuedMessageQuerySet, row: QueuedMessage, workspace: int) -> bool:
    with transaction.atomic():
        if not rows.filter(pk=row.pk).delete()[0]:
            return False
        blobs.release(workspace, row.parts)
        if released := blobs.kept(row.parts).keys():
            transaction.on_commit(lambda: unused_blobs.delete(released), robust=True)
    return True


def forget(context: Context) -> list[JSON]:
    """Delete what is queued in a context that is being erased; gives the stored parts, which are to be released."""
    queued = QueuedMessage.everything.filter(context=context)
    stored = [part for part in parts_of(queued) if "stored" in part]
    queued.delete()
    return stored
