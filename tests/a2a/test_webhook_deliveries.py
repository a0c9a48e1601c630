"""Webhooks receive every status and last chunk, in order, at least once."""

import asyncio
import datetime
import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import aclosing

import pytest
from standardwebhooks.webhooks import Webhook as SignedWebhook
from standardwebhooks.webhooks import WebhookVerificationError

import db
import outbound
from agentkit import Completed
from apps.a2a import webhooks
from apps.a2a.models import Delivery, PushConfig
from apps.a2a.requests import OneWebhookRequest, Webhook
from apps.a2a.webhooks import CallResult, DeliveryWorker, claim, create_with_task, record_result, retry_delay
from apps.accounts.webhook_signatures import new_secret
from apps.engine import accept, jobs
from apps.features.notifications import choices
from apps.features.sessions import deletion
from apps.record.models import Task
from db import sql
from outbound.draining import DrainThread, Slots
from tests.a2a import agents
from tests.a2a.calling import message
from tests.a2a.receiving import receiver
from tests.outbound.receiving import answer, server
from tests.working import begin, chunk, end, say

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("queues of webhooks are claimed in SQL")]
LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture(autouse=True)
def _loopback_is_open() -> Iterator[None]:
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
    named = []
    monkeypatch.setattr(webhooks, "publish_webhooks", named.extend)
    return named


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
    built = DeliveryWorker()
    yield built
    await built.close()


async def states(config):
    found = Delivery.objects.filter(config=config).order_by("event_index").values_list("state", "attempts")
    return await db.run(list, found)


async def make_due(config):
    await db.run(PushConfig.objects.filter(pk=config).update, due_at=LONG_AGO)


WAITING, DELIVERED, DEAD = Delivery.State.WAITING, Delivery.State.DELIVERED, Delivery.State.DEAD


async def test_a_webhook_that_came_with_the_message_hears_of_everything(worker, ada_at, echo, hook):
    inline = {"url": hook.url, "token": "a token", "authentication": {"scheme": "Bearer", "credentials": "abc"}}
    sent = (await ada_at("echo").send(message("hi"), taskPushNotificationConfig=inline)).result["task"]
    calls = await hook.have_heard("completed")
    assert hook.told == ["working", "artifact", "completed"]
    for call in calls:
        assert call.headers["Content-Type"] == "application/a2a+json"
        assert call.headers["X-A2A-Notification-Token"] == "a token"
        assert call.headers["Authorization"] == "Bearer abc"
        [update] = call.body.values()
        assert (update["taskId"], update["contextId"]) == (sent["id"], sent["contextId"])
    assert calls[1].body["artifactUpdate"]["lastChunk"]
    assert calls[2].body["statusUpdate"]["status"] == sent["status"]


async def test_a_webhook_that_is_made_in_the_middle_of_the_work_misses_nothing_after_it(worker, ada_at, stepping, hook):
    params = {"message": message("2"), "configuration": {"returnImmediately": True}}
    task = (await ada_at("stepping").call("SendMessage", params)).result["task"]["id"]
    agents.steps.allow(1)
    async with aclosing(ada_at("stepping").stream("SubscribeToTask", {"id": task})) as updates:
        async for _, update in updates:
            if "artifactUpdate" in update:
                break
    await ada_at("stepping").call("CreateTaskPushNotificationConfig", {"taskId": task, "url": hook.url})
    agents.steps.allow(10)
    calls = await hook.have_heard("completed")
    assert hook.told == ["artifact", "working", "artifact", "completed"]
    assert [call.body["artifactUpdate"]["artifact"]["name"] for call in calls if call.what == "artifact"] == [
        "lines",
        "summary",
    ]


