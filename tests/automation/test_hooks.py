"""The address at which events of other systems come in."""

import hmac
import json
import time
import uuid

import pytest
from django.test import AsyncClient

from apps.accounts.models import User
from apps.accounts.secrets import webhook_signatures
from apps.automation import incoming
from apps.automation.api import hooks
from apps.automation.models import IncomingEvent, IncomingWebhook
from apps.record.models import Task
from parley import db
from parley.db.sql import write_transaction
from tests.accounts.test_webhook_signatures import signed
from tests.plans.test_deleted_at_once import until_somebody_waits_for_a_lock

pytestmark = pytest.mark.django_db(transaction=True)
BODY = b'{"id": "evt_1", "event_id": "evt_1", "type": "paid"}'


@pytest.fixture
def webhook(ada, echo):
    def make(scheme="bearer", **fields):
        fields = {"agent": echo, "name": "Events", "text": "{{ event.type }}", **fields}
        return incoming.save(ada.principal, IncomingWebhook(scheme=scheme, **fields))

    return make


async def post(key, body=BODY, content_type="application/json", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = await AsyncClient().post(f"/hooks/{key}", body, content_type, headers=named)
    return answer.status_code, json.loads(answer.content)


def signature(webhook, body=BODY, **more):
    return signed(webhook.scheme, webhook.secret, body, int(time.time())) | more


@pytest.mark.parametrize("scheme", webhook_signatures.SCHEMES)
async def test_signed_event_starts_work_once(webhook, scheme):
    made = await db.run(webhook, scheme, signature={"header": "X-Signature"} if scheme == "hmac" else None)
    ids = {"X-GitHub-Delivery": "d1", "X-GitHub-Event": "paid", "Idempotency-Key": "k1"}
    headers = signature(made, **ids)
    status, answer = await post(made.pk, **headers)
    assert (status, answer["state"]) == (202, "waiting")
    await db.run(incoming.start_events_of, made.pk)
    again = await post(made.pk, **headers)
    task = await Task.objects.select_related("owner").aget()
    assert again == (202, {"id": answer["id"], "state": "started", "task": str(task.pk)})


async def test_github_delivery_counts_once_with_any_id(webhook):
    made = await db.run(webhook, "github")
    first, again = [await post(made.pk, **signature(made, **{"X-GitHub-Delivery": name})) for name in ("d1", "d2")]
    assert first == again
    another = b'{"id": "evt_2"}'
    await post(made.pk, another, **signature(made, another, **{"X-GitHub-Delivery": "d3"}))
    assert await IncomingEvent.objects.acount() == 2


async def test_a_delivery_with_a_signed_time_counts_once(webhook):
    signing = {"header": "X-Signature", "timestamp_header": "X-Time"}
    made, now = await db.run(lambda: webhook("hmac", signature=signing)), int(time.time())

    def sent(at, key):
        digest = hmac.digest(made.secret.encode(), f"{at}.".encode() + BODY, "sha256").hex()
        return post(made.pk, **{"X-Signature": digest, "X-Time": str(at), "Idempotency-Key": key})

    first, again, later = await sent(now, "k1"), await sent(now, "k2"), await sent(now + 1, "k3")
    assert (first[0], first, later[1]["id"] != first[1]["id"]) == (202, again, True)


@pytest.mark.services("SQLite locks no rows", only=True)
def test_two_such_deliveries_at_once_count_once(webhook):
    made = webhook("github")
    with write_transaction():
        first = incoming.receive(made, {"X-GitHub-Delivery": "d1"}, {})
        second = db.submit(incoming.receive, made, {"X-GitHub-Delivery": "d2"}, {})
        until_somebody_waits_for_a_lock()
    assert second.result(20) == first


async def test_all_refused_events_get_the_same_answer(webhook, ada):
    made = await db.run(webhook)
    right = signature(made)
    refused = [await post(made.pk), await post(made.pk, Authorization="Bearer x"), await post("x", **right)]
    refused.append(await post(uuid.uuid4(), **right))
    await User.objects.filter(pk=ada.pk).aupdate(is_active=False)
    refused.append(await post(made.pk, **right))
    assert refused[0][0] == 401
    assert all(one == refused[0] for one in refused)
    assert not await IncomingEvent.objects.aexists()


async def test_the_secret_before_counts_for_a_day(webhook):
    made = await db.run(webhook)
    old = signature(made)
    changed = await db.run(incoming.replace_secret, made)
    assert [(await post(made.pk, **one))[0] for one in (old, signature(changed))] == [202, 202]
    await IncomingWebhook.objects.aupdate(old_secret_until=made.created_at)
    assert (await post(made.pk, **old))[0] == 401


async def test_github_pings_and_forms_are_read(webhook):
    made = await db.run(webhook, "github")
    ping = signature(made, **{"X-GitHub-Event": "ping", "X-GitHub-Delivery": "p"})
    assert (await post(made.pk, **ping))[1]["state"] == "ignored"
    form = b"payload=%7B%22action%22%3A%20%22opened%22%7D"
    kind = "application/x-www-form-urlencoded"
    assert (await post(made.pk, form, kind, **signature(made, form)))[0] == 202
    assert await IncomingEvent.objects.filter(body={"action": "opened"}).aexists()
    assert (await post(made.pk, b"other=1", kind, **signature(made, b"other=1")))[0] == 400


async def test_slack_gets_its_challenge_back_and_nothing_starts(webhook):
    made = await db.run(webhook, "slack")
    body = b'{"type": "url_verification", "challenge": "3eZbrw1aB"}'
    assert await post(made.pk, body, **signature(made, body)) == (200, {"challenge": "3eZbrw1aB"})
    assert (await post(made.pk, body, **signature(made)))[0] == 401
    assert not await IncomingEvent.objects.aexists()


BY_FORM = b"payload=%7B%22type%22%3A%22block_actions%22%2C%22trigger_id%22%3A%22t1%22%7D"
SLACKS_EVENTS = [
    (b'{"type": "event_callback", "event_id": "Ev1", "event": {"type": "app_mention"}}', "", "Ev1", "app_mention"),
    (BY_FORM, hooks.FORM, "t1", "block_actions"),
    (b"command=%2Fask&text=hello&trigger_id=t2", hooks.FORM, "t2", "/ask"),
]


async def test_slack_names_its_events_in_the_body(webhook):
    made = await db.run(webhook, "slack", text="{{ event.type }}")
    for body, content_type, event_id, kind in SLACKS_EVENTS:
        sent = signature(made, body)
        answer = await AsyncClient().post(f"/hooks/{made.pk}", body, content_type or "application/json", headers=sent)
        assert await IncomingEvent.objects.filter(event_id=event_id, kind=kind).aexists()
        assert bool(answer.content) is (not content_type), "Slack would show it to whoever wrote the command"


async def test_what_is_no_json_is_refused(webhook):
    made = await db.run(webhook)
    for body in (b"", b"NaN", b'{"a": 1, "a": 2}', b"[" * 100 + b"]" * 100, b"\xff", b'"\\u0000"'):
        assert (await post(made.pk, body, **signature(made)))[0] == 400, body
    assert not await IncomingEvent.objects.aexists()


async def test_too_many_and_too_large_events_are_refused(webhook, settings):
    settings.INCOMING_EVENTS_PER_MINUTE = 1
    made = await db.run(webhook)
    first, second = [await post(made.pk, **signature(made)) for _ in range(2)]
    assert (first[0], second[0]) == (202, 429)
    assert (await AsyncClient().get(f"/hooks/{made.pk}")).status_code == 405
