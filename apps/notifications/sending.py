"""Sends what is due, each notification once.

A worker claims by compare-and-swap what is due for a channel, and notes the result. Where a receiver recognizes what
it got before (`Channel.Type.can_tell`), a claim whose lease ended is sent again. A letter is not: nobody gets two.
A failure postpones the channel's whole queue. After a day its notifications are given up.
"""

from __future__ import annotations

import asyncio
import datetime
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import F, QuerySet

from apps.accounts.permissions import Permission
from apps.accounts.principals import Principal
from apps.accounts.resources import Act, Resource, sending_again
from apps.accounts.secrets.webhook_signatures import standard_headers
from apps.notifications import choices, push, wording
from apps.notifications.channel_types import channel_types
from apps.notifications.models import Channel, Kind, Notification
from apps.notifications.wording import Letter, Notice
from apps.record.errors import Refusal
from apps.record.models import Event, Task
from parley import db, outbound
from parley.db import sql
from parley.db.sql import write_transaction
from parley.outbound import Exchange, Limits, OutboundError
from parley.work import WorkList, retry_seconds

MOST_IN_A_LETTER = 50
LEASE_SECONDS = 60.0  # longer than any call or letter takes
GONE: dict[str, tuple[int, ...]] = {Channel.Type.MAIL: (), Channel.Type.PUSH: (404, 410), Channel.Type.WEBHOOK: (410,)}
LOST = "Parley stopped while it was sent, so it may have arrived. It is not sent again by itself."
NO_APP = "The app that tells it is not installed any more."
ANSWERED, OFF = "Answered before it was sent.", "The channel is off."
NOT_VISIBLE = "You can no longer see its session."

State = Notification.State


@dataclass(frozen=True, slots=True)
class Request:
    url: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Claimed:
    """What one worker sends now, in one message; `message` is None if nothing is left to be told."""

    token: uuid.UUID
    channel: Channel
    message: Request | Letter | None


@dataclass(frozen=True, slots=True)
class Result:
    """The response's status, or why there is none. A letter that was taken has neither."""

    status: int | None = None
    error: str = ""

    @property
    def is_success(self) -> bool:
        return not self.error and (self.status is None or 200 <= self.status < 300)

    @property
    def words(self) -> str:
        """For people."""
        return self.error or (f"The receiver answered {self.status}." if self.status else "The mail server took it.")


def due_channels() -> QuerySet[Notification, uuid.UUID]:
    """The channels with something due, after freeing claims whose worker stopped."""
    now = sql.database_time()
    _free_lost_claims(now)
    due = Notification.objects.waiting().filter(due_at__lte=now).order_by().values_list("channel", flat=True)
    return due.distinct()


def _free_lost_claims(now: datetime.datetime) -> None:
    lost = Notification.objects.filter(state=State.SENDING, lease_until__lt=now)
    again = Channel.RECOGNIZES_REPEATS
    lost.filter(channel__type__in=again).update(state=State.WAITING, claim=None, due_at=now)
    lost.exclude(channel__type__in=again).update(state=State.FAILED, claim=None, reason=LOST, finished_at=now)


def channel_url(key: uuid.UUID) -> str:
    """ "" for mail, and for a removed channel."""
    return Channel.objects.filter(pk=key).values_list("url", flat=True).first() or ""


def claim(key: uuid.UUID) -> Claimed | None:
    """Claim what is due for a channel: for mail all of it, otherwise the first. None if nothing is."""
    channel = Channel.objects.select_related("user").filter(pk=key).first()
    if channel is None:
        return None
    now, token = sql.database_time(), uuid.uuid4()
    first = Notification.objects.waiting().filter(channel=channel).order_by("created_at", "event_index").first()
    if first is not None and first.attempts and first.due_at > now:
        return None  # the receiver failed: its queue waits, in order
    due = Notification.objects.waiting().filter(channel=channel, due_at__lte=now).order_by("created_at", "event_index")
    keys = list(due.values_list("pk", flat=True)[: MOST_IN_A_LETTER if channel.type == Channel.Type.MAIL else 1])
    lease = now + datetime.timedelta(seconds=LEASE_SECONDS)
    # By compare-and-swap: of two workers, one changes each row.
    still = Notification.objects.waiting().filter(pk__in=keys)
    if not keys or not still.update(state=State.SENDING, claim=token, lease_until=lease):
        return None
    rows = list(Notification.objects.filter(claim=token).order_by("created_at", "event_index"))
    told = [(row, notice) for row in rows if (notice := _notice_or_skip(channel, row, now)) is not None]
    message = _message(channel, [notice for _, notice in told], told[0][0].message_id, now) if told else None
    return Claimed(token, channel, message)


