"""Webhooks (A2A 1.0 §3.1.7 to §3.1.10, §4.3): configurations, and deliveries of a task's events.

A ledger listener queues deliveries in the events' transaction. A worker claims a webhook's queue and sends it in order.
A failure postpones the whole queue of its webhook. After a day the deliveries are given up.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Coalesce, Now

from apps.a2a import http, tasks
from apps.a2a.errors import JSON
from apps.a2a.models import Delivery, PushConfig
from apps.a2a.requests import CreateWebhookRequest, ListWebhooksRequest, OneWebhookRequest, Webhook
from apps.a2a.versions import v0_3
from apps.a2a.versions.v0_3 import JSON_RPC
from apps.accounts.principals import Principal
from apps.accounts.resources import Act, Resource, sending_again
from apps.accounts.secrets.webhook_signatures import standard_headers
from apps.agents.models import Agent
from apps.engine import accept
from apps.notifications.models import WebhookSigning
from apps.record import wire
from apps.record.errors import InvalidParams, TaskNotFound
from apps.record.events import EventType
from apps.record.ledger import Ledger
from apps.record.models import Context, Event, Task
from apps.record.reading import lookup
from parley import db, outbound
from parley.db import sql
from parley.db.sql import write_transaction
from parley.outbound import Exchange, OutboundError
from parley.telemetry import metrics
from parley.work import WorkList, retry_seconds

MASK = "********"
VET_SECONDS = 2.0  # each call resolves the name again


async def vet_url(webhook: Webhook, field: str) -> None:
    """Raises InvalidParams if the name resolves to a forbidden address. Unresolved names are accepted."""
    try:
        async with asyncio.timeout(VET_SECONDS):
            await outbound.guard().vet(webhook.url)
    except outbound.Forbidden as refusal:
        raise InvalidParams(f"{field}: {refusal}", field) from None
    except (outbound.Unreachable, outbound.TooSlow, TimeoutError):
        return


def create_config(principal: Principal, agent: Agent, request: CreateWebhookRequest, version: str) -> JSON:
    """Save a webhook, which is called in `version`. Replaces one with the same id.

    Raises TaskNotFound, InvalidParams.
    """
    task = lookup.find_agent_task(principal, agent, request.task_id)
    with write_transaction():
        context = _lock_context(task)
        config = _save_config(task.pk, request, version)
        _mark_watched(context)
    return _config_json(config)


def create_with_task(webhook: Webhook, version: str, check: accept.ExtraWrites | None = None) -> accept.ExtraWrites:
    """Saves a webhook in the transaction that accepts the message, so that it gets every later event.

    `check` comes first, and may refuse.
    """

    def save(log: Ledger, task: uuid.UUID) -> None:
        if check is not None:
            check(log, task)
        _save_config(task, webhook, version)
        log.watch()

    return save


def find_config(principal: Principal, agent: Agent, request: OneWebhookRequest) -> JSON:
    """Raises TaskNotFound, also for an unknown webhook."""
    task = lookup.find_agent_task(principal, agent, request.task_id)
    config = PushConfig.objects.filter(task=task, config_id=request.id).first()
    if config is None:
        raise TaskNotFound("There is no such webhook.")
    return _config_json(config)


def list_configs(principal: Principal, agent: Agent, request: ListWebhooksRequest) -> JSON:
    """ListTaskPushNotificationConfigsResponse, by id. Raises TaskNotFound."""
    task = lookup.find_agent_task(principal, agent, request.task_id)
    found = PushConfig.objects.filter(task=task, config_id__gt=request.page_token).order_by("config_id")
    rows = list(found[: request.page_size + 1])
    page = rows[: request.page_size]
    return {
        "configs": [_config_json(config) for config in page],
        "nextPageToken": page[-1].config_id if len(rows) > len(page) else "",
    }


def delete_config(principal: Principal, agent: Agent, request: OneWebhookRequest) -> JSON:
    """Delete a webhook and its queue, if it exists. Raises TaskNotFound."""
    task = lookup.find_agent_task(principal, agent, request.task_id)
    with write_transaction():
        _lock_context(task)
        PushConfig.objects.filter(task=task, config_id=request.id).only("pk").delete()
    return {}


def _lock_context(task: Task) -> Context:
    """Lock the task's context, as the ledger does."""
    context = Context.objects.select_for_update().filter(pk=task.context_id, deleted_at=None).first()
    if context is None:
        raise TaskNotFound  # cleared or deleted just now
    return context


def _mark_watched(context: Context) -> None:
    if not context.is_watched:
        Context.objects.filter(pk=context.pk).update(is_watched=True)


