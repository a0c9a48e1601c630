"""The queue of a session: messages that its owner writes while an agent works are sent in order when it is done.

A row is claimed by compare-and-swap and deleted in the transaction that records its message. So the message is sent
once, even if a process dies. A ledger listener sends the queue after a task has settled; the sweep finds what the
listener missed.
"""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from apps.accounts.errors import NotFound
from apps.accounts.models import ApiKey
from apps.accounts.principals import Principal
from apps.agents.models import Agent, AgentVersion
from apps.conversations.queue.models import HELD_AFTER, QueuedMessage, QueuedMessageQuerySet
from apps.engine import send
from apps.engine.repeats import Sent, sent_before
from apps.engine.turns.questions import asking_slot, asks_approval
from apps.record.content import blobs
from apps.record.content.composing import check_taken, compose
from apps.record.errors import (
    ContextNotFound,
    InvalidParams,
    KeyUsed,
    NotAccepting,
    Refusal,
    TaskFinished,
    UnsupportedOperation,
)
from apps.record.events import JSON
from apps.record.execution import MAX_LANE
from apps.record.ledger import Ledger
from apps.record.models import Context, Event, Message, Task, TaskState
from apps.record.reading.lookup import check_may_use, check_may_write
from parley import db
from parley.db import sql
from parley.db.sql import Keys, write_transaction
from parley.work import WorkList

MAX_QUEUED = 20  # messages of one session
REMOVED_SECONDS = 60  # in which a deletion can be undone
SWEPT_AT_ONCE = 500
CLAIM_SECONDS = settings.ANSWER_SECONDS + 15  # after which the sender has died

HOLD_REASONS = {
    TaskState.CANCELED: "You stopped the task, so this is on hold. Send it now or delete it.",
    TaskState.FAILED: "The previous task failed, so this is on hold. Send it now or delete it.",
    TaskState.REJECTED: "The agent did not accept the previous message, so this is on hold. Send it now or delete it.",
    TaskState.INPUT_REQUIRED: "The agent has a question. This is sent after you answer.",
    TaskState.AUTH_REQUIRED: "The agent needs a credential. This is sent after you provide it.",
}
"""Why nothing is sent by itself, by the state of the session's newest task."""


class QueueFull(UnsupportedOperation):
    """So many messages wait already that no more are queued."""


class QueuedNotFound(NotFound):
    """There is no such message in the queue. It may have been sent."""


class BeingSent(UnsupportedOperation):
    """The message is being sent at this moment."""


class SessionBusy(Refusal):
    """Somebody works in the session, or asks something."""


@dataclass(frozen=True, slots=True)
class ClaimedMessage:
    """A message that only one process sends."""

    row: QueuedMessage
    context: Context
    task: Task | None  # that the message continues
    principal: Principal  # who wrote it, in the session's workspace

    @property
    def agent(self) -> Agent:
        return self.task.agent if self.task else self.context.agent

    @property
    def message(self) -> JSON:
        task, context = self.task.pk if self.task else None, self.context.name_for(self.principal)
        return {**compose((), key=self.row.message_id, context=context, task=task), **self.row.message}


def enqueue(
    principal: Principal,
    context: Context,
    message: JSON,
    *,
    is_answer: bool = False,
    version: AgentVersion | None = None,
    most: int = MAX_QUEUED,
) -> bool:
    """Queue a message (see `composing`) for the session; False if it was queued or sent before.

    An answer is sent when the agent asks, but decides about no tool call. `version`: of the session's agent, for a
    new task. `most`: how many may wait.
    Raises QueueFull, KeyUsed, ContextNotFound, ReadOnlySession; then
    nothing was stored.
    """
    if principal.user_id is None:
        raise ContextNotFound
    check_may_write(principal, context)
    stored = {name: value for name, value in message.items() if name not in ("messageId", "role")}
    stored |= {"parts": blobs.store_large(message["parts"])}
    key = message["messageId"]
    with write_transaction():
        if (now := _lock_context(context.pk)) is None or now.deleted_at:
            raise ContextNotFound
        if (same := QueuedMessage.everything.filter(context=context, message_id=key).first()) is not None:
            if same.message != stored:
                raise KeyUsed
            return False
        if sent_before(principal, context, {**stored, "messageId": key}):
            return False
        _check_room(context, most)
        how = {"owner_id": principal.user_id, "api_key": principal.key[:MAX_LANE], "is_answer": is_answer}
        QueuedMessage.objects.create(context=context, message_id=key, message=stored, version=version, **how)
        blobs.count_uses(context.workspace_id, stored["parts"])
        Context.objects.filter(pk=context.pk, is_watched=False).update(is_watched=True)
    return True