async def test_a_webhook_that_is_made_later_hears_of_what_follows_in_its_own_version(
    worker, ada_at, old_at, asking, hook
):
    task = (await ada_at("asking").send(message())).result["task"]["id"]
    async with receiver() as old_hook:
        old_config = {"taskId": task, "pushNotificationConfig": {"url": old_hook.url}}
        await old_at("asking").call("tasks/pushNotificationConfig/set", old_config)
        await ada_at("asking").call("CreateTaskPushNotificationConfig", {"taskId": task, "url": hook.url})
        await ada_at("asking").send(message("blue", taskId=task))
        await old_hook.have_heard("completed")
        await hook.have_heard("completed")
    assert hook.told == ["working", "artifact", "completed"]
    assert not {"Authorization", "X-A2A-Notification-Token"} & hook.calls[0].headers.keys()
    assert {call.body.get("kind") for call in old_hook.calls} == {"task"}
    assert {call.body.get("kind") for call in hook.calls} == {None}


async def test_a_question_and_a_cancel_are_told_and_nothing_of_another_task(worker, ada_at, asking, hook):
    inline = {"taskPushNotificationConfig": {"url": hook.url}}
    task = (await ada_at("asking").send(message(contextId="one"), **inline)).result["task"]
    other = (await ada_at("asking").send(message(contextId="one"))).result["task"]
    for one in (other, task):
        await ada_at("asking").call("CancelTask", {"id": one["id"]})
    await hook.have_heard("canceled")
    assert hook.told == ["working", "input_required", "canceled"]
    assert {update["taskId"] for call in hook.calls for update in call.body.values()} == {task["id"]}


async def test_many_at_once_hear_each_of_its_own_task_in_order(worker, ada_at, countdown, hook):
    inline = {"taskPushNotificationConfig": {"url": hook.url}}
    sent = await asyncio.gather(
        *(ada_at("countdown").send(message("3", contextId=f"{n % 2}"), **inline) for n in range(6))
    )
    tasks = {one.result["task"]["id"]: [] for one in sent}
    async with asyncio.timeout(60):
        while hook.told.count("completed") < len(tasks):
            await hook.have(len(hook.calls) + 1)
    for call in hook.calls:
        [update] = call.body.values()
        tasks[update["taskId"]].append(call.what)
    for told in tasks.values():
        assert (told[0], told[-1], told.count("completed")) == ("working", "completed", 1)
    ends = {one.result["task"]["id"]: one.result["task"]["status"] for one in sent}
    for call in hook.calls:
        if call.what == "completed":
            assert call.body["statusUpdate"]["status"] == ends[call.body["statusUpdate"]["taskId"]]


async def test_the_courier_ends_with_its_worker_and_begins_anew_with_the_next(transactional_db, ada_at, echo, hook):
    for count in (1, 2):
        running = jobs.embedded_worker(grace=1)
        await db.run(running.__enter__)
        await ada_at("echo").send(message(), taskPushNotificationConfig={"url": hook.url})
        await hook.have(3 * count)
        await db.run(running.__exit__, None, None, None)
        assert webhooks._single.take() is None


async def test_what_is_queued_is_what_the_log_says_and_two_workers_tell_it_once(told, hook, deliverer, published):
    [config] = await told(hook.url)
    assert set(published) == {config}
    assert await states(config) == [(WAITING, 0)] * 3
    other = DeliveryWorker()
    await asyncio.gather(deliverer.drain(config), other.drain(config))
    await other.close()
    assert hook.told == ["working", "artifact", "completed"]
    assert await states(config) == [(DELIVERED, 1)] * 3
    assert (await db.run(PushConfig.objects.get, pk=config)).due_at is None
    assert hook.calls[1].body["artifactUpdate"]["artifact"]["parts"] == [{"text": "2\n"}]


@pytest.mark.parametrize("status", ["500 Broken", "410 Gone", "302 Found", "100000 Odd"])
async def test_what_fails_is_tried_again_before_what_follows(told, hook, deliverer, status):
    [config] = await told(hook.url)
    hook.answering = lambda number: answer(b"", status if number == 1 else "200 OK", "Location: /elsewhere")
    await deliverer.drain(config)
    assert hook.told == ["working", "artifact"]
    assert await states(config) == [(DELIVERED, 1), (WAITING, 1), (WAITING, 0)]
    await deliverer.drain(config)
    assert len(hook.calls) == 2, "it is not due yet"
    await make_due(config)
    await deliverer.drain(config)
    assert hook.told == ["working", "artifact", "artifact", "completed"]
    assert await states(config) == [(DELIVERED, 1), (DELIVERED, 2), (DELIVERED, 1)]


