"""Events of other systems start work, once, by templates."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest
from django.db.models import F

from apps.agents.models import Agent
from apps.automation import incoming, targets
from apps.automation.models import IncomingEvent, IncomingWebhook
from apps.plans.models import Plan
from apps.record.errors import InvalidFields, NotAccepting
from apps.record.models import Context, Message, Task
from parley.db import sql
from tests.plans.conftest import agents, plan  # noqa: F401 fixtures

pytestmark = pytest.mark.django_db
State = IncomingEvent.State
Make = Callable[..., IncomingWebhook]
BODY = {"action": "opened", "number": 7, "pull_request": {"title": "Mend <it>"}}


@pytest.fixture
def made(ada, echo):
    def make(**fields: Any) -> IncomingWebhook:
        usual: dict[str, Any] = {"agent": echo, "name": "Events", "scheme": "bearer"}
        return incoming.save(ada.principal, IncomingWebhook(**usual | fields))

    return make


def receive(webhook: IncomingWebhook, body: Any = BODY, **headers: str) -> IncomingEvent:
    """An event, and its job."""
    event = incoming.receive(webhook, {"Idempotency-Key": "e1", **headers}, body)
    incoming.start_events_of(webhook.pk)
    event.refresh_from_db()
    return event


def said(event: IncomingEvent) -> list[Any]:
    assert event.state == State.STARTED, event.reason
    message = Message.objects.get(task=event.task, role="user")
    return [part.get("text", part.get("data")) for part in message.parts]


def started() -> int:
    return sum(incoming.start_events_of(key) for key in list(incoming.due_webhooks()))


@pytest.mark.services("one event is one row by the database's constraint")
def test_repeated_event_starts_one_task_of_the_owner(made, ada):
    webhook = made(text="Look at {{ body.pull_request.title }} ({{ event.id }})")
    first, second = receive(webhook), receive(webhook, {"another": "body"})
    assert first == second
    assert said(first) == ["Look at Mend <it> (e1)"]
    assert (Task.objects.get().owner, Context.objects.get().is_temporary) == (ada, True)
    assert receive(webhook, **{"Idempotency-Key": "e2"}) != first


def test_event_of_a_killed_job_starts_once(made):
    webhook = made(text="number {{ body.number }}")
    event = incoming.receive(webhook, {"Idempotency-Key": "e1"}, BODY)
    IncomingEvent.objects.update(received_at=sql.database_time() - datetime.timedelta(minutes=1))
    found = IncomingEvent.objects.select_related("webhook__owner", "webhook__agent").get()
    assert incoming._fill_row(found), "and then it is killed, before it starts"
    IncomingWebhook.objects.update(text="another text")
    assert [started(), started()] == [1, 0]
    event.refresh_from_db()
    assert said(event) == ["number 7"]
    IncomingEvent.objects.update(state=State.WAITING)
    incoming.start_events_of(webhook.pk)
    assert Task.objects.count() == 1, "a job that was killed after it started work starts no other"


def test_agent_gets_event_as_data_without_templates(made):
    assert said(receive(made(), **{"X-Signature": "secret"})) == [{"body": BODY}]


def test_single_expression_keeps_its_type(made):
    event = receive(made(inputs={"n": "{{ body.number }}", "all": ["{{ body }}", "n={{ body.number }}"], "one": 1}))
    assert said(event) == [{"n": 7, "all": [BODY, "n=7"], "one": 1}]


def test_plan_gets_inputs_or_event_fails(made, plan):  # noqa: F811
    inputs = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}
    plan({"one": {"agent": "echo", "message": "{{ inputs.city }}"}}, inputs=inputs)
    webhook = made(agent=Plan.objects.get(slug="plan"), inputs={"city": "{{ body.city }}"})
    assert receive(webhook, {"city": "Oslo"}).state == State.STARTED
    failed = receive(webhook, {"city": 5}, **{"Idempotency-Key": "e2"})
    assert failed.state == State.FAILED
    assert failed.reason


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"only_if": "body.action == 'opened'"}, State.STARTED),
        ({"only_if": "body.action == 'closed'"}, State.IGNORED),
        ({"only_if": "body.absent.deep"}, State.FAILED),
        ({"text": "{{ body.absent }}"}, State.FAILED),
        ({"inputs": {"a": "{{ 'nan' | float }}"}}, State.FAILED),
    ],
)
def test_conditions_and_templates_decide_and_say_why(made, fields, state):
    event = receive(made(**fields), BODY | {"text": "x" * 3_000})
    assert event.state == state, event.reason
    assert bool(event.reason) == (state != State.STARTED)
    assert Task.objects.count() == (state == State.STARTED)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"text": "{{ body."}, "text"),
        ({"only_if": "body and"}, "onlyIf"),
        ({"inputs": {"a": ["{% include 'x' %}"]}}, "inputs.a.0"),
        ({"inputs": {"a": "x" * 70_000}}, "inputs"),
        ({"agent": None}, "agent"),
        ({"scheme": "hmac"}, "signature.header"),
        ({"signature": {"header": "X-Sign"}}, "signature"),
    ],
)
def test_wrong_webhooks_are_refused_by_field(made, fields, path):
    with pytest.raises(InvalidFields) as refused:
        made(**fields)
    assert refused.value.violations[0][0] == path
    assert not IncomingWebhook.objects.exists()


def test_events_of_paused_webhook_can_be_resent(made):
    webhook = made(text="{{ body.absent }}")
    incoming.pause(webhook, webhook.owner.principal)
    webhook.refresh_from_db()
    event = receive(webhook)
    assert (event.state, Task.objects.count()) == (State.IGNORED, 0)
    webhook.text = "now {{ body.number }}"
    incoming.save(webhook.owner.principal, webhook)
    for _ in range(2):
        again = incoming.send_again(event)
        incoming.start_events_of(webhook.pk)
        again.refresh_from_db()
        assert said(again) == ["now 7"]
        assert again.repeats == event
    assert Task.objects.count() == 2


def _disable_agent(webhook: IncomingWebhook) -> None:
    Agent.objects.update(is_enabled=False)


def _delete_agent(webhook: IncomingWebhook) -> None:
    Agent.objects.filter(pk=webhook.agent_id).delete()


@pytest.mark.parametrize("lose", [_disable_agent, _delete_agent])
def test_lost_agent_starts_nothing(made, lose):
    webhook = made()
    lose(webhook)
    webhook.refresh_from_db()
    event = receive(webhook)
    assert (event.state, Task.objects.count()) == (State.FAILED, 0)


def test_events_start_in_order_until_limits_stop_one(made, monkeypatch):
    webhook = made(text="{{ event.id }}")
    for name in ("e1", "e2", "e3"):
        incoming.receive(webhook, {"Idempotency-Key": name}, BODY)
    asked: list[str] = []
    start = targets.start

    def limited(*args: Any, **given: Any) -> Any:
        asked.append(given["text"])
        if given["text"] == "e2":
            raise NotAccepting
        return start(*args, **given)

    monkeypatch.setattr(targets, "start", limited)
    assert incoming.start_events_of(webhook.pk) == 1
    assert asked == ["e1", "e2"]


def test_pausing_stops_what_waits(made):
    webhook = made()
    event = incoming.receive(webhook, {}, BODY)
    incoming.pause(webhook, webhook.owner.principal)
    assert not incoming.start_events_of(webhook.pk)
    event.refresh_from_db()
    assert (event.state, Task.objects.count()) == (State.IGNORED, 0)


def test_secret_replaced_twice_keeps_its_day(made):
    webhook = made()
    before = webhook.secret
    for _ in range(2):
        incoming.replace_secret(webhook)
    assert webhook.old_secret == before


def test_limited_events_wait_and_fail_after_an_hour(made, settings):
    settings.ACTS_PER_MINUTE = 0
    event = receive(made())
    assert (event.state, started()) == (State.WAITING, 0)
    IncomingEvent.objects.update(received_at=sql.database_time() - datetime.timedelta(hours=2))
    assert started() == 0
    event.refresh_from_db()
    assert event.state == State.FAILED


def test_old_events_are_deleted_unless_waiting(made, settings):
    settings.INCOMING_EVENTS_KEPT = 2
    webhook = made()
    events = [receive(webhook, **{"Idempotency-Key": str(number)}) for number in range(4)]
    waits = incoming.receive(webhook, {}, BODY)
    old = IncomingEvent.objects.filter(pk__in=(events[3].pk, waits.pk))
    old.update(received_at=sql.database_time() - datetime.timedelta(days=31))
    assert incoming.forget_events() == 2
    assert set(IncomingEvent.objects.all()) == {waits, events[1], events[2]}
    assert Task.objects.count() == 4


def test_deliveries_that_may_come_again_are_not_deleted(made, settings):
    settings.INCOMING_EVENTS_KEPT = 1
    webhook = made(scheme="slack")
    for number in range(3):
        receive(webhook, {"event_id": str(number)})
    assert incoming.forget_events() == 0
    IncomingEvent.objects.update(received_at=F("received_at") - incoming.SIGNATURES_VALID)
    assert incoming.forget_events() == 2


def test_secrets_of_the_request_are_not_kept():
    kept = incoming.kept_headers({"Authorization": "Bearer x", "Cookie": "x", "X-Hub-Signature-256": "x", "A": "b"})
    assert kept == {"a": "b"}