def send_or_queue(principal: Principal, context: Context, message: JSON) -> uuid.UUID | None:
    """Send a message (see `composing`) to the session's agent, as soon as nothing works in the session. Synchronous.

    Returns its task; None if it waits in the queue, as it does behind others that wait or are on hold. The same message
    is sent once. Raises errors.Refusal; then nothing was stored.
    """
    if earlier := sent_before(principal, context, message):
        return earlier.task
    is_queued = QueuedMessage.everything.filter(context=context, message_id=message["messageId"]).exists()
    if not is_queued and _is_free(context):
        addressed = {**message, "contextId": context.name_for(principal)}
        with suppress(SessionBusy):
            return send.accept_and_publish(principal, context.agent, addressed, extra_writes=_check_free).task
    if enqueue(principal, context, message):
        QUEUES.publish(context.pk)
    return None


def _check_idle(log: Ledger, task: uuid.UUID) -> None:
    """In the transaction that records a message. Raises SessionBusy if another task is unfinished."""
    if not _is_idle(log.context, besides=task):
        raise SessionBusy


def _check_free(log: Ledger, task: uuid.UUID) -> None:
    """Like `_check_idle`, for a message that was not queued. Raises SessionBusy also if others wait."""
    if not _is_free(log.context, besides=task):
        raise SessionBusy


def edit(principal: Principal, context: Context, queued: uuid.UUID, text: str) -> None:
    """Replace the text of the caller's queued message; its files stay.

    Raises QueuedNotFound, BeingSent, InvalidParams.
    """
    said = blobs.store_large([{"text": text}]) if text.strip() else []
    with write_transaction():
        _lock_context(context.pk)  # keeps others from claiming it
        row = _find(principal, context, queued)
        parts = [*said, *(part for part in row.parts if not _is_said(part))]
        if not parts:
            raise InvalidParams("Write something, or delete the message.", "text")
        free = QueuedMessage.objects.free().filter(pk=row.pk)
        if not free.update(message={**row.message, "parts": parts}, problem=""):
            raise BeingSent
        blobs.count_uses(context.workspace_id, said)
        _release(context.workspace_id, [part for part in row.parts if _is_said(part)])


def _is_said(part: JSON) -> bool:
    is_text = "text" in part or part.get("stored", {}).get("kind") == "text"
    return is_text and not part.get("filename")


def remove(principal: Principal, context: Context, queued: uuid.UUID) -> None:
    """Delete the caller's queued message; `undo_remove` restores it for a while. Raises QueuedNotFound, BeingSent."""
    with write_transaction():
        _lock_context(context.pk)  # keeps others from claiming it
        row = _find(principal, context, queued)
        if not QueuedMessage.objects.free().filter(pk=row.pk).update(removed_at=sql.database_time()):
            raise BeingSent


def undo_remove(principal: Principal, context: Context, queued: uuid.UUID) -> None:
    """Put a deleted message back in its place. Raises QueuedNotFound, QueueFull."""
    with write_transaction():
        _lock_context(context.pk)
        row = QueuedMessage.everything.filter(context=context, pk=queued, owner=principal.user_id).first()
        if row is None:
            raise QueuedNotFound
        if row.removed_at is not None:
            _check_room(context)
            if not QueuedMessage.everything.filter(pk=row.pk).update(removed_at=None):
                raise QueuedNotFound


def hold_reason(context: Context) -> str:
    """Why queued messages are held back, as a sentence; "" if they are sent automatically."""
    newest = _newest_task(context)
    return HOLD_REASONS.get(TaskState(newest.state), "") if newest else ""


def _check_room(context: Context, most: int = MAX_QUEUED) -> None:
    if QueuedMessage.objects.filter(context=context).count() >= most:
        raise QueueFull(f"{most} messages are already queued. Wait until some are sent, or delete one.")


def wake_after_settled_tasks(context: Context, events: Sequence[Event]) -> None:
    if any(event.settles for event in events):
        transaction.on_commit(lambda: db.later(wake_queue, context.pk))


def wake_queue(context_id: uuid.UUID) -> None:
    if QueuedMessage.everything.filter(context=context_id).exists():
        QUEUES.publish(context_id)


def due_sessions() -> QuerySet[QueuedMessage, uuid.UUID]:
    """Those whose queue is due, and not only since a moment ago."""
    long_ago = sql.database_time() - datetime.timedelta(seconds=settings.SWEEP_SECONDS)
    due = QueuedMessage.objects.free().filter(queued_at__lt=long_ago).due().order_by("context")
    return due.values_list("context_id", flat=True).distinct()


