"""A person's incoming webhooks in the browser."""

import json
import uuid

import pytest

from apps.automation import incoming
from apps.automation.models import IncomingEvent, IncomingWebhook

pytestmark = pytest.mark.django_db(transaction=True)
FIELDS = {"name": "Pull requests", "agent": "echo", "scheme": "github", "text": "Look at {{ body.title }}"}


@pytest.fixture
def made(ada, echo):
    return incoming.save(ada.principal, IncomingWebhook(name="Events", agent=echo, scheme="bearer", text="hello"))


@pytest.fixture
def event(made):
    return incoming.receive(made, {"Idempotency-Key": "e1"}, {"title": "<b>bold</b>"})


def test_a_webhook_is_made_and_its_secret_is_shown_once(ada_browser, echo):
    shown = ada_browser.post("/webhooks/new", FIELDS)
    webhook = IncomingWebhook.objects.get()
    assert (webhook.scheme, webhook.text, webhook.agent) == ("github", FIELDS["text"], echo)
    assert webhook.secret in shown.content.decode()
    later = ada_browser.get(f"/webhooks/{webhook.pk}")
    assert webhook.secret not in later.content.decode()
    assert f"/hooks/{webhook.pk}" in later.content.decode()
    assert list(ada_browser.get("/webhooks").context["rows"]) == [webhook]


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"text": "{{ body."}, "text"),
        ({"only_if": "=="}, "only_if"),
        ({"inputs": '{"a": "{% x %}"}'}, "inputs"),
        ({"inputs": "[1]"}, "inputs"),
        ({"inputs": '{"a": NaN}'}, "inputs"),
        ({"inputs": '{"a": "\\u0000"}'}, "inputs"),
        ({"inputs": "[" * 3_000}, "inputs"),
        ({"agent": "absent"}, "agent"),
        ({"scheme": "other"}, "scheme"),
    ],
)
def test_what_is_wrong_is_said_at_its_field_and_nothing_is_saved(ada_browser, echo, changed, field):
    assert list(ada_browser.post("/webhooks/new", FIELDS | changed).context["form"].errors) == [field]
    assert not IncomingWebhook.objects.exists()


def test_the_form_shows_what_a_sample_would_start(ada_browser, echo):
    def trial(**fields):
        return ada_browser.post("/webhooks/trial", {**FIELDS, "sample": '{"title": "<i>"}', **fields}).context

    assert trial()["filled"].text == "Look at <i>"
    assert trial(only_if="event.type == 'a'", sample_type="a")["filled"].text
    assert trial(only_if="event.type == 'a'")["filled"].ignored
    for wrong in ({"sample": "{"}, {"text": "{{ body.absent }}"}, {"text": "{{"}, {"agent": ""}, {"sample": "NaN"}):
        assert trial(**wrong)["problems"]
    assert not IncomingEvent.objects.exists()


def test_it_is_edited_paused_resumed_given_a_new_secret_and_deleted(ada_browser, made):
    address, before = f"/webhooks/{made.pk}", made.secret
    ada_browser.post(f"{address}/edit", {**FIELDS, "name": "Renamed"})
    ada_browser.post(f"{address}/act", {"do": "pause"})
    made.refresh_from_db()
    assert (made.name, made.scheme, bool(made.paused_at), made.secret) == ("Renamed", "bearer", True, before)
    ada_browser.post(f"{address}/act", {"do": "resume"})
    shown = ada_browser.post(f"{address}/act", {"do": "secret", "secret": "a-secret-of-the-sender"})
    made.refresh_from_db()
    assert (made.paused_at, made.secret, made.old_secret) == (None, "a-secret-of-the-sender", before)
    assert made.secret in shown.content.decode()
    ada_browser.post(f"{address}/act", {"do": "secret", "secret": "short"})
    made.refresh_from_db()
    assert made.secret == "a-secret-of-the-sender"
    ada_browser.post(f"{address}/act", {"do": "delete"})
    assert not IncomingWebhook.objects.exists()


def test_events_are_shown_as_text_and_sent_again(ada_browser, made, event):
    assert "<b>bold</b>" not in ada_browser.get(f"/webhooks/{made.pk}").content.decode()
    ada_browser.post(f"/webhooks/{made.pk}/events/{event.pk}")
    assert IncomingEvent.objects.get(is_repeat=True).repeats == event


def test_a_deep_body_does_not_make_a_large_page(ada_browser, made):
    incoming.receive(made, {}, json.loads("[" * 60 + "0," * 20_000 + "0" + "]" * 60))
    for address in ("", "/edit"):
        assert len(ada_browser.get(f"/webhooks/{made.pk}{address}").content) < 200_000


def test_somebody_elses_is_not_found(bob_browser, made, event):
    for key in (made.pk, uuid.uuid4()):
        answers = [bob_browser.get(f"/webhooks/{key}{more}") for more in ("", "/edit")]
        answers += [bob_browser.post(f"/webhooks/{key}{more}") for more in ("/act", "/edit", f"/events/{event.pk}")]
        assert [one.status_code for one in answers] == [404] * 5
    assert IncomingEvent.objects.count() == 1
