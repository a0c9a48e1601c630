"""Who is told of what, and when it is due."""

import datetime

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import ApiKey, User
from apps.accounts.principals import READ, WRITE
from apps.conversations.sessions import commands
from apps.engine import accept
from apps.notifications import choices, listening, wording
from apps.notifications.models import Channel, Kind, Notification, WebhookSigning
from apps.notifications.sending import CHANNELS
from apps.record.errors import InvalidFields
from apps.record.models import Context
from parley import outbound
from tests.clients import telling
from tests.members import member, signed_in
from tests.notifications.conftest import told

pytestmark = pytest.mark.django_db
HOOK = "http://127.0.0.1:9/hook"
SLOT = {"name": "format"}


def test_channels_hear_of_what_they_chose(ada, bob, echo, countdown, add):
    everything, questions = add("webhook", url=HOOK), add("slack", url=HOOK, kinds=["asks"])
    differing, off = add("webhook", url=HOOK, agents={str(countdown.pk): ["failed"]}), add("webhook", url=HOOK)
    off.is_on = False
    CHANNELS.store(ada.principal, off)
    telling.finished(bob, echo)
    ada = signed_in(ada)
    telling.finished(ada, countdown)
    telling.failed(ada, countdown)
    telling.asked(ada, echo, SLOT)
    assert sorted(told(everything)) == [("asks", "waiting"), ("ended", "waiting"), ("failed", "waiting")]
    assert told(questions) == [("asks", "waiting")]
    assert sorted(told(differing)) == [("asks", "waiting"), ("failed", "waiting")]
    assert told(off) == []
    assert not Notification.objects.exclude(channel__user=ada).exists()
    assert not signed_in(bob).is_notified


def test_a_first_channel_counts_for_older_sessions(ada, echo, add):
    before = telling.asked(ada, echo, SLOT)
    channel = add("webhook", url=HOOK)
    accept.accept(signed_in(ada).principal, echo, telling.said("PDF", taskId=str(before.task)))
    with telling.ledger.writing(before.context) as log:
        telling.status(log, before, "completed", "Done.")
    assert told(channel) == [("ended", "waiting")]


def fail(principal, agent, **more):
    sent = accept.accept(principal, agent, telling.said("go", **more))
    with telling.ledger.writing(sent.context) as log:
        telling.work(log, sent)
        telling.status(log, sent, "failed", "It broke.")
    return sent


def test_only_owners_of_shared_sessions_are_told(ada, bob, echo, add):
    hers, his = add("webhook", url=HOOK), add("webhook", bob, url=HOOK)
    ada = signed_in(ada)
    begun = telling.finished(ada, echo)
    talk = commands.share_session(ada.principal, begun.context, Context.Sharing.WORKSPACE)
    colleague = member(signed_in(bob), ada)
    fail(colleague, echo, contextId=talk.name_for(colleague))
    assert sorted(told(hers)) == [("ended", "waiting"), ("failed", "waiting")]
    assert told(his) == []


def test_channels_of_keys_hear_of_the_keys_workspace(ada, bob, echo):
    member(ada, bob)
    key, _ = ApiKey.issue(ada, "k", scopes=[READ, WRITE], workspace_id=ada.personal_workspace.pk)
    channel = CHANNELS.store(key.principal, Channel(type="webhook", url=HOOK))
    ada = signed_in(ada)
    for workspace in (ada.personal_workspace, bob.personal_workspace):
        fail(ada.principal_in(workspace.pk), echo)
    [row] = Notification.objects.filter(channel=channel)
    assert Context.objects.get(pk=row.context).workspace == ada.personal_workspace


def test_people_without_channels_cost_no_query(ada, echo):
    ada = signed_in(ada)
    with CaptureQueriesContext(connection) as made:
        telling.finished(ada, echo)
    assert not any("notifications_" in one["sql"] for one in made)