def _notice_or_skip(channel: Channel, row: Notification, now: datetime.datetime) -> Notice | None:
    """What to tell; None if the row is skipped, because it no longer matters or may no longer be seen."""
    found = _notice(channel, row)
    if isinstance(found, Notice):
        return found
    skipped = Notification.objects.filter(pk=row.pk, claim=row.claim)
    skipped.update(state=State.SKIPPED, reason=found, claim=None, finished_at=now)
    return None


def _notice(channel: Channel, row: Notification) -> Notice | str:
    """Or why there is none."""
    if not channel.is_supported:
        return NO_APP
    if not channel.is_on or not channel.user.is_active:
        return OFF
    task = Task.objects.select_related("context", "agent").filter(pk=row.task, context__deleted_at=None).first()
    event = Event.objects.filter(context=row.context, index=row.event_index).first()
    if task is None or event is None:
        return NOT_VISIBLE
    principal = channel.user.principal_in(task.workspace_id)
    if principal.role is None or not Task.objects.visible_to(principal).filter(pk=task.pk).exists():
        return NOT_VISIBLE
    is_current = task.status_event == row.event_index
    if row.kind == Kind.ASKS and not is_current and channel.is_for_people:
        return ANSWERED
    return wording.notice_of(task, row.kind, event)


def _message(channel: Channel, notices: Sequence[Notice], key: str, now: datetime.datetime) -> Request | Letter:
    notice = notices[0]
    json_type = {"Content-Type": "application/json", "User-Agent": "Parley"}
    match channel.type:
        case Channel.Type.MAIL:
            return wording.letter(channel, notices, key)
        case Channel.Type.PUSH:
            keys = push.Keys.of(channel.push_keys)
            headers = push.push_headers(push.push_key(), channel.url, is_urgent=notice.kind == Kind.ASKS)
            return Request(channel.url, headers, push.encrypted(wording.push_text(notice), keys))
        case Channel.Type.WEBHOOK:
            body = wording.webhook_body(notice)
            signed = standard_headers(key, now, body, channel.secrets_at(now))
            return Request(channel.url, json_type | signed, body)
        case other:
            service = channel_types()[other]
            return Request(channel.url, {"User-Agent": "Parley", **service.headers}, service.body(notice))


def record_result(claimed: Claimed, result: Result) -> None:
    """Note how it went. Changes nothing if the claim was lost."""
    now = sql.database_time()
    channel, mine = claimed.channel, Notification.objects.filter(claim=claimed.token, state=State.SENDING)
    attempt: dict[str, Any] = {"attempts": F("attempts") + 1}
    attempt |= {"last_status": result.status, "reason": result.error[:300]}
    if result.is_success:
        mine.update(state=State.SENT, finished_at=now, claim=None, **attempt)
    elif result.status in _gone(channel.type):
        words = f"The receiver answered {result.status}: it is gone."
        mine.update(state=State.FAILED, finished_at=now, claim=None, **attempt | {"reason": words})
        choices.give_up(channel, words)
    else:
        _postpone(channel, claimed.token, attempt, now)


def _gone(type_: str) -> tuple[int, ...]:
    """Statuses after which a channel of the type is given up."""
    service = channel_types().get(type_)
    return service.gone if service else GONE.get(type_, ())


