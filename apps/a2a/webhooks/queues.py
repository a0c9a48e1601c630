"""The queue of one webhook: claimed by compare-and-swap, worked off in order, by the database's clock."""

from __future__ import annotations

import datetime
import random
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q

from apps.a2a.models import Delivery, PushConfig
from apps.a2a.webhooks.bodies import body_of, headers_of
from apps.a2a.webhooks.publishing import publish
from apps.record.models import Event
from db import statements
from db.transactions import transacting

FORGOTTEN_AT_ONCE = 5_000  # deliveries that are deleted in one transaction
SPARE_SECONDS = 5.0  # that a lease lasts beyond the time of one call


@dataclass(frozen=True, slots=True)
class Posting:
    """A delivery in the hands of a courier, and the claim by which it is."""

    config: uuid.UUID
    fence: int
    delivery: int
    url: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a call: the status that was answered, or why there was no answer."""

    status: int | None = None
    error: str = ""

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def url_of(config: uuid.UUID) -> str:
    """The webhook's URL; "" for one that was deleted."""
    return PushConfig.objects.filter(pk=config).values_list("url", flat=True).first() or ""


def take(config: uuid.UUID) -> Posting | None:
    """Claim the queue and give its first delivery; None where nothing is due or another courier is at it."""
    now = statements.database_time()
    unheld = Q(lease_until=None) | Q(lease_until__lt=now)
    found = PushConfig.objects.select_related("task__context").filter(unheld, pk=config, due_at__lte=now).first()
    if found is None:
        return None
    claimed = PushConfig.objects.filter(pk=config, fence=found.fence)
    if not claimed.update(fence=F("fence") + 1, lease_until=_lease(now)):
        return None
    found.fence += 1
    with transacting():
        return _next(found, now)


def settle(posting: Posting, result: Result) -> Posting | None:
    """Record what came of a delivery; gives the next one of the queue if it is to be tried at once.

    A webhook that was deleted, or taken up by another courier because this one was thought dead, is left alone.
    """
    with transacting():
        # The delivery is locked before its webhook: in that order they are deleted.
        delivery = Delivery.objects.select_for_update().filter(pk=posting.delivery).first()
        config = (
            PushConfig.objects.select_for_update(of=("self",))
            .select_related("task__context")
            .filter(pk=posting.config, fence=posting.fence)
            .first()
        )
        if config is None or delivery is None:
            return None
        now = statements.database_time()
        _note(delivery, result, now)
        if delivery.state == Delivery.State.WAITING:
            _put_down(config, now + wait_after(delivery.attempts))
            return None
        return _next(config, now)


def send_again(deliveries: Iterable[int]) -> int:
    """Queue anew those of these deliveries that were given up, and say how many there were."""
    dead = Delivery.objects.filter(pk__in=list(deliveries), state=Delivery.State.DEAD)
    with transacting():
        # Deliveries are locked before their webhooks, as in `settle`.
        found = dict(dead.select_for_update(of=("self",)).order_by("pk").values_list("pk", "config"))
        locked = PushConfig.objects.select_for_update().filter(pk__in=set(found.values())).order_by("pk")
        configs = set(locked.values_list("pk", flat=True))
        now = statements.database_time()
        again = Delivery.objects.filter(pk__in=found)
        queued = again.update(state=Delivery.State.WAITING, attempts=0, queued_at=now, finished_at=None)
        PushConfig.objects.filter(pk__in=configs).update(due_at=now)
        transaction.on_commit(lambda: publish(configs))
    return queued


def forget_delivered() -> int:
    """Delete what was delivered long ago, and say how much; what was given up stays until it is delivered."""
    long_ago = statements.database_time() - datetime.timedelta(days=settings.DELIVERIES_KEPT_DAYS)
    old = Delivery.objects.filter(state=Delivery.State.DELIVERED, finished_at__lt=long_ago)
    return old.filter(pk__in=list(old.values_list("pk", flat=True)[:FORGOTTEN_AT_ONCE])).delete()[0]


def wait_after(attempts: int) -> datetime.timedelta:
    """How long to wait after so many failures: twice as long each time, up to a bound, and never quite the same."""
    first, longest = settings.WEBHOOK_WAIT_SECONDS
    seconds = min(longest, first * 2 ** min(attempts - 1, 30))
    return datetime.timedelta(seconds=random.uniform(seconds / 2, seconds))  # noqa: S311 - spreads load, hides nothing


def _note(delivery: Delivery, result: Result, now: datetime.datetime) -> None:
    delivery.attempts += 1
    delivery.last_status, delivery.last_error = result.status, result.error[:500]
    if result.is_success:
        delivery.state, delivery.finished_at = Delivery.State.DELIVERED, now
    elif now - delivery.queued_at > datetime.timedelta(seconds=settings.WEBHOOK_GIVE_UP_SECONDS):
        delivery.state, delivery.finished_at = Delivery.State.DEAD, now
    delivery.save()


def _next(config: PushConfig, now: datetime.datetime) -> Posting | None:
    """The first that waits, with a new lease; an empty queue is put down."""
    waiting = Delivery.objects.filter(config=config, state=Delivery.State.WAITING)
    delivery = waiting.order_by("event_index").first()
    if delivery is None:
        _put_down(config, None)
        return None
    PushConfig.objects.filter(pk=config.pk).update(due_at=now, lease_until=_lease(now))
    event = Event.objects.get(context=config.task.context_id, index=delivery.event_index)
    body = body_of(event, config.task.context, config)
    return Posting(config.pk, config.fence, delivery.pk, config.url, headers_of(config), body)


def _put_down(config: PushConfig, due_at: datetime.datetime | None) -> None:
    PushConfig.objects.filter(pk=config.pk).update(due_at=due_at, lease_until=None)


def _lease(now: datetime.datetime) -> datetime.datetime:
    return now + datetime.timedelta(seconds=settings.WEBHOOK_SECONDS + SPARE_SECONDS)
