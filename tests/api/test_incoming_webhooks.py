"""Incoming webhooks by the client API."""

import time
import uuid

import pytest
from django.test import AsyncClient

import db
from apps.accounts.models import ApiKey, User
from apps.agents.models import Agent
from apps.automation import incoming
from apps.automation.models import IncomingEvent, IncomingWebhook
from apps.record.models import Message
from tests.api.calling import JSON, Caller

NEW: JSON = {"name": "Orders", "agent": "echo", "scheme": "bearer", "text": "Order {{ body.number }}"}


async def test_a_webhook_is_made_changed_paused_and_deleted_and_its_secret_shown_once(
    ada_calls: Caller, echo: Agent
) -> None:
    made = (await ada_calls.post("/webhooks", NEW)).body
    address = f"/webhooks/{made['id']}"
    assert made["address"].endswith(f"/hooks/{made['id']}")
    assert made["secret"] == (await IncomingWebhook.objects.aget()).secret
    shown = (await ada_calls.get(address)).body
    assert shown == {name: value for name, value in made.items() if name != "secret"}
    assert (await ada_calls.get("/webhooks")).body["items"] == [shown]
    assert (await ada_calls.patch(address, {"onlyIf": "body.number > 1"})).body["onlyIf"] == "body.number > 1"
    assert (await ada_calls.post(f"{address}/pause")).body["pausedAt"]
    assert (await ada_calls.post(f"{address}/resume")).body["pausedAt"] is None
    given = {"secret": "a-secret-of-the-sender"}
    changed = (await ada_calls.post(f"{address}/secret", given)).body
    assert (changed["secret"], bool(changed["oldSecretUntil"])) == (given["secret"], True)
    assert (await ada_calls.post(f"{address}/secret", {"secret": "short"})).fields == ["secret"]
    assert (await ada_calls.delete(address)).status == 204
    assert (await ada_calls.get(address)).status == 404


async def test_how_another_sender_signs_is_kept_and_changed(ada_calls: Caller, echo: Agent) -> None:
    signature = {"header": "X-Sign", "timestampHeader": "X-Time", "encoding": "base64"}
    made = (await ada_calls.post("/webhooks", NEW | {"scheme": "hmac", "signature": signature})).body
    assert made["signature"] == signature
    changed = await ada_calls.patch(f"/webhooks/{made['id']}", {"signature": {"header": "X-Other"}})
    assert changed.body["signature"] == {"header": "X-Other"}


async def test_events_are_listed_and_sent_again(ada_calls: Caller, echo: Agent) -> None:
    address = f"/webhooks/{(await ada_calls.post('/webhooks', NEW)).body['id']}"
    webhook = await IncomingWebhook.objects.select_related("agent").aget()
    event = await db.run(incoming.receive, webhook, {"Idempotency-Key": "o1"}, {"number": 7})
    await db.run(incoming.start_event, event.pk)
    [listed] = (await ada_calls.get(f"{address}/events")).body["items"]
    assert (listed["eventId"], listed["state"], listed["body"]) == ("o1", "started", {"number": 7})
    assert (await ada_calls.get(f"/tasks/{listed['taskId']}")).status == 200
    again = (await ada_calls.post(f"{address}/events/{listed['id']}/again")).body
    assert (again["repeats"], again["state"]) == (listed["id"], "waiting")
    assert await IncomingEvent.objects.acount() == 2


async def test_a_preview_starts_nothing(ada_calls: Caller, echo: Agent) -> None:
    sample = {"agent": "echo", "text": "{{ body.a }}", "inputs": {"n": "{{ body.n }}"}, "body": {"a": "x", "n": 1}}
    shown = await ada_calls.post("/webhooks/preview", sample)
    assert shown.body == {"starts": True, "reason": "", "text": "x", "inputs": {"n": 1}}
    ignored = await ada_calls.post("/webhooks/preview", sample | {"onlyIf": "body.n == 2"})
    assert ignored.body["starts"] is False
    assert (await ada_calls.post("/webhooks/preview", sample | {"text": "{{ body.b }}"})).fields == ["text"]
    assert not await IncomingWebhook.objects.aexists()


@pytest.mark.services("databases keep large numbers each in its way")
@pytest.mark.parametrize("number", [8202522731445525542, 2**64 + 1, -(2**53) - 1])
async def test_preview_and_event_keep_whole_numbers(ada_calls: Caller, echo: Agent, number: int) -> None:
    templates = {"agent": "echo", "text": "x {{ body.id }}", "inputs": {"id": "{{ body.id }}"}}
    for only_if, starts in ((f"body.id == {number}", True), (f"body.id == {number + 1}", False)):
        asked = {**templates, "onlyIf": only_if}
        shown = (await ada_calls.post("/webhooks/preview", {**asked, "body": {"id": number}})).body
        made = (await ada_calls.post("/webhooks", {"name": "Ids", "scheme": "bearer", **asked})).body
        token = {"Authorization": f"Bearer {made['secret']}"}
        sent = await AsyncClient().post(
            f"/hooks/{made['id']}", f'{{"id": {number}}}', "application/json", headers=token
        )
        await db.run(incoming.start_event, uuid.UUID(sent.json()["id"]))
        [event] = (await ada_calls.get(f"/webhooks/{made['id']}/events")).body["items"]
        assert (event["body"], event["state"] == "started", shown["starts"]) == ({"id": number}, starts, starts)
        if starts:
            assert (shown["text"], shown["inputs"]) == (f"x {number}", {"id": number})
            message = await Message.objects.aget(context_id=event["sessionId"], role="user")
            assert message.parts == [{"text": f"x {number}"}, {"data": {"id": number}}]


async def test_a_preview_that_takes_long_is_refused(ada_calls: Caller, echo: Agent) -> None:
    slow = "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}"
    spent = time.process_time()
    refused = await ada_calls.post("/webhooks/preview", {"agent": "echo", "inputs": {"a": [slow]}, "body": {}})
    assert (refused.status, refused.fields) == (422, ["inputs.a.0"])
    assert "takes longer than 0.1 s" in str(refused.body)
    assert time.process_time() - spent < 1


async def test_wrong_webhooks_are_refused_by_field(ada_calls: Caller, echo: Agent) -> None:
    for wrong, field in (
        ({"agent": "nobody"}, "agent"),
        ({"text": "{{ body."}, "text"),
        ({"inputs": {"a": "{{"}}, "inputs.a"),
        ({"onlyIf": "="}, "onlyIf"),
        ({"scheme": "other"}, "scheme"),
        ({"scheme": "standard", "secret": "whsec_x"}, "secret"),
        ({"scheme": "hmac"}, "signature.header"),
        ({"scheme": "hmac", "signature": {"header": "X-Sign", "signed": "{time}"}}, "signature.signed"),
        ({"signature": {"header": "X-Sign"}}, "signature"),
        ({"pausedAt": None}, "pausedAt"),
    ):
        refused = await ada_calls.post("/webhooks", {**NEW, **wrong})
        assert (refused.status, refused.fields) == (422, [field])


async def test_others_and_keys_for_other_agents_do_not_find_it(
    ada_calls: Caller, bob_calls: Caller, ada: User, echo: Agent, countdown: Agent
) -> None:
    made = (await ada_calls.post("/webhooks", NEW)).body
    limited = Caller((await db.run(ApiKey.issue, ada, "limited", agents=["countdown"]))[1])
    for caller in (bob_calls, limited):
        assert (await caller.get(f"/webhooks/{made['id']}")).status == 404
        assert (await caller.get("/webhooks")).body["items"] == []
    assert (await limited.post("/webhooks", NEW)).fields == ["agent"]