def _save_config(task: uuid.UUID, webhook: Webhook, version: str) -> PushConfig:
    """Raises InvalidParams above MAX_WEBHOOKS. The context is locked."""
    values = {
        "url": webhook.url,
        "token": webhook.token,
        "scheme": webhook.authentication.scheme if webhook.authentication else "",
        "credentials": webhook.authentication.credentials if webhook.authentication else "",
        "version": version,
    }
    existing = set(PushConfig.objects.filter(task=task).values_list("config_id", flat=True))
    if webhook.id in existing:
        PushConfig.objects.filter(task=task, config_id=webhook.id).update(**values)
        return PushConfig.objects.get(task=task, config_id=webhook.id)
    if len(existing) >= settings.MAX_WEBHOOKS:
        raise InvalidParams(f"A task has at most {settings.MAX_WEBHOOKS} webhooks. Delete one first.", "taskId")
    key = uuid.uuid4()
    return PushConfig.objects.create(pk=key, task_id=task, config_id=webhook.id or str(key), **values)


def _config_json(config: PushConfig) -> JSON:
    """A TaskPushNotificationConfig with masked secrets."""
    shown: JSON = {"id": config.config_id, "taskId": str(config.task_id), "url": config.url}
    if config.token:
        shown["token"] = MASK
    if config.scheme:
        shown["authentication"] = {"scheme": config.scheme} | ({"credentials": MASK} if config.credentials else {})
    return shown


def queue_deliveries(context: Context, events: Sequence[Event]) -> None:
    """Queue events for their tasks' webhooks. Called for watched contexts only."""
    delivered = [event for event in events if is_delivered(event)]
    if not delivered:
        return
    # The lock keeps a worker from releasing the queue as empty before the commit.
    tasks = {event.task_id for event in delivered}
    locked = PushConfig.objects.select_for_update().filter(task__in=tasks).order_by("pk")
    configs = list(locked.only("pk", "task_id"))
    waiting = [(config, event) for config in configs for event in delivered if event.task_id == config.task_id]
    if not waiting:
        return
    Delivery.objects.bulk_create([Delivery(config=config, event_index=event.index) for config, event in waiting])
    keys = {config.pk for config, _ in waiting}
    PushConfig.objects.filter(pk__in=keys).update(due_at=Coalesce("due_at", Now()))
    transaction.on_commit(lambda: DELIVERIES_TO_SEND.publish(*keys))


def is_delivered(event: Event) -> bool:
    """Statuses, and the last chunk of each artifact."""
    match event.type:
        case EventType.AGENT_TOKEN_END:
            return True
        case EventType.AGENT_STATUS:
            return "kept" not in event.payload
        case EventType.ARTIFACT_UPDATE:
            return bool(event.payload["lastChunk"])
        case _:
            return False


def archive_obstacle(context: Context) -> str:
    """A reason not to archive the context (`cold_obstacles`)."""
    waiting = Delivery.objects.filter(config__task__context=context, state=Delivery.State.WAITING)
    return "A webhook is still to be told of it." if waiting.exists() else ""


async def deliver(config: uuid.UUID, client: Exchange) -> None:
    """Sends a webhook's queue until it is empty, a call fails, or another worker claims it."""
    claimed = await db.run(claim, config)
    while claimed is not None:
        claimed = await db.persist(record_result, claimed, await _call(client, claimed))


async def _call(client: Exchange, claimed: ClaimedDelivery) -> CallResult:
    """One POST. Only the response's status is read."""
    began = time.perf_counter()
    try:
        async with client.send("POST", claimed.url, claimed.headers, claimed.body) as answer:
            return CallResult(answer.status)
    except OutboundError as error:
        return CallResult(error=str(error))
    finally:
        metrics.WEBHOOK_SECONDS.observe(time.perf_counter() - began)


def webhook_url(config: uuid.UUID) -> str:
    """ "" for a deleted webhook."""
    return PushConfig.objects.filter(pk=config).values_list("url", flat=True).first() or ""


DELIVERIES_TO_SEND = WorkList(
    "webhooks", "a2a.deliver", deliver, PushConfig, "queued_at",
    waiting=lambda: Delivery.objects.filter(state=Delivery.State.WAITING), url_of=webhook_url, at_once=200,
)  # fmt: skip


FOR_DELIVERY = ("task__context", "task__owner__webhook_signing")
LEASE_MARGIN_SECONDS = 5.0  # added to the time of one call


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    config: uuid.UUID
    fence: int
    delivery: int
    url: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class CallResult:
    """The response's status, or why there is none."""

    status: int | None = None
    error: str = ""

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def claim(config: uuid.UUID) -> ClaimedDelivery | None:
    """Claim the queue and return its first delivery; None if nothing is due, or another worker has it."""
    rows = PushConfig.objects.select_related(*FOR_DELIVERY).filter(pk=config)
    now = sql.database_time()
    for found in rows.claim(_lease(), now=now):
        with write_transaction():
            return _next_delivery(found, now)
    return None


