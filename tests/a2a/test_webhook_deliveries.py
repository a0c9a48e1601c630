"""Webhooks receive every status and last chunk, in order, at least once."""

import asyncio
import datetime
import json
import threading
import time

import pytest
from a2a.compat.v0_3 import types as old
from standardwebhooks.webhooks import Webhook as SignedWebhook
from standardwebhooks.webhooks import WebhookVerificationError

from agentkit import Completed
from apps.a2a import webhooks
from apps.a2a.models import Delivery, PushConfig
from apps.a2a.requests import OneWebhookRequest, Webhook
from apps.a2a.webhooks import DELIVERIES_TO_SEND, CallResult, claim, create_with_task, record_result, retry_delay
from apps.accounts.secrets.webhook_signatures import new_secret
from apps.conversations.sessions import deletion
from apps.engine import accept
from apps.notifications import choices
from apps.record.models import Task
from parley import db, outbound
from parley.db import sql
from tests.a2a.calling import message
from tests.a2a.old_calling import said, strictly_read
from tests.a2a.receiving import receiver
from tests.outbound.receiving import answer, server
from tests.work.hand import Worker, published_keys
from tests.working import begin, chunk, end, say

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("queues of webhooks are claimed in SQL")]
LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture(autouse=True)
def _loopback_is_open():
    outbound.configure(["127.0.0.1"])
    yield
    outbound.configure([])


@pytest.fixture
async def hook():
    async with receiver() as built:
        yield built


@pytest.fixture
def published(monkeypatch):
    """Webhook ids sent to the workers, of which none runs."""
    return published_keys(monkeypatch)


@pytest.fixture
def told(ada, echo, published):
    """Makes a task with webhooks at these URLs, finishes it, and returns the webhooks."""

    def record(*urls):
        keeps = [create_with_task(Webhook.model_construct(id=url, url=url), "1.0") for url in urls]
        sent = accept.accept(
            ada.principal, echo, message(), extra_writes=lambda *place: [keep(*place) for keep in keeps]
        )
        held = begin(sent.run)
        say(held, chunk("lines", "1\n", last=False), chunk("lines", "2\n", append=True))
        end(held, Completed("done"))
        return [PushConfig.objects.get(task=sent.task, config_id=url).pk for url in urls]

    return lambda *urls: db.run(record, *urls)


@pytest.fixture
async def deliverer():
    built = Worker(DELIVERIES_TO_SEND)
    yield built
    await built.close()


async def states(config):
    found = Delivery.objects.filter(config=config).order_by("event_index").values_list("state", "attempts")
    return await db.run(list, found)


async def make_due(config):
    await db.run(PushConfig.objects.filter(pk=config).update, due_at=LONG_AGO)


WAITING, DELIVERED, DEAD = Delivery.State.WAITING, Delivery.State.DELIVERED, Delivery.State.DEAD


async def test_inline_webhooks_hear_everything(worker, ada_at, old_at, echo, hook):
    inline = {"url": hook.url, "token": "t", "authentication": {"scheme": "Bearer", "credentials": "c"}}
    sent = (await ada_at("echo").send(message("hi"), taskPushNotificationConfig=inline)).result["task"]
    calls = await hook.have_heard("completed")
    assert hook.told == ["working", "artifact", "completed"]
    for call in calls:
        assert call.headers["Content-Type"] == "application/a2a+json"
        [update] = call.body.values()
        assert (update["taskId"], update["contextId"]) == (sent["id"], sent["contextId"])
    assert calls[1].body["artifactUpdate"]["lastChunk"]
    assert calls[2].body["statusUpdate"]["status"] == sent["status"]
    async with receiver() as old_hook:
        config = {"url": old_hook.url, "token": "t", "authentication": {"schemes": ["Bearer"], "credentials": "c"}}
        task = (await old_at("echo").send(said("hi"), pushNotificationConfig=config)).result
        heard = await old_hook.have_heard("completed")
    assert heard[0].body["artifacts"] == []
    assert heard[-1].body == task, "0.3 gets the whole task"
    for call in heard:
        assert call.headers["Content-Type"] == "application/json"
        strictly_read(call.body, old.Task)
    for call in (*calls, *heard):
        assert (call.headers["X-A2A-Notification-Token"], call.headers["Authorization"]) == ("t", "Bearer c")