def erase_removed() -> None:
    """Erase what can no longer be undone: a sweep (`parley.registry`)."""
    long_ago = sql.database_time() - datetime.timedelta(seconds=REMOVED_SECONDS)
    removed = QueuedMessage.everything.filter(removed_at__lt=long_ago)
    for row in removed.select_related("context")[:SWEPT_AT_ONCE]:
        with write_transaction():
            _delete(removed.all(), row, row.context.workspace_id)


async def send_due(context_id: uuid.UUID) -> int:
    """Sends a session's due messages in order, until a task works on one or something holds the rest.

    Returns their number.
    """
    sent = 0
    while (claimed := await db.run(claim_next, context_id)) is not None:
        try:
            outcome = await _send_claimed(claimed)
        except (SessionBusy, NotAccepting):  # the sweep tries again
            await db.run(release_claim, claimed)
            break
        except Refusal as refusal:
            await db.run(release_claim, claimed, str(refusal))
            break
        sent += 1
        if outcome.task is not None:
            break
    return sent


QUEUES = WorkList(
    "queued_messages", "queue.send", send_due, Context, "queued_at",
    due=due_sessions, waiting=QueuedMessage.objects.all,
)  # fmt: skip


async def send_now(principal: Principal, context: Context, message: uuid.UUID) -> Sent:
    """Send the caller's queued message at once: to the task that works or asks, or as the next message.

    Raises QueuedNotFound, BeingSent, and errors.Refusal if it cannot be sent; then it stays in the queue.
    """
    claimed = await db.run(claim, principal, context, message)
    try:
        try:
            return await _send_claimed(claimed)
        except TaskFinished:
            return await _send_claimed(dataclasses.replace(claimed, task=None))
    except Refusal:
        await db.run(release_claim, claimed)
        raise


async def _send_claimed(claimed: ClaimedMessage) -> Sent:
    """Raises errors.Refusal; then the message is still claimed."""
    await db.run(_check_agent, claimed)
    delete = partial(delete_with_record, claimed)
    index = claimed.task.status_event if claimed.task and claimed.row.is_answer else None
    chosen = claimed.row.version_id
    version = await db.run(_version_of, claimed.agent, chosen) if chosen else None
    how: JSON = {"extra_writes": delete, "question_index": index, "version": version}
    sent = await send.send(claimed.principal, claimed.agent, claimed.message, **how)
    await db.run(delete_sent, claimed)  # unless it was deleted with the record
    return sent


def _version_of(agent: Agent, key: uuid.UUID) -> AgentVersion | None:
    """None if it is another agent's: the session has switched its own."""
    return AgentVersion.objects.filter(pk=key, agent=agent).first()


def _check_agent(claimed: ClaimedMessage) -> None:
    """Raises ContextNotFound, UnsupportedOperation, ContentTypeNotSupported: agent and access may have changed."""
    if not claimed.context.is_seen_by(claimed.principal):
        raise ContextNotFound("You can no longer see this session.")
    check_may_write(claimed.principal, claimed.context)
    check_may_use(claimed.principal, claimed.agent)
    check_taken(claimed.agent, claimed.row.parts)


def claim_next(context_id: uuid.UUID) -> ClaimedMessage | None:
    with write_transaction():
        if (context := _lock_context(context_id)) is None or context.deleted_at or context.cold_file:
            return None
        if (newest := _newest_task(context)) is not None and newest.state in HELD_AFTER:
            return None
        first, is_idle = _first_unsent(context), _is_idle(context)
        while first is not None and first.is_answer and is_idle and not first.is_being_sent:  # to no question
            _delete(QueuedMessage.objects.all(), first, context.workspace_id)
            first = _first_unsent(context)
        if first is None or first.problem or first.is_being_sent or not first.owner.is_active:
            return None
        asking = _asking_task(first) if first.is_answer else None
        if not (is_idle or asking):
            return None
        _set_claimed(first)
    return ClaimedMessage(first, context, asking, _writer_of(first, context))


def _writer_of(row: QueuedMessage, context: Context) -> Principal:
    """Who queued it, with the agents that their key reaches; of another credential, only the session's is known."""
    person = row.owner.principal_in(context.workspace_id)
    if not row.api_key:
        return person
    key = ApiKey.objects.of_name(row.api_key).first()
    reached = key.agents if key else [context.agent.slug]
    return dataclasses.replace(person, key=row.api_key, agents=frozenset(reached) or None)


