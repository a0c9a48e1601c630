"""Takes what people do at platforms: what platforms post, and what workers read because a platform does not post it.

What is posted is recorded before it is answered, and done after that. What is read is a mailbox now and then, or a
connection that stays open. A row of `ChatFeed` says from where to go on: it changes in the transaction that records
what was read, and only for the worker that holds it. So a worker that dies loses nothing.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import uuid
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F

from apps.optional.channels.acting import EVENTS_TO_ACT_ON
from apps.optional.channels.models import LONGEST_THREAD, ChatChannel, ChatEvent, ChatFeed, ChatThread, bounded
from apps.optional.channels.platforms import Heard, Inbound, Later, Platform, Refused
from apps.record.content import strict_json
from parley import db, outbound
from parley.db import sql
from parley.db.sql import write_transaction
from parley.outbound import Exchange, Limits
from parley.work import WorkList

log = logging.getLogger("parley.channels")

LEASE = datetime.timedelta(seconds=60)
EXTENDED_EVERY = 20.0  # seconds
WAITS = (2.0, 600.0)  # between tries, in seconds: first and longest
REFUSED_SECONDS = 600.0  # until a platform that refused is asked again
AT_ONCE = 500  # of one process: most only wait
LONGEST_ID = 200


def find_channel(key: uuid.UUID) -> ChatChannel | None:
    """The channel at this address, unless its owner or its workspace is gone."""
    rows = ChatChannel.objects.select_related("agent", "owner")
    return rows.filter(pk=key, owner__is_active=True, workspace__deleted_at=None).first()


def record(channel: ChatChannel, events: Iterable[Inbound], refused: Mapping[str, str] = {}) -> int:
    """Have workers do what came in. What came before, or is not to the agent, is left out; returns how many are new.

    `refused`: why something is not taken, by its event id.
    """
    if channel.paused_at:
        return 0
    now = sql.database_time()
    rows = _rows(channel, _of_talks(channel, list(events)), refused, now)
    if not rows:
        return 0
    with write_transaction():
        known = set(
            ChatEvent.objects.filter(channel=channel, event_id__in=[row.event_id for row in rows]).values_list(
                "event_id", flat=True
            )
        )
        new = [row for row in rows if row.event_id not in known]
        # Another process may record the same now.
        ChatEvent.objects.bulk_create(new, ignore_conflicts=True)
        ChatChannel.objects.filter(pk=channel.pk).update(last_event_at=now)
        ids = [row.event_id for row in new if row.done_at is None]
        keys = list(ChatEvent.objects.filter(channel=channel, event_id__in=ids).values_list("pk", flat=True))
        transaction.on_commit(lambda: EVENTS_TO_ACT_ON.publish(*keys))
    return len(new)


def _of_talks(channel: ChatChannel, events: Sequence[Inbound]) -> list[Inbound]:
    """Without what people say to each other where the agent has no thread: their words are not stored."""
    asides = [one for one in events if not one.is_addressed]
    known = {_thread(one) for one in events if one.is_addressed}
    if asides:
        places, threads = zip(*(_thread(one) for one in asides), strict=True)
        rows = ChatThread.objects.filter(channel=channel, session__deleted_at=None)
        known |= set(rows.filter(place__in=places, thread__in=threads).values_list("place", "thread"))
    return [one for one in events if one.is_addressed or _thread(one) in known]


def _thread(event: Inbound) -> tuple[str, str]:
    return event.place, bounded(event.thread, LONGEST_THREAD)


def _rows(
    channel: ChatChannel, events: Iterable[Inbound], refused: Mapping[str, str], now: datetime.datetime
) -> list[ChatEvent]:
    usual = {"channel": channel, "received_at": now, "next_try_at": now}
    taken = [
        ChatEvent(
            event_id=bounded(one.event_id, LONGEST_ID),
            body=strict_json.to_storable(one.to_json(), repair=True),
            **usual,
        )
        for one in events
    ]
    return taken + [
        ChatEvent(event_id=bounded(key, LONGEST_ID), done_at=now, problem=why[:300], **usual)
        for key, why in refused.items()
    ]


# Feeds


class Lost(Exception):
    """Another worker reads this feed now, it was turned off, or its channel was changed."""


def tune(channel: ChatChannel, *, is_on: bool, is_afresh: bool = False) -> None:
    """Read the channel from now on with its present settings, or not any more.

    `is_afresh`: leave out what was written since the last look.
    """
    is_on = is_on and channel.at is not None and channel.at.listens(channel)
    if is_on:
        ChatFeed.objects.get_or_create(channel=channel)
    values: dict[str, Any] = {"fence": F("fence") + 1, "lease_until": None, "tries": 0}
    values |= {"next_try_at": sql.database_time()} | ({"state": {}} if is_afresh else {})
    ChatFeed.objects.filter(channel=channel).update(is_on=is_on, **values)


async def listen(key: int) -> None:
    """Read what people did at a platform that does not post it."""
    begun = await db.run(_claim, key)
    if begun is None:
        return
    feed, platform = begun
    async with outbound.exchange(Limits(seconds=settings.WEBHOOK_SECONDS)) as client:
        try:
            await _first_of(_take(feed, platform, client), _hold(feed))
            await db.persist(_read_again, feed, platform)
        except Lost:
            return
        except Later as later:
            await db.persist(_postpone, feed, str(later), later.seconds)
        except Refused as refused:
            await db.persist(_postpone, feed, str(refused), REFUSED_SECONDS)
        except asyncio.CancelledError:
            db.later(feed.release)  # the process ends, and another one goes on at once
            raise
        except Exception as error:
            log.exception("a chat channel could not be read; it is tried again")
            await db.persist(_postpone, feed, type(error).__name__)


FEEDS_TO_READ = WorkList(
    "chat_feeds", "chats.listen", listen, ChatFeed, "next_try_at", waiting=lambda: ChatFeed.objects.due(),
    at_once=AT_ONCE, per_host=1,
)  # fmt: skip


def _claim(key: int) -> tuple[ChatFeed, Platform] | None:
    row = next(iter(ChatFeed.objects.filter(pk=key).claim(LEASE)), None)
    if row is None:
        return None
    channel = find_channel(row.channel_id)
    if channel is None or channel.at is None or not channel.at.listens(channel):
        _release(row, REFUSED_SECONDS)  # its owner or its app may come back
        return None
    row.channel = channel
    return row, channel.at


async def _first_of(*works: Coroutine[Any, Any, None]) -> None:
    """Until one of them ends; its error is raised."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