NOW = datetime.datetime(2026, 3, 2, 10, 7, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("values", "due"),
    [
        ({"type": "webhook"}, "2026-03-02T10:07Z"),
        ({"type": "slack"}, "2026-03-02T10:08Z"),
        ({"digest": "quarter"}, "2026-03-02T10:15Z"),
        ({"digest": "hour"}, "2026-03-02T11:00Z"),
        ({"digest": "day"}, "2026-03-03T08:00Z"),
        ({"digest": "day", "zone": "America/Los_Angeles"}, "2026-03-02T16:00Z"),
        ({"digest": "day", "kind": Kind.ASKS}, "2026-03-02T10:08Z"),
        ({"digest": "day", "kind": Kind.ASKS, "questions_at_once": False}, "2026-03-03T08:00Z"),
    ],
    ids=str,
)
def test_letters_wait_and_programs_do_not(settings, values, due):
    settings.NOTIFY_WAIT_SECONDS = 60.0
    kind, zone = values.get("kind", Kind.ENDED), values.get("zone", "")
    chosen = {name: value for name, value in values.items() if name not in ("kind", "zone")}
    channel = Channel(user=User(time_zone=zone), **{"type": "mail", **chosen})
    assert listening.due_at(channel, kind, NOW) == datetime.datetime.fromisoformat(due)


@pytest.mark.parametrize(
    "values",
    [
        {"type": "webhook", "url": "http://example.org/"},
        {"type": "webhook", "url": "https://169.254.169.254/"},
        {"type": "slack", "url": ""},
        {"type": "mail"},  # there is no mail server
        {"type": "push", "url": HOOK, "push_keys": '{"p256dh": "AA", "auth": "AA"}'},
    ],
)
def test_wrong_channels_are_refused(ada, values):
    with pytest.raises(InvalidFields):
        CHANNELS.store(ada.principal, Channel(**values))
    assert not Channel.objects.exists()


def test_a_person_has_one_mail_and_few_channels(add, letters, monkeypatch):
    add("mail")
    with pytest.raises(InvalidFields):
        add("mail")
    monkeypatch.setattr(choices, "MOST_CHANNELS", 1)
    with pytest.raises(choices.TooManyChannels):
        add("webhook", url=HOOK)


# The settings page, and the link that stops letters

PAGE = "/settings/notifications"


@pytest.fixture
def browser(ada):
    client = Client()
    client.force_login(ada)
    return client


def address(channel, act=""):
    return f"{PAGE}/channels/{channel.pk}{act}"


def test_a_webhooks_secret_is_shown_once(ada, echo, browser, add, letters):
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
    session = telling.failed(signed_in(ada), echo).context
    assert f"/sessions/{session}" in browser.get(PAGE).text, "what was sent is listed"
    told = browser.post(address(add("mail"), "/rotate"), follow=True)
    assert "Only a webhook has a secret." in told.text


def test_each_channel_has_kinds_agents_and_windows(ada, echo, browser, add, letters):
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
    hook = add("webhook", url="http://127.0.0.1:9/")
    outbound.configure([])
    assert "the test failed" in browser.post(address(hook, "/test"), follow=True).text, "it is vetted again"
    hook.delete()
    channel = add("mail")
    assert "the test is sent" in browser.post(address(channel, "/test"), follow=True).text
    assert len(letters) == 1
    assert "You cannot undo this." in browser.get(address(channel, "/delete")).text
    browser.post(address(channel, "/delete"))
    assert not Channel.objects.exists()
    assert not signed_in(ada).is_notified


def test_letters_have_links_that_stop_them(ada, add, letters):
    """Without signing in; a look changes nothing."""
    channel, program = add("mail"), Client(enforce_csrf_checks=True)

    def link(kind):
        return "/" + wording.stop_link(channel, kind).partition("//")[2].partition("/")[2]

    assert program.get(link("asks")).status_code == 200
    assert "asks" in Channel.objects.get().kinds
    assert program.post(link("asks"), {"List-Unsubscribe": "One-Click"}).status_code == 200
    assert Channel.objects.get().kinds == ["ended", "failed"]
    program.post(link(wording.ALL))
    assert not Channel.objects.get().is_on
    assert not signed_in(ada).is_notified
    forged, old = f"{link('asks')[:-2]}xx", link("asks")
    channel.delete()
    for wrong in (forged, old):
        answer = program.post(wrong)
        assert answer.status_code == 404
        assert "This link no longer works" in answer.text