def record_result(claimed: ClaimedDelivery, result: CallResult) -> ClaimedDelivery | None:
    """Record a delivery's result; returns the queue's next one if it is due.

    Changes nothing if the webhook was deleted or another worker has claimed it.
    """
    with write_transaction():
        # Lock order: delivery, then webhook, as in deletion.
        delivery = Delivery.objects.select_for_update().filter(pk=claimed.delivery).first()
        config = (
            PushConfig.objects.select_for_update(of=("self",))
            .select_related(*FOR_DELIVERY)
            .filter(pk=claimed.config, fence=claimed.fence)
            .first()
        )
        if config is None or delivery is None:
            return None
        now = sql.database_time()
        _apply_result(delivery, result, now)
        outcome = "failed" if delivery.state == Delivery.State.WAITING else delivery.state
        transaction.on_commit(metrics.WEBHOOKS[str(outcome)].inc)
        if delivery.state == Delivery.State.WAITING:
            config.release(due_at=now + retry_delay(delivery.attempts))
            return None
        return _next_delivery(config, now)


def retry_deliveries(deliveries: Iterable[int]) -> int:
    """Queue given-up deliveries again; returns how many."""
    dead = Delivery.objects.filter(pk__in=list(deliveries), state=Delivery.State.DEAD)
    with write_transaction():
        # Lock order as in `record_result`.
        found = dict(dead.select_for_update(of=("self",)).order_by("pk").values_list("pk", "config"))
        locked = PushConfig.objects.select_for_update().filter(pk__in=set(found.values())).order_by("pk")
        configs = set(locked.values_list("pk", flat=True))
        now = sql.database_time()
        again = Delivery.objects.filter(pk__in=found)
        queued = again.update(state=Delivery.State.WAITING, attempts=0, queued_at=now, finished_at=None)
        PushConfig.objects.filter(pk__in=configs).update(due_at=now)
        transaction.on_commit(lambda: DELIVERIES_TO_SEND.publish(*configs))
    return queued


SEND_AGAIN: Act[Delivery] = sending_again(
    retry_deliveries,
    Delivery.State.DEAD,
    "Send a delivery again",
    "It is put back into the queue of its webhook and tried as often as a new one.",
)
DELIVERIES = Resource("deliveries", "delivery", Delivery, acts=(SEND_AGAIN,))


def delete_old_deliveries() -> int:
    """Deletes old successful webhook deliveries."""
    long_ago = sql.database_time() - datetime.timedelta(days=settings.DELIVERIES_KEPT_DAYS)
    return sql.delete_in_batches(Delivery.objects.filter(state=Delivery.State.DELIVERED, finished_at__lt=long_ago))


def retry_delay(attempts: int) -> datetime.timedelta:
    """Exponential backoff with jitter."""
    return datetime.timedelta(seconds=retry_seconds(attempts, *settings.WEBHOOK_WAIT_SECONDS))


def _apply_result(delivery: Delivery, result: CallResult, now: datetime.datetime) -> None:
    delivery.attempts += 1
    delivery.last_status, delivery.last_error = result.status, result.error[:500]
    if result.is_success:
        delivery.state, delivery.finished_at = Delivery.State.DELIVERED, now
    elif now - delivery.queued_at > datetime.timedelta(seconds=settings.WEBHOOK_GIVE_UP_SECONDS):
        delivery.state, delivery.finished_at = Delivery.State.DEAD, now
    delivery.save()


def _next_delivery(config: PushConfig, now: datetime.datetime) -> ClaimedDelivery | None:
    """The first delivery, with a new lease; releases an empty queue."""
    waiting = Delivery.objects.filter(config=config, state=Delivery.State.WAITING)
    delivery = waiting.order_by("event_index").first()
    if delivery is None:
        config.release(due_at=None)
        return None
    config.extend(_lease(), now=now, due_at=now)
    event = Event.objects.get(context=config.task.context_id, index=delivery.event_index)
    body = delivery_body(event, config.task.context, config)
    headers = delivery_headers(config) | signed_headers(config, delivery, body, now)
    return ClaimedDelivery(config.pk, config.fence, delivery.pk, config.url, headers, body)


def _lease() -> datetime.timedelta:
    return datetime.timedelta(seconds=settings.WEBHOOK_SECONDS + LEASE_MARGIN_SECONDS)


def delivery_body(event: Event, context: Context, config: PushConfig) -> bytes:
    """The StreamResponse of an event; in A2A 0.3 the task as it was."""
    if config.version == http.V0_3:
        content: JSON | None = v0_3.downgrade_task(tasks.task_at(config.task_id, event.index), JSON_RPC)
    else:
        content = wire.stream_response(event, context)
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def delivery_headers(config: PushConfig) -> dict[str, str]:
    headers = {
        "Content-Type": http.JSON_TYPE if config.version == http.V0_3 else http.A2A_TYPE,
        "User-Agent": "Parley",
        "X-A2A-Notification-Token": config.token,
        "Authorization": f"{config.scheme} {config.credentials}" if config.credentials else "",
    }
    return {name: value for name, value in headers.items() if value}


def signed_headers(config: PushConfig, delivery: Delivery, body: bytes, now: datetime.datetime) -> dict[str, str]:
    """Those of Standard Webhooks. The id stays the same over retries; only owners with a secret get a signature."""
    signing: WebhookSigning | None = getattr(config.task.owner, "webhook_signing", None)
    key = f"msg_{config.pk.hex}_{delivery.event_index}"
    return standard_headers(key, now, body, signing.secrets_at(now) if signing else ())