async def test_why_it_failed_stands_with_the_delivery(told, hook, deliverer, settings):
    [refusing] = await told(hook.url)
    hook.answering = lambda number: answer(b"secret words", "503 Away")
    await deliverer.drain(refusing)
    async with server(answer()) as gone:
        pass
    dead, forbidden, slow = await told(gone.url, "http://10.0.0.1/", f"{hook.url}#slow")
    await deliverer.drain(dead)
    await deliverer.drain(forbidden)
    settings.WEBHOOK_SECONDS = 0.1
    hook.waits_for = asyncio.Event()
    impatient = DeliveryWorker()
    await impatient.drain(slow)
    await impatient.close()

    async def why(config):
        first = Delivery.objects.filter(config=config).order_by("event_index")
        return await db.run(lambda: first.values_list("last_status", "last_error")[0])

    assert await why(refusing) == (503, "")
    for config, words in ((dead, "cannot be reached"), (forbidden, "OUTBOUND_ALLOW"), (slow, "in time")):
        status, error = await why(config)
        assert status is None
        assert words in error
        assert await states(config) == [(WAITING, 1), (WAITING, 0), (WAITING, 0)]


async def test_a_huge_answer_is_not_read(told, deliverer):
    async def endless(request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
            await writer.drain()

    async with server(endless) as at:
        [config] = await told(at.url)
        await deliverer.drain(config)
    assert await states(config) == [(DELIVERED, 1)] * 3


async def test_one_that_does_not_answer_delays_no_other(told, hook, deliverer):
    hook.waits_for = asyncio.Event()
    async with receiver() as quick:
        slow, other = await told(hook.url, quick.url)
        working = asyncio.create_task(deliverer.drain(slow))
        await hook.have(1)
        await deliverer.drain(other)
        assert quick.told == ["working", "artifact", "completed"]
        assert not working.done()
        hook.waits_for.set()
        await working
    assert hook.told == ["working", "artifact", "completed"]


async def test_one_host_gets_so_many_calls_at_a_time(told, hook):
    deliverer = DeliveryWorker(Slots(200, 2))
    hook.waits_for = asyncio.Event()
    configs = await told(*(f"{hook.url}#{n}" for n in range(3)))
    works = [asyncio.create_task(deliverer.drain(config)) for config in configs]
    await hook.have(2)
    held = await db.run(PushConfig.objects.exclude(lease_until=None).count)
    assert (held, len(hook.calls)) == (2, 2)
    hook.waits_for.set()
    await asyncio.gather(*works)
    assert len(hook.calls) == 9
    await deliverer.close()


async def test_what_fails_for_too_long_is_given_up_and_what_follows_gets_its_turn(told, hook, deliverer, settings):
    settings.WEBHOOK_GIVE_UP_SECONDS = 0
    hook.answering = lambda number: answer(b"", "500 Broken" if number < 2 else "200 OK")
    [config] = await told(hook.url)
    await deliverer.drain(config)
    assert await states(config) == [(DEAD, 1), (DEAD, 1), (DELIVERED, 1)]
    assert (await db.run(PushConfig.objects.get, pk=config)).due_at is None


async def test_what_was_given_up_is_not_forgotten_and_can_be_sent_again(told, hook, deliverer, settings, published):
    settings.WEBHOOK_GIVE_UP_SECONDS = 0
    hook.answering = lambda number: answer(b"", "500 Broken" if number == 0 else "200 OK")
    [config] = await told(hook.url)
    await deliverer.drain(config)
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


async def test_deleting_a_webhook_stops_what_waits(told, hook, deliverer):
    hook.waits_for = asyncio.Event()
    [config] = await told(hook.url)
    working = asyncio.create_task(deliverer.drain(config))
    await hook.have(1)
    await db.run(PushConfig.objects.filter(pk=config).delete)
    hook.waits_for.set()
    await working
    await deliverer.drain(config)
    assert hook.told == ["working"]


async def test_what_a_dead_worker_had_is_sent_again_and_what_it_says_later_is_void(told, hook, deliverer, published):
    [config] = await told(hook.url)
    lost = await db.run(claim, config)
    assert lost is not None
    assert await db.run(claim, config) is None
    await deliverer.drain(config)
    assert hook.calls == [], "it is in the hands of one"
    published.clear()
    assert await db.run(webhooks.publish_due_webhooks) == 0, "its lease lasts"
    past = await db.run(sql.database_time) - datetime.timedelta(seconds=1)
    await db.run(PushConfig.objects.filter(pk=config).update, lease_until=past)
    assert await db.run(webhooks.publish_due_webhooks) == 1
    assert published == [config]
    await deliverer.drain(config)
    assert hook.told == ["working", "artifact", "completed"]
    assert await db.run(record_result, lost, CallResult(error="late")) is None
    assert await states(config) == [(DELIVERED, 1)] * 3


async def test_the_sweep_finds_what_is_due_and_nothing_else(told, hook, deliverer, published):
    [failing] = await told(hook.url)
    hook.answering = lambda number: answer(b"", "500 Broken")
    await deliverer.drain(failing)
    published.clear()
    assert await db.run(webhooks.publish_due_webhooks) == 0
    await make_due(failing)
    assert await db.run(webhooks.publish_due_webhooks) == 1
    assert published == [failing]
    assert await db.run(claim, uuid.uuid4()) is None, "there is no such webhook"


class TestSigning:
    """Standard Webhooks, checked by its own library."""

    async def verified(self, call, secret):
        body = json.dumps(call.body, separators=(",", ":"), ensure_ascii=False)
        return SignedWebhook(secret).verify(body, call.headers)

    async def test_an_owner_with_a_secret_has_signed_calls_whose_id_stays_over_retries(
        self, ada, told, hook, deliverer
    ):
        old = await db.run(choices.rotate_webhook_secret, ada.pk)
        new = await db.run(choices.rotate_webhook_secret, ada.pk)
        [config] = await told(hook.url)
        hook.answering = lambda number: answer(b"", "200 OK" if number else "500 Broken")
        await deliverer.drain(config)
        await make_due(config)
        await deliverer.drain(config)
        ids = [call.headers["webhook-id"] for call in hook.calls]
        assert ids[0] == ids[1]
        assert len(set(ids)) == 3
        for call in hook.calls:
            for secret in (old, new):  # both sign for a day
                assert await self.verified(call, secret) == call.body
            with pytest.raises(WebhookVerificationError):
                await self.verified(call, new_secret())

    async def test_without_a_secret_a_call_has_an_id_and_no_signature(self, told, hook, deliverer):
        [config] = await told(hook.url)
        await deliverer.drain(config)
        for call in hook.calls:
            assert call.headers["webhook-id"].startswith("msg_")
            assert "webhook-signature" not in call.headers


def test_waits_grow_to_a_bound_are_spread_and_fill_about_a_day(settings):
    usual, settings.WEBHOOK_WAIT_SECONDS = settings.WEBHOOK_WAIT_SECONDS, (4.0, 100.0)
    waits = [[retry_delay(n).total_seconds() for _ in range(50)] for n in (1, 2, 3, 6, 1000)]
    for found, longest in zip(waits, (4, 8, 16, 100, 100), strict=True):
        assert all(longest / 2 <= wait <= longest for wait in found)
        assert len(set(found)) > 1
    settings.WEBHOOK_WAIT_SECONDS = usual
    waits = [retry_delay(n).total_seconds() for n in range(1, 60)]
    within = [n for n in range(60) if sum(waits[:n]) < settings.WEBHOOK_GIVE_UP_SECONDS]
    assert 25 < len(within) < 60


@pytest.mark.services("SQLite has one writer", only=True)
@pytest.mark.parametrize("what", ["webhook", "conversation"])
async def test_what_is_deleted_while_a_call_is_settled_waits_for_that(ada, echo, told, monkeypatch, what):
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


def test_a_closed_delivery_thread_has_ended():
    before = set(threading.enumerate())
    thread = DrainThread(DeliveryWorker, "webhooks")
    [started] = set(threading.enumerate()) - before
    thread.close()
    assert not started.is_alive()
