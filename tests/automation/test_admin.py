"""Operators pause and run people's schedules and webhooks, and see their channels without addresses."""

import pytest
from django.utils import timezone

from apps.automation import incoming, schedules
from apps.automation.models import IncomingWebhook, Schedule, ScheduledRun
from apps.notifications.models import Channel, Notification
from apps.operators.doctor import connections
from apps.operators.doctor.examination import Patient, State
from parley.faces.cells import list_url, page_url
from tests.clients import telling
from tests.notifications.conftest import LONG_AGO
from tests.operators.test_actions import act, press
from tests.work.hand import published_keys

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def made(ada, echo):
    about = {"name": "Nightly", "agent": echo, "text": "Hello", "kind": "cron", "cron": "0 3 * * *"}
    return schedules.save(ada.principal, Schedule(**about))


def test_schedules_are_paused_resumed_and_run(admin_client, made):
    press(admin_client, Schedule, "pause", made)
    assert Schedule.objects.get().paused_because == "An operator paused it."
    press(admin_client, Schedule, "resume", made)
    assert Schedule.objects.get().paused_at is None
    press(admin_client, Schedule, "run", made)
    run = ScheduledRun.objects.get()
    assert run.task.owner == made.owner
    for address in (page_url(Schedule, made.pk), list_url(ScheduledRun), page_url(ScheduledRun, run.pk)):
        assert admin_client.get(address).status_code == 200


@pytest.fixture
def webhook(ada, echo):
    return incoming.save(ada.principal, IncomingWebhook(name="Events", agent=echo, scheme="bearer"))


def test_webhooks_are_paused_without_showing_secrets(admin_client, webhook):
    press(admin_client, IncomingWebhook, "pause", webhook)
    assert IncomingWebhook.objects.get().paused_at
    act(admin_client, IncomingWebhook, "resume_selected", webhook)
    assert IncomingWebhook.objects.get().paused_at is None
    assert webhook.secret not in admin_client.get(page_url(IncomingWebhook, webhook.pk)).content.decode()
    assert admin_client.get(list_url(IncomingWebhook)).status_code == 200


SECRETS = {"url": "https://canary.example/secret", "secret": "whsec_canary", "push_keys": "canary"}


@pytest.fixture
def published(monkeypatch):
    return published_keys(monkeypatch)


@pytest.fixture
def given_up(ada, echo, published):
    session = telling.failed(ada, echo)
    channel = Channel.objects.create(user=ada, type="slack", **SECRETS)
    about = {"context": session.context, "task": session.task, "event_index": 4, "kind": "failed"}
    return Notification.objects.create(
        channel=channel, state="failed", reason="nobody answered", due_at=timezone.now(), queued_at=LONG_AGO, **about
    )


def test_pages_show_everything_but_the_secrets(admin_client, given_up):
    pages = {
        list_url(Channel): "ada@example.org",
        page_url(Channel, given_up.channel_id): "ada@example.org",
        list_url(Notification): "nobody answered",
        page_url(Notification, given_up.pk): "nobody answered",
    }
    for page, words in pages.items():
        content = admin_client.get(page).text
        assert words in content
        assert "canary" not in content


def test_only_given_up_notifications_are_sent_again(admin_client, given_up, published):
    press(admin_client, Notification, "send_again", given_up)
    assert Notification.objects.get().state == "waiting"
    assert published == [given_up.channel_id]
    Notification.objects.update(state="sent")
    act(admin_client, Notification, "send_again_selected", given_up)
    assert Notification.objects.get().state == "sent"


def test_doctor_warns_of_mail_without_server(ada, settings):
    settings.EMAIL_URL, settings.ADMINS = "", []
    assert connections.letters(Patient(url="http://localhost")).state == State.OK
    Channel.objects.create(user=ada, type="mail")
    assert connections.letters(Patient(url="http://localhost")).state == State.WARNING