async def test_two_workers_deliver_the_log_once(told, hook, deliverer, published):
    [config] = await told(hook.url)
    assert set(published) == {config}
    assert await states(config) == [(WAITING, 0)] * 3
    other = Worker(DELIVERIES_TO_SEND)
    await asyncio.gather(deliverer.drain(config), other.drain(config))
    await other.close()
    assert hook.told == ["working", "artifact", "completed"]
    assert await states(config) == [(DELIVERED, 1)] * 3
    assert (await db.run(PushConfig.objects.get, pk=config)).due_at is None
    assert hook.calls[1].body["artifactUpdate"]["artifact"]["parts"] == [{"text": "2\n"}]


@pytest.mark.parametrize("status", ["500 Broken", "302 Found", "100000 Odd"])
async def test_failed_call_is_retried_before_what_follows(told, hook, deliverer, published, status):
    [config] = await told(hook.url)
    hook.answering = lambda number: answer(b"", status if number == 1 else "200 OK", "Location: /elsewhere")
    await deliverer.drain(config)
    assert hook.told == ["working", "artifact"]
    assert await states(config) == [(DELIVERED, 1), (WAITING, 1), (WAITING, 0)]
    await deliverer.drain(config)
    assert len(hook.calls) == 2, "it is not due yet"
    published.clear()
    assert await db.run(DELIVERIES_TO_SEND.sweep) == 0
    await make_due(config)
    assert await db.run(DELIVERIES_TO_SEND.sweep) == 1
    assert published == [config]
    await deliverer.drain(config)
    assert hook.told == ["working", "artifact", "artifact", "completed"]
    assert await states(config) == [(DELIVERED, 1), (DELIVERED, 2), (DELIVERED, 1)]


async def test_delivery_says_why_it_failed(told, hook, deliverer):
    [refusing] = await told(hook.url)
    hook.answering = lambda number: answer(b"secret words", "503 Away")
    await deliverer.drain(refusing)
    async with server(answer()) as gone:
        pass
    dead, forbidden = await told(gone.url, "http://10.0.0.1/")
    await deliverer.drain(dead)
    await deliverer.drain(forbidden)

    async def why(config):
        first = Delivery.objects.filter(config=config).order_by("event_index")
        return await db.run(lambda: first.values_list("last_status", "last_error")[0])

    assert await why(refusing) == (503, "")
    for config, words in ((dead, "cannot be reached"), (forbidden, "OUTBOUND_ALLOW")):
        status, error = await why(config)
        assert status is None
        assert words in error
        assert await states(config) == [(WAITING, 1), (WAITING, 0), (WAITING, 0)]


async def test_given_up_delivery_is_kept_and_resent(told, hook, deliverer, settings, published):
    settings.WEBHOOK_GIVE_UP_SECONDS = 0
    hook.answering = lambda number: answer(b"", "500 Broken" if number == 0 else "200 OK")
    [config] = await told(hook.url)
    await deliverer.drain(config)
    assert await states(config) == [(DEAD, 1), (DELIVERED, 1), (DELIVERED, 1)], "what follows has its turn"
    assert (await db.run(PushConfig.objects.get, pk=config)).due_at is None
    assert await db.run(webhooks.delete_old_deliveries) == 0, "not so soon"
    await db.run(lambda: Delivery.objects.update(finished_at=LONG_AGO))
    assert await db.run(webhooks.delete_old_deliveries) == 2
    assert await states(config) == [(DEAD, 1)]
    everything = await db.run(lambda: [one.pk for one in Delivery.objects.all()])
    published.clear()
    assert await db.run(webhooks.retry_deliveries, everything) == 1
    assert published == [config]
    await deliverer.drain(config)
    assert hook.told == ["working", "artifact", "completed", "working"]
    assert await states(config) == [(DELIVERED, 1)]


