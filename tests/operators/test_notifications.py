"""Operators see people's channels without addresses, and send what was given up again."""

import pytest
from django.utils import timezone

from apps.features.notifications import sending
from apps.features.notifications.models import Channel, Notification
from apps.operators.doctor import connections
from apps.operators.doctor.examination import Patient, State
from console.cells import list_url, page_url
from tests.notifications.conftest import LONG_AGO
from tests.operators.test_actions import act, press
from tests.web import telling

pytestmark = pytest.mark.django_db(transaction=True)
SECRETS = {"url": "https://canary.example/secret", "secret": "whsec_canary", "push_keys": "canary"}


@pytest.fixture(autouse=True)
def published(monkeypatch):
    named = []
    monkeypatch.setattr(sending, "publish_channels", named.extend)
    return named


@pytest.fixture
def given_up(ada, echo):
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


def test_what_was_given_up_is_sent_again_and_what_was_sent_is_not(admin_client, given_up, published):
    press(admin_client, Notification, "send_again", given_up)
    assert Notification.objects.get().state == "waiting"
    assert published == [given_up.channel_id]
    Notification.objects.update(state="sent")
    act(admin_client, Notification, "send_selected_again", given_up)
    assert Notification.objects.get().state == "sent"


def test_the_doctor_warns_of_people_with_mail_and_no_mail_server(ada, settings):
    settings.EMAIL_URL, settings.ADMINS = "", []
    assert connections.letters(Patient(url="http://localhost")).state == State.OK
    Channel.objects.create(user=ada, type="mail")
    assert connections.letters(Patient(url="http://localhost")).state == State.WARNING