def _postpone(channel: Channel, token: uuid.UUID, attempt: dict[str, Any], now: datetime.datetime) -> None:
    with write_transaction():
        mine = Notification.objects.filter(claim=token, state=State.SENDING)
        tried = mine.values_list("attempts", flat=True).first() or 0
        again = now + datetime.timedelta(seconds=retry_seconds(tried + 1, *settings.WEBHOOK_WAIT_SECONDS))
        too_old = now - datetime.timedelta(seconds=settings.WEBHOOK_GIVE_UP_SECONDS)
        mine.filter(queued_at__lt=too_old).update(state=State.FAILED, finished_at=now, claim=None, **attempt)
        mine.update(state=State.WAITING, due_at=again, claim=None, **attempt)
        Notification.objects.waiting().filter(channel=channel, due_at__lt=again).update(due_at=again)


async def drain(key: uuid.UUID, client: Exchange) -> None:
    """Sends what is due for a channel, until nothing is or a call fails."""
    while (claimed := await db.run(claim, key)) is not None:
        if claimed.message is None:
            continue
        result = await sent(client, claimed.message)
        await db.persist(record_result, claimed, result)
        if not result.is_success:
            return


NOTIFICATIONS_TO_SEND = WorkList(
    "notifications", "notifications.send", drain, Channel, "queued_at",
    due=due_channels, waiting=Notification.objects.waiting, url_of=channel_url,
)  # fmt: skip


async def sent(client: Exchange, message: Request | Letter) -> Result:
    """One call or one letter. Only the response's status is read."""
    if isinstance(message, Letter):
        return await asyncio.to_thread(_mailed, message)
    try:
        async with client.send("POST", message.url, message.headers, message.body) as answer:
            return Result(answer.status)
    except OutboundError as error:
        return Result(error=str(error))


def _mailed(message: Letter) -> Result:
    try:
        message.send()
    except OSError as error:  # that of SMTP too, whose text may quote the server
        return Result(error=f"The mail server did not take it: {type(error).__name__}.")
    return Result()


def test_message(channel: Channel) -> Request | Letter:
    now = sql.database_time()
    return _message(channel, [wording.test_notice(now)], f"msg_{uuid.uuid4().hex}", now)


async def sent_once(message: Request | Letter) -> Result:
    async with outbound.exchange(Limits(seconds=settings.WEBHOOK_SECONDS)) as client:
        return await sent(client, message)


class TestFailed(Refusal):
    """The test failed."""


def _send_test(channel: Channel, principal: Principal) -> str:
    """For threads without an event loop. Raises TestFailed."""
    if not channel.is_supported:
        raise TestFailed(f"{channel}: {NO_APP}")
    result = asyncio.run(sent_once(test_message(channel)))
    if not result.is_success:
        raise TestFailed(f"{channel}: the test failed. {result.words}")
    return f"{channel}: the test is sent. {result.words}"


TEST = Act[Channel](
    "test",
    "Send a test",
    _send_test,
    "Send a test",
    "It is sent at once, and not tried again.",
    str,
    permission=Permission.READ,
    starts_work=True,
    repeats=False,
)
CHANNELS = Resource(
    "channels",
    "channel",
    Channel,
    choices.save,
    (TEST, choices.ROTATE, choices.REMOVE),
    related=("user",),
    permission=Permission.READ,
)


def retry(notifications: Iterable[uuid.UUID]) -> int:
    """Queue given-up notifications again; returns how many."""
    failed = Notification.objects.filter(pk__in=list(notifications), state=State.FAILED)
    channels = set(failed.values_list("channel", flat=True))
    now = sql.database_time()
    again = {"state": State.WAITING, "attempts": 0, "queued_at": now, "due_at": now, "finished_at": None, "reason": ""}
    queued = failed.update(**again)
    NOTIFICATIONS_TO_SEND.publish(*channels)
    return queued


SEND_AGAIN: Act[Notification] = sending_again(
    retry,
    State.FAILED,
    "Send a notification again",
    "It is tried as often as a new one. If it arrived before, it arrives twice.",
)
NOTIFICATIONS = Resource("notifications", "notification", Notification, acts=(SEND_AGAIN,))


def delete_old() -> int:
    """Deletes old notifications that were sent, skipped or given up."""
    long_ago = sql.database_time() - datetime.timedelta(days=settings.DELIVERIES_KEPT_DAYS)
    ended = Notification.objects.filter(state__in=[State.SENT, State.SKIPPED, State.FAILED], finished_at__lt=long_ago)
    return sql.delete_in_batches(ended)