async def test_deleted_webhook_is_called_no_more(told, hook, deliverer):
    hook.waits_for = asyncio.Event()
    [config] = await told(hook.url)
    working = asyncio.create_task(deliverer.drain(config))
    await hook.have(1)
    await db.run(PushConfig.objects.filter(pk=config).delete)
    hook.waits_for.set()
    await working
    await deliverer.drain(config)
    assert hook.told == ["working"]


async def test_late_result_of_a_dead_worker_is_void(told, hook, deliverer):
    [config] = await told(hook.url)
    lost = await db.run(claim, config)
    await deliverer.drain(config)
    assert hook.calls == [], "it is in the hands of one"
    past = await db.run(sql.database_time) - datetime.timedelta(seconds=1)
    await db.run(PushConfig.objects.filter(pk=config).update, lease_until=past)
    await deliverer.drain(config)
    assert hook.told == ["working", "artifact", "completed"]
    assert await db.run(record_result, lost, CallResult(error="late")) is None
    assert await states(config) == [(DELIVERED, 1)] * 3


async def test_calls_are_signed_by_each_valid_secret(ada, told, hook, deliverer):
    """Standard Webhooks, checked by its own library. The id stays over retries."""
    [unsigned] = await told(hook.url)
    await deliverer.drain(unsigned)
    for call in hook.calls:
        assert call.headers["webhook-id"].startswith("msg_")
        assert "webhook-signature" not in call.headers
    hook.calls.clear()
    secrets = [await db.run(choices.rotate_webhook_secret, ada.pk) for _ in range(2)]
    [config] = await told(hook.url)
    hook.answering = lambda number: answer(b"", "200 OK" if number else "500 Broken")
    await deliverer.drain(config)
    await make_due(config)
    await deliverer.drain(config)
    ids = [call.headers["webhook-id"] for call in hook.calls]
    assert (ids[0], len(set(ids))) == (ids[1], 3)
    for call in hook.calls:
        body = json.dumps(call.body, separators=(",", ":"), ensure_ascii=False)
        for secret in secrets:  # both sign for a day
            assert SignedWebhook(secret).verify(body, call.headers) == call.body
        with pytest.raises(WebhookVerificationError):
            SignedWebhook(new_secret()).verify(body, call.headers)


@pytest.mark.services("SQLite has one writer", only=True)
@pytest.mark.parametrize("what", ["webhook", "conversation"])
async def test_deletion_waits_for_a_call_being_settled(ada, echo, told, monkeypatch, what):
    """Both lock the webhook and its delivery in the same order, which prevents a deadlock."""
    url = "http://127.0.0.1/"
    [config] = await told(url)
    posting = await db.run(claim, config)
    task = await db.run(Task.objects.select_related("context").get, push_configs=config)
    begun = threading.Event()

    def note(*args, real=webhooks._apply_result):
        begun.set()
        assert until(is_waited_for)
        real(*args)

    monkeypatch.setattr(webhooks, "_apply_result", note)
    settling = asyncio.create_task(db.run(record_result, posting, CallResult(200)))
    await asyncio.to_thread(begun.wait, 5)
    if what == "webhook":
        await db.run(webhooks.delete_config, ada.principal, echo, OneWebhookRequest(task_id=str(task.pk), id=url))
    else:
        await db.run(deletion.delete_context, ada.principal, echo, task.context.context_id)
    await settling
    assert await db.run(PushConfig.objects.count) == await db.run(Delivery.objects.count) == 0


def until(holds):
    return any(holds() or time.sleep(0.01) for _ in range(500))


def is_waited_for():
    """Does another connection wait for this one's lock?"""
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
    return sql.execute(waiting, []).fetchone()[0]


def test_retries_fill_about_a_day(settings):
    waits = [retry_delay(n).total_seconds() for n in range(1, 60)]
    within = [n for n in range(60) if sum(waits[:n]) < settings.WEBHOOK_GIVE_UP_SECONDS]
    assert 25 < len(within) < 60
