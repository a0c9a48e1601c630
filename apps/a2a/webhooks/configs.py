"""The webhooks of a task: made, shown with their secrets masked, and deleted by the task's owner."""

from __future__ import annotations

import asyncio
import uuid

from django.conf import settings

import outbound
from apps.a2a.errors import JSON
from apps.a2a.models import PushConfig
from apps.a2a.webhooks.reading import Webhook, WebhookAsking, WebhookListing
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine import accept
from apps.record import addressing
from apps.record.errors import InvalidParams, TaskNotFound
from apps.record.ledger import Ledger
from apps.record.models import Context, Task
from db.transactions import transacting

MASK = "********"
VET_SECONDS = 2.0  # for the look-up of a name, which is done again at each call


async def vet(webhook: Webhook, field: str) -> None:
    """Raises InvalidParams for a URL whose name leads where nobody may call. One that leads nowhere yet is taken."""
    try:
        async with asyncio.timeout(VET_SECONDS):
            await outbound.guard().vet(webhook.url)
    except outbound.Forbidden as refusal:
        raise InvalidParams(f"{field}: {refusal}", field) from None
    except (outbound.Unreachable, outbound.TooSlow, TimeoutError):
        return


def create(principal: Principal, agent: Agent, task_id: str, webhook: Webhook) -> JSON:
    """Keep a webhook, in the place of one with the same id. Raises TaskNotFound, InvalidParams."""
    task = addressing.find_task(principal, agent, task_id)
    with transacting():
        context = _locked(task)
        config = _keep(task.pk, webhook)
        _watch(context)
    return _shown(config)


def keep_with(webhook: Webhook) -> accept.Alongside:
    """Keeps a webhook in the transaction that accepts its task's message, so that it is told of all that follows."""

    def keep(log: Ledger, task: uuid.UUID) -> None:
        _keep(task, webhook)
        _watch(log.context)

    return keep


def find(principal: Principal, agent: Agent, asking: WebhookAsking) -> JSON:
    """Raises TaskNotFound, for an unknown webhook as well."""
    task = addressing.find_task(principal, agent, asking.task)
    config = PushConfig.objects.filter(task=task, config_id=asking.config_id).first()
    if config is None:
        raise TaskNotFound("There is no such webhook.")
    return _shown(config)


def listed(principal: Principal, agent: Agent, listing: WebhookListing) -> JSON:
    """ListTaskPushNotificationConfigsResponse, by id. Raises TaskNotFound."""
    task = addressing.find_task(principal, agent, listing.task)
    found = PushConfig.objects.filter(task=task, config_id__gt=listing.page_token).order_by("config_id")
    rows = list(found[: listing.page_size + 1])
    page = rows[: listing.page_size]
    return {
        "configs": [_shown(config) for config in page],
        "nextPageToken": page[-1].config_id if len(rows) > len(page) else "",
    }


def delete(principal: Principal, agent: Agent, asking: WebhookAsking) -> JSON:
    """Forget a webhook and what waits for it; one that is gone stays so. Raises TaskNotFound."""
    task = addressing.find_task(principal, agent, asking.task)
    with transacting():
        _locked(task)
        PushConfig.objects.filter(task=task, config_id=asking.config_id).only("pk").delete()
    return {}


def _locked(task: Task) -> Context:
    """The task's context, alone in the hands of this transaction: the ledger looks at it under the same lock."""
    context = Context.objects.select_for_update().filter(pk=task.context_id, deleted_at=None).first()
    if context is None:
        raise TaskNotFound  # it was cleared or deleted just now
    return context


def _watch(context: Context) -> None:
    if context.is_watched:
        return
    context.is_watched = True
    if not context._state.adding:
        Context.objects.filter(pk=context.pk).update(is_watched=True)


def _keep(task: uuid.UUID, webhook: Webhook) -> PushConfig:
    """Raises InvalidParams where the task has as many as it may have. The context is locked."""
    values = {
        "url": webhook.url,
        "token": webhook.token,
        "scheme": webhook.scheme,
        "credentials": webhook.credentials,
        "version": webhook.version,
    }
    known = set(PushConfig.objects.filter(task=task).values_list("config_id", flat=True))
    if webhook.config_id in known:
        PushConfig.objects.filter(task=task, config_id=webhook.config_id).update(**values)
        return PushConfig.objects.get(task=task, config_id=webhook.config_id)
    if len(known) >= settings.MAX_WEBHOOKS:
        raise InvalidParams(f"A task has at most {settings.MAX_WEBHOOKS} webhooks. Delete one first.", "taskId")
    key = uuid.uuid4()
    return PushConfig.objects.create(pk=key, task_id=task, config_id=webhook.config_id or str(key), **values)


def _shown(config: PushConfig) -> JSON:
    """A TaskPushNotificationConfig whose secrets are known to be there and no more."""
    shown: JSON = {"id": config.config_id, "taskId": str(config.task_id), "url": config.url}
    if config.token:
        shown["token"] = MASK
    if config.scheme:
        shown["authentication"] = {"scheme": config.scheme} | ({"credentials": MASK} if config.credentials else {})
    return shown