async def _take(feed: ChatFeed, platform: Platform, client: Exchange) -> None:
    async with aclosing(platform.listen(client, feed.channel, feed.state)) as heard:
        async for one in heard:
            await db.persist(_record, feed, one)


async def _hold(feed: ChatFeed) -> None:
    """What is read for a while works, so its failures are counted anew. Raises Lost."""
    while True:
        await asyncio.sleep(EXTENDED_EVERY)
        if not await db.persist(_extend, feed, tries=0):
            raise Lost


def _extend(feed: ChatFeed, **values: Any) -> bool:
    now = sql.database_time()
    return feed.extend(LEASE, now=now, next_try_at=now + LEASE, **values)


def _record(feed: ChatFeed, heard: Heard) -> None:
    """Raises Lost."""
    with write_transaction():
        if not _extend(feed, state=heard.state):
            raise Lost
        record(feed.channel, heard.events, heard.refused)
        if feed.channel.problem:
            ChatChannel.objects.filter(pk=feed.channel_id).update(problem="")
    feed.channel.problem = ""


def _read_again(feed: ChatFeed, platform: Platform) -> None:
    if platform.listen_seconds is None:
        feed.retry(*WAITS)
    else:
        _release(feed, platform.listen_seconds, tries=0)


def _postpone(feed: ChatFeed, problem: str, seconds: float | None = None) -> None:
    """Try again later. A worker that lost the feed notes no problem: another one reads it by now."""
    if feed.retry(*WAITS) if seconds is None else _release(feed, seconds):
        ChatChannel.objects.filter(pk=feed.channel_id).update(problem=problem[:300])


def _release(feed: ChatFeed, seconds: float, **values: Any) -> bool:
    return feed.release(next_try_at=sql.database_time() + datetime.timedelta(seconds=seconds), **values)
