"""Notes what people are told of, in the transaction of the event, and when each channel is due."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Sequence
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from apps.notifications.models import Channel, Kind, Notification
from apps.notifications.sending import NOTIFICATIONS_TO_SEND
from apps.record.models import Context, Event, Task, TaskState

NEEDED = ("pk", "user__time_zone", "type", "kinds", "agents", "digest", "questions_at_once")
DAY_BEGINS = datetime.time(8)  # of a daily digest
WINDOWS = {Channel.Digest.QUARTER: 15 * 60, Channel.Digest.HOUR: 3600}


def note_events(context: Context, events: Sequence[Event]) -> None:
    """A ledger listener: called for watched contexts only, as those of people with a channel are.

    The owner is told, of what they began and not of what agents ask of one another.
    """
    if context.owner_id is None or context.parent_task is not None:
        return
    told = [(event, kind) for event in events if (kind := _kind_of(event)) is not None]
    if not told:
        return
    channels = Channel.objects.filter(Q(workspace=None) | Q(workspace=context.workspace_id), is_on=True)
    listening = list(channels.filter(user=context.owner_id).select_related("user").only(*NEEDED))
    if not listening:
        return
    agents = _agents_of({event.task_id for event, _ in told if event.task_id}, listening)
    rows = [
        _row(channel, event, kind)
        for event, kind in told
        for channel in listening
        if channel.wants(kind, agents.get(event.task_id, 0) if event.task_id else 0)
    ]
    Notification.objects.bulk_create(rows, ignore_conflicts=True)
    due = {row.channel_id for row in rows if row.due_at <= row.created_at}
    if due:
        transaction.on_commit(lambda: NOTIFICATIONS_TO_SEND.publish(*due))


def _kind_of(event: Event) -> Kind | None:
    return Kind.of(TaskState(event.payload["state"])) if event.settles and event.task_id else None


def _agents_of(tasks: set[uuid.UUID], channels: Sequence[Channel]) -> dict[uuid.UUID, int]:
    """Needed only where a channel makes a difference between agents."""
    if not any(channel.agents for channel in channels):
        return {}
    return dict(Task.objects.filter(pk__in=tasks).values_list("pk", "agent"))


def _row(channel: Channel, event: Event, kind: Kind) -> Notification:
    assert event.task_id is not None
    return Notification(
        channel=channel,
        context=event.context_id,
        task=event.task_id,
        event_index=event.index,
        kind=kind,
        due_at=due_at(channel, kind, event.at),
        created_at=event.at,
        queued_at=event.at,
    )


def due_at(channel: Channel, kind: Kind, now: datetime.datetime) -> datetime.datetime:
    """People are told after a wait, and by mail in the windows that they chose. Programs are told at once."""
    if not channel.is_for_people:
        return now
    ready = now + datetime.timedelta(seconds=settings.NOTIFY_WAIT_SECONDS)
    is_question_at_once = kind == Kind.ASKS and channel.questions_at_once
    if channel.type != Channel.Type.MAIL or channel.digest == Channel.Digest.NOW or is_question_at_once:
        return ready
    return window_end(Channel.Digest(channel.digest), ready, channel.user.time_zone)


def window_end(digest: Channel.Digest, at: datetime.datetime, zone: str) -> datetime.datetime:
    """When the window that holds this moment ends, and its letter is sent."""
    if digest != Channel.Digest.DAY:
        size = WINDOWS[digest]
        return datetime.datetime.fromtimestamp((int(at.timestamp()) // size + 1) * size, datetime.UTC)
    local = at.astimezone(ZoneInfo(zone or "UTC"))
    day = local.date() if local.time() < DAY_BEGINS else local.date() + datetime.timedelta(days=1)
    return datetime.datetime.combine(day, DAY_BEGINS, local.tzinfo).astimezone(datetime.UTC)
