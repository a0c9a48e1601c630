"""The settings page, and the link that stops letters."""

import pytest
from django.test import Client

import outbound
from apps.features.notifications import choices, wording
from apps.features.notifications.models import Channel, WebhookSigning
from tests.members import signed_in
from tests.web import telling

pytestmark = pytest.mark.django_db
PAGE = "/settings/notifications"
HOOK = "https://192.0.43.8/hook"  # it is not called


@pytest.fixture
def browser(ada):
    client = Client()
    client.force_login(ada)
    return client


def address(channel, act=""):
    return f"{PAGE}/channels/{channel.pk}{act}"


def test_a_webhook_is_added_with_a_secret_that_is_shown_once(ada, browser):
    shown = browser.post(PAGE, {"save": "channel", "type": "webhook", "name": "Mine", "url": HOOK})
    channel = Channel.objects.get()
    assert channel.secret in shown.text
    for page in (PAGE, address(channel)):
        text = browser.get(page).text
        assert channel.secret not in text
        assert HOOK not in text
    rotated = browser.post(address(channel, "/rotate")).text
    assert Channel.objects.get().secret in rotated
    assert browser.post(f"{PAGE}/secret").status_code == 200
    assert WebhookSigning.objects.get().user == ada


@pytest.mark.parametrize(
    "wrong", [{"url": ""}, {"url": "http://192.0.43.8/"}, {"url": "https://10.0.0.1/"}, {"type": "mail"}]
)
def test_a_wrong_address_is_refused_where_it_was_typed(browser, wrong):
    answer = browser.post(PAGE, {"save": "channel", "type": "slack", "url": HOOK, **wrong})
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text
    assert not Channel.objects.exists()


def test_mail_is_offered_where_there_is_a_mail_server(ada, browser, settings):
    assert "Notify me by e-mail" not in browser.get(PAGE).text
    browser.post(PAGE, {"save": "mail"})
    assert not Channel.objects.exists()
    settings.EMAIL_URL = "smtp://mail.example:25"
    assert "Notify me by e-mail" in browser.get(PAGE).text
    browser.post(PAGE, {"save": "mail"})
    assert Channel.objects.get().type == "mail"
    assert signed_in(ada).is_notified


def test_kinds_agents_and_windows_are_chosen_for_each_channel(ada, echo, browser, add, letters):
    channel = add("mail")
    values = {"is_on": "on", "kinds": ["asks"], "digest": "hour", "other_agent": "echo", "other_kinds": ["failed"]}
    assert browser.post(address(channel), values).status_code == 302
    channel.refresh_from_db()
    assert (channel.kinds, channel.digest, channel.questions_at_once) == (["asks"], "hour", False)
    assert channel.agents == {str(echo.pk): ["failed"]}
    assert browser.post(address(channel), values | {"other_agent": "nobody"}).status_code == 422
    usual = {"is_on": "on", "kinds": ["asks"], "digest": "hour", "usual-echo": "on"}
    browser.post(address(channel), usual)
    assert Channel.objects.get().agents == {}


def test_a_channel_is_tested_and_removed(ada, browser, add, letters):
    channel = add("mail")
    assert "the test is sent" in browser.post(address(channel, "/test"), follow=True).text
    assert len(letters) == 1
    browser.post(address(channel, "/remove"))
    assert not Channel.objects.exists()
    assert not signed_in(ada).is_notified


def test_a_channel_of_another_person_is_not_found(bob, browser, add):
    theirs = add("webhook", bob, url=HOOK)
    for act in ("", "/test", "/rotate", "/remove"):
        assert browser.post(address(theirs, act)).status_code == 404
    assert Channel.objects.exists()


def test_what_was_sent_is_listed(ada, echo, browser, add):
    add("webhook", url=HOOK)
    session = telling.failed(signed_in(ada), echo).context
    assert f"/sessions/{session}" in browser.get(PAGE).text


class TestStopping:
    """Without signing in, from a letter."""

    @pytest.fixture
    def channel(self, add, letters):
        return add("mail", agents=[])

    def link(self, channel, kind):
        return wording.stop_link(channel, kind).partition("//")[2].partition("/")[2]

    def test_a_post_by_a_mail_program_switches_the_kind_off_and_a_look_does_not(self, channel):
        program = Client(enforce_csrf_checks=True)
        link = f"/{self.link(channel, 'asks')}"
        assert program.get(link).status_code == 200
        assert "asks" in Channel.objects.get().kinds
        assert program.post(link, {"List-Unsubscribe": "One-Click"}).status_code == 200
        assert Channel.objects.get().kinds == ["ended", "failed"]

    def test_the_link_of_a_letter_about_several_kinds_switches_mail_off(self, ada, channel):
        Client().post(f"/{self.link(channel, wording.ALL)}")
        assert not Channel.objects.get().is_on
        assert not signed_in(ada).is_notified

    def test_an_old_and_a_forged_link_change_nothing(self, channel):
        link = self.link(channel, "asks")
        forged = Client().post(f"/{link[:-2]}xx")
        choices.remove(channel)
        old = Client().post(f"/{link}")
        assert (forged.status_code, old.status_code) == (404, 404)
        assert "This link no longer works" in forged.text
        assert "This link no longer works" in old.text


def test_the_address_is_vetted_again_when_it_is_called(browser, add):
    channel = add("webhook", url="http://127.0.0.1:9/")
    outbound.configure([])
    text = browser.post(address(channel, "/test"), follow=True).text
    assert "the test failed" in text
