"""Operators see people's webhooks and channels without secrets."""

import pytest
from django.utils import timezone

from apps.automation import incoming
from apps.automation.models import IncomingWebhook
from apps.notifications.models import Channel, Notification
from apps.operators.doctor import connections
from apps.operators.doctor.examination import Patient, State
from parley.faces.cells import list_url, page_url
from tests.clients import telling

pytestmark = pytest.mark.django_db
SECRETS = {"url": "https://canary.example/secret", "secret": "whsec_canary", "push_keys": "canary"}


def test_pages_show_everything_but_the_secrets(admin_client, ada, echo):
    webhook = incoming.save(ada.principal, IncomingWebhook(name="Events", agent=echo, scheme="bearer"))
    session = telling.failed(ada, echo)
    channel = Channel.objects.create(user=ada, type="slack", **SECRETS)
    about = {"context": session.context, "task": session.task, "event_index": 4, "kind": "failed"}
    given_up = Notification.objects.create(
        channel=channel, state="failed", reason="nobody answered", due_at=timezone.now(), **about
    )
    for page, words in {
        list_url(IncomingWebhook): "Events",
        page_url(IncomingWebhook, webhook.pk): "Events",
        list_url(Channel): "ada@example.org",
        page_url(Channel, channel.pk): "ada@example.org",
        list_url(Notification): "nobody answered",
        page_url(Notification, given_up.pk): "nobody answered",
    }.items():
        content = admin_client.get(page).text
        assert words in content
        assert "canary" not in content
        assert webhook.secret not in content


def test_doctor_warns_of_mail_without_server(ada, settings):
    settings.EMAIL_URL, settings.ADMINS = "", []
    assert connections.letters(Patient(url="http://localhost")).state == State.OK
    Channel.objects.create(user=ada, type="mail")
    assert connections.letters(Patient(url="http://localhost")).state == State.WARNING
