"""Schedules, incoming webhooks and reruns by the client API; `tests/resources` has what all resources promise."""

from __future__ import annotations

import uuid

import pytest
from django.test import AsyncClient

from apps.automation import incoming, reruns
from apps.automation.models import IncomingEvent, IncomingWebhook, Schedule
from apps.record.models import Message
from parley import db
from tests.clients.calling import JSON
from tests.engine.delegating import until
from tests.working import worked_on

pytestmark = pytest.mark.django_db(transaction=True)

HOOK: JSON = {"name": "Orders", "agent": "echo", "scheme": "bearer", "text": "Order {{ body.number }}"}


async def test_preview_of_schedule_saves_nothing(reads):
    shown = await reads.post("/schedules/preview", {"kind": "interval", "everySeconds": 3600})
    assert len(shown.body["nextRuns"]) == 5
    refused = await reads.post("/schedules/preview", {"kind": "cron", "cron": "0 0 30 2 *"})
    assert (refused.status, refused.fields) == (422, ["cron"])
    assert not await Schedule.objects.aexists()


async def test_time_without_offset_is_in_the_zone(ada_calls, reads, echo):
    timing = {"kind": "once", "at": "2035-12-01T09:00:00", "timeZone": "Europe/Berlin"}
    shown = await reads.post("/schedules/preview", timing)
    assert shown.body["nextRuns"] == ["2035-12-01T08:00:00.000Z"]
    made = (await ada_calls.post("/schedules", {"name": "Once", "agent": "echo", "text": "hi", **timing})).body
    assert made["at"] == "2035-12-01T08:00:00.000Z"
    changed = await ada_calls.patch(f"/schedules/{made['id']}", {"at": "2035-07-01T09:00:00"})
    assert changed.body["at"] == "2035-07-01T07:00:00.000Z"
    absolute = await ada_calls.patch(f"/schedules/{made['id']}", {"at": "2035-07-01T09:00:00+05:00"})
    assert absolute.body["at"] == "2035-07-01T04:00:00.000Z"


async def test_secret_of_webhook_is_shown_once_and_replaced(ada_calls, echo):
    made = (await ada_calls.post("/webhooks", HOOK)).body
    address = f"/webhooks/{made['id']}"
    assert made["address"].endswith(f"/hooks/{made['id']}")
    assert made["secret"] == (await IncomingWebhook.objects.aget()).secret
    assert "secret" not in (await ada_calls.get(address)).body
    given = {"secret": "a-secret-of-the-sender"}
    changed = (await ada_calls.post(f"{address}/secret", given)).body
    assert (changed["secret"], bool(changed["oldSecretUntil"])) == (given["secret"], True)
    assert (await ada_calls.post(f"{address}/secret", {"secret": "short"})).fields == ["secret"]


async def test_events_are_listed_and_sent_again(ada_calls, echo):
    address = f"/webhooks/{(await ada_calls.post('/webhooks', HOOK)).body['id']}"
    webhook = await IncomingWebhook.objects.select_related("agent").aget()
    await db.run(incoming.receive, webhook, {"Idempotency-Key": "o1"}, {"number": 7})
    await db.run(incoming.start_events_of, webhook.pk)
    [listed] = (await ada_calls.get(f"{address}/events")).body["items"]
    assert (listed["eventId"], listed["state"], listed["body"]) == ("o1", "started", {"number": 7})
    assert (await ada_calls.get(f"/tasks/{listed['taskId']}")).status == 200
    again = (await ada_calls.post(f"{address}/events/{listed['id']}/again")).body
    assert (again["repeats"], again["state"]) == (listed["id"], "waiting")
    assert await IncomingEvent.objects.acount() == 2


async def test_preview_of_webhook_starts_nothing(ada_calls, echo):
    sample = {"agent": "echo", "text": "{{ body.a }}", "inputs": {"n": "{{ body.n }}"}, "body": {"a": "x", "n": 1}}
    shown = await ada_calls.post("/webhooks/preview", sample)
    assert shown.body == {"starts": True, "reason": "", "text": "x", "inputs": {"n": 1}}
    ignored = await ada_calls.post("/webhooks/preview", sample | {"onlyIf": "body.n == 2"})
    assert ignored.body["starts"] is False
    assert (await ada_calls.post("/webhooks/preview", sample | {"text": "{{ body.b }}"})).fields == ["text"]
    assert not await IncomingWebhook.objects.aexists()


@pytest.mark.services("databases keep large numbers each in its way")
async def test_preview_and_event_keep_whole_numbers(ada_calls, echo):
    number = 2**64 + 1
    templates = {"agent": "echo", "text": "x {{ body.id }}", "inputs": {"id": "{{ body.id }}"}}
    for only_if, starts in ((f"body.id == {number}", True), (f"body.id == {number + 1}", False)):
        asked = {**templates, "onlyIf": only_if}
        shown = (await ada_calls.post("/webhooks/preview", {**asked, "body": {"id": number}})).body
        made = (await ada_calls.post("/webhooks", {"name": "Ids", "scheme": "bearer", **asked})).body
        token = {"Authorization": f"Bearer {made['secret']}"}
        sent = await AsyncClient().post(
            f"/hooks/{made['id']}", f'{{"id": {number}}}', "application/json", headers=token
        )
        assert sent.status_code == 202
        await db.run(incoming.start_events_of, uuid.UUID(made["id"]))
        [event] = (await ada_calls.get(f"/webhooks/{made['id']}/events")).body["items"]
        assert (event["body"], event["state"] == "started", shown["starts"]) == ({"id": number}, starts, starts)
        if starts:
            assert (shown["text"], shown["inputs"]) == (f"x {number}", {"id": number})
            message = await Message.objects.aget(context_id=event["sessionId"], role="user")
            assert message.parts == [{"text": f"x {number}"}, {"data": {"id": number}}]


async def test_session_is_run_again_and_compared(ada_calls, ada, echo, said, worker):
    source = (await worked_on(ada.principal, echo, said("a fox"))).context_id
    made = await ada_calls.post(f"/sessions/{source}/rerun", {}, Idempotency_Key="k")
    assert made.status == 201, made.body
    repeated = await ada_calls.post(f"/sessions/{source}/rerun", {}, Idempotency_Key="k")
    assert (repeated.status, repeated.body["id"]) == (200, made.body["id"])
    again = uuid.UUID(made.body["id"])
    await until(lambda: reruns.compare(ada.principal, again).is_finished)
    told = (await ada_calls.get(f"/sessions/{again}/comparison")).body
    [turn] = told["turns"]
    assert (told["sourceId"], turn["message"], turn["sameInput"]) == (str(source), "a fox", True)
    assert (turn["after"]["agent"], turn["after"]["answer"]) == ("echo", "a fox")
    assert (await ada_calls.get(f"/sessions/{source}/comparison")).status == 404
