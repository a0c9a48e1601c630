"""Operators pause people's incoming webhooks and send events again."""

import pytest

from apps.automation import incoming
from apps.automation.models import IncomingEvent, IncomingWebhook
from console.cells import list_url, page_url
from tests.operators.test_actions import act, press

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def made(ada, echo):
    return incoming.save(ada.principal, IncomingWebhook(name="Events", agent=echo, scheme="bearer"))


def test_one_is_paused_and_resumed_and_its_secret_is_not_shown(admin_client, made):
    press(admin_client, IncomingWebhook, "pause", made)
    assert IncomingWebhook.objects.get().paused_at
    act(admin_client, IncomingWebhook, "resume_selected", made)
    assert IncomingWebhook.objects.get().paused_at is None
    assert made.secret not in admin_client.get(page_url(IncomingWebhook, made.pk)).content.decode()
    assert admin_client.get(list_url(IncomingWebhook)).status_code == 200


def test_an_event_is_sent_again(admin_client, made):
    event = incoming.receive(made, {}, {"a": 1})
    press(admin_client, IncomingEvent, "again", event)
    assert IncomingEvent.objects.get(is_repeat=True).repeats == event
    for address in (list_url(IncomingEvent), page_url(IncomingEvent, event.pk)):
        assert admin_client.get(address).status_code == 200