def _asking_task(answer: QueuedMessage) -> Task | None:
    """The task that asks its person something else than about a tool call."""
    asking = Task.objects.select_related("agent").filter(context=answer.context, state=TaskState.INPUT_REQUIRED)
    found = asking.filter(owner=answer.owner).order_by("-created_at", "-pk").first()
    return None if found is None or asks_approval(asking_slot(found.slot)) else found


def claim(principal: Principal, context: Context, queued: uuid.UUID) -> ClaimedMessage:
    """Claim the caller's message, even of a held queue, for their task that works or asks.

    Raises QueuedNotFound, BeingSent.
    """
    with write_transaction():
        now = _lock_context(context.pk)
        if now is None:
            raise ContextNotFound
        row = _find(principal, now, queued)
        if row.is_being_sent:
            raise BeingSent
        _set_claimed(row)
        here = Task.objects.unfinished().select_related("agent").filter(context=now, agent=now.agent, owner=row.owner)
        working = here.order_by("-created_at", "-pk")
        asking = working.filter(state__in=(TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED))
        return ClaimedMessage(row, now, asking.first() or working.first(), principal)


def release_claim(claimed: ClaimedMessage, problem: str = "") -> None:
    QueuedMessage.objects.filter(pk=claimed.row.pk).update(claimed_until=None, problem=problem)


def delete_sent(claimed: ClaimedMessage) -> None:
    with write_transaction():
        _delete(QueuedMessage.objects.all(), claimed.row, claimed.context.workspace_id)


def delete_with_record(claimed: ClaimedMessage, log: Ledger, task: uuid.UUID) -> None:
    """Delete it in the transaction that records it. Raises SessionBusy if another task is unfinished."""
    if claimed.task is None:
        _check_idle(log, task)
    _delete(QueuedMessage.objects.all(), claimed.row, claimed.context.workspace_id)


def _lock_context(context_id: uuid.UUID) -> Context | None:
    return Context.objects.select_related("agent").select_for_update(of=("self",)).filter(pk=context_id).first()


def _is_idle(context: Context, besides: uuid.UUID | None = None) -> bool:
    others = Task.objects.unfinished().filter(context=context.pk)
    return not (others.exclude(pk=besides) if besides else others).exists()


def _is_free(context: Context, besides: uuid.UUID | None = None) -> bool:
    return _is_idle(context, besides) and not QueuedMessage.objects.filter(context=context.pk).exists()


def _newest_task(context: Context) -> Task | None:
    return Task.objects.filter(context=context).order_by("-created_at", "-pk").first()


def _is_recorded(row: QueuedMessage) -> bool:
    said = Message.objects.filter(context=row.context_id, message_id=row.message_id, role=Message.Role.USER)
    return said.filter(author=row.owner_id).exists()


def _first_unsent(context: Context) -> QueuedMessage | None:
    """The first message that is not recorded yet. A recorded one remains if its sender died right after."""
    rows = QueuedMessage.objects.select_related("owner").filter(context=context)
    for row in rows:
        if row.claimed_until is None or not _is_recorded(row):
            return row
        _delete(QueuedMessage.objects.all(), row, context.workspace_id)
    return None


def _find(principal: Principal, context: Context, queued: uuid.UUID) -> QueuedMessage:
    mine = QueuedMessage.objects.select_related("owner").filter(context=context, owner=principal.user_id)
    row = mine.filter(pk=queued).first()
    if row is not None and row.claimed_until is not None and _is_recorded(row):
        row = None  # its sender died after recording it
    if row is None:
        raise QueuedNotFound
    return row


def _set_claimed(row: QueuedMessage) -> None:
    until = sql.database_time() + datetime.timedelta(seconds=CLAIM_SECONDS)
    QueuedMessage.objects.filter(pk=row.pk).update(claimed_until=until)


def _delete(rows: QueuedMessageQuerySet, row: QueuedMessage, workspace: int) -> None:
    with transaction.atomic():
        if rows.filter(pk=row.pk).delete()[0]:
            _release(workspace, row.parts)


def _release(workspace: int, parts: list[JSON]) -> None:
    blobs.release_uses(workspace, parts)
    if released := blobs.stored_files(parts).keys():
        transaction.on_commit(lambda: blobs.delete_unused(released), robust=True)


def erase_queue(contexts: Keys) -> list[JSON]:
    """Delete the queues of contexts that are being erased. Returns the stored parts; the caller releases their uses."""
    queued = QueuedMessage.everything.filter(context__in=contexts)
    stored = [part for row in queued for part in row.parts if "stored" in part]
    queued.delete()
    return stored
