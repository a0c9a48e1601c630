"""Who is told of what, and when it is due."""

import datetime

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import ApiKey, User
from apps.accounts.principals import READ, WRITE
from apps.engine import accept
from apps.features.notifications import choices, listening
from apps.features.notifications.models import Channel, Kind, Notification
from apps.features.sessions import commands
from apps.record.errors import InvalidFields
from apps.record.models import Context
from tests.members import member, signed_in
from tests.notifications.conftest import told
from tests.web import telling

pytestmark = pytest.mark.django_db
HOOK = "http://127.0.0.1:9/hook"
SLOT = {"name": "format"}


def test_each_kind_is_told_to_the_channels_that_want_it(ada, echo, add):
    everything, questions = add("webhook", url=HOOK), add("slack", url=HOOK, kinds=["asks"])
    ada = signed_in(ada)
    telling.finished(ada, echo)
    telling.failed(ada, echo)
    telling.asked(ada, echo, SLOT)
    assert sorted(told(everything)) == [("asks", "waiting"), ("ended", "waiting"), ("failed", "waiting")]
    assert told(questions) == [("asks", "waiting")]


def test_an_agent_can_differ_from_all_others(ada, echo, countdown, add):
    channel = add("webhook", url=HOOK, agents=[{"agent": "echo", "kinds": ["failed"]}])
    ada = signed_in(ada)
    for agent in (echo, countdown):
        telling.finished(ada, agent)
    [row] = Notification.objects.all()
    assert row.context == Context.objects.get(agent=countdown).pk
    telling.failed(ada, echo)
    assert sorted(told(channel)) == [("ended", "waiting"), ("failed", "waiting")]


def test_a_channel_that_is_off_and_a_person_without_one_are_told_nothing(ada, bob, echo, add):
    channel = add("webhook", url=HOOK)
    telling.finished(bob, echo)
    choices.change(ada.principal, channel, {"is_on": False})
    telling.finished(signed_in(ada), echo)
    assert not Notification.objects.exists()
    assert not signed_in(ada).is_notified


def test_the_first_channel_counts_for_sessions_that_there_were_before(ada, echo, add):
    before = telling.asked(ada, echo, SLOT)
    channel = add("webhook", url=HOOK)
    accept.accept(signed_in(ada).principal, echo, telling.said("PDF", taskId=str(before.task)))
    with telling.ledger.writing(before.context) as log:
        telling.status(log, before, "completed", "Done.")
    assert told(channel) == [("ended", "waiting")]


def test_of_a_shared_session_its_owner_alone_is_told(ada, bob, echo, add):
    hers, his = add("webhook", url=HOOK), add("webhook", bob, url=HOOK)
    ada = signed_in(ada)
    begun = telling.finished(ada, echo)
    talk = commands.share_session(ada.principal, begun.context, Context.Sharing.WORKSPACE)
    colleague = member(signed_in(bob), ada)
    sent = accept.accept(colleague, echo, telling.said("his", contextId=talk.name_for(colleague)))
    with telling.ledger.writing(sent.context) as log:
        telling.work(log, sent)
        telling.status(log, sent, "failed", "It broke.")
    assert sorted(told(hers)) == [("ended", "waiting"), ("failed", "waiting")]
    assert told(his) == []


def test_a_channel_of_a_key_hears_of_the_keys_workspace_alone(ada, bob, echo):
    member(ada, bob)
    key, _ = ApiKey.issue(ada, "k", scopes=[READ, WRITE], workspace_id=ada.personal_workspace.pk)
    channel, _ = choices.add(key.principal, {"type": "webhook", "url": HOOK})
    ada = signed_in(ada)
    for workspace in (ada.personal_workspace, bob.personal_workspace):
        sent = accept.accept(ada.principal_in(workspace.pk), echo, telling.said("go"))
        with telling.ledger.writing(sent.context) as log:
            telling.work(log, sent)
            telling.status(log, sent, "failed", "It broke.")
    [row] = Notification.objects.filter(channel=channel)
    assert Context.objects.get(pk=row.context).workspace == ada.personal_workspace


def test_a_send_costs_no_more_for_a_person_without_channels(ada, bob, echo, add):
    def queries(user):
        with CaptureQueriesContext(connection) as made:
            accept.accept(user.principal, echo, telling.said("hi"))
        return len(made)

    ada, bob = signed_in(ada), signed_in(bob)
    assert [ada.membership, bob.membership]
    usual = queries(ada)
    add("webhook", bob, url=HOOK)
    notified = signed_in(bob)
    assert notified.membership
    assert queries(notified) <= usual + 2, "the transaction's own statements"
    with CaptureQueriesContext(connection) as made:
        telling.finished(ada, echo)
    assert not any("notifications_" in one["sql"] for one in made)


class TestWhenItIsDue:
    NOW = datetime.datetime(2026, 3, 2, 10, 7, tzinfo=datetime.UTC)

    def due(self, kind=Kind.ENDED, zone="", **values):
        channel = Channel(user=User(time_zone=zone), **{"type": "mail", **values})
        return listening.due_at(channel, kind, self.NOW)

    def test_programs_at_once_and_people_after_the_wait(self, settings):
        settings.NOTIFY_WAIT_SECONDS = 60.0
        assert self.due(type="webhook") == self.NOW
        for type_ in ("mail", "push", "slack"):
            assert self.due(type=type_) == self.NOW + datetime.timedelta(seconds=60)

    @pytest.mark.parametrize(
        ("digest", "zone", "due"),
        [
            ("quarter", "", "2026-03-02T10:15Z"),
            ("hour", "", "2026-03-02T11:00Z"),
            ("day", "", "2026-03-03T08:00Z"),
            ("day", "America/Los_Angeles", "2026-03-02T16:00Z"),
        ],
    )
    def test_letters_in_the_window_that_the_person_chose(self, digest, zone, due):
        assert self.due(digest=digest, zone=zone) == datetime.datetime.fromisoformat(due)

    def test_questions_do_not_wait_for_the_window_unless_they_shall(self):
        soon = self.NOW + datetime.timedelta(minutes=5)
        assert self.due(Kind.ASKS, digest="day") < soon
        assert self.due(Kind.ASKS, digest="day", questions_at_once=False) > soon


class TestWhatIsRefused:
    def test_a_second_channel_for_mail(self, add, letters):
        add("mail")
        with pytest.raises(InvalidFields):
            add("mail")

    @pytest.mark.parametrize(
        "values",
        [
            {"type": "webhook", "url": "http://example.org/"},
            {"type": "webhook", "url": "https://169.254.169.254/"},
            {"type": "slack", "url": ""},
            {"type": "mail"},  # there is no mail server
            {"type": "push", "url": HOOK, "keys": {"p256dh": "AA", "auth": "AA"}},
            {"type": "webhook", "url": HOOK, "agents": [{"agent": "nobody", "kinds": []}]},
        ],
    )
    def test_a_wrong_channel(self, ada, values):
        with pytest.raises(InvalidFields):
            choices.add(ada.principal, values)
        assert not Channel.objects.exists()

    def test_more_channels_than_one_person_may_have(self, ada, add, monkeypatch):
        monkeypatch.setattr(choices, "MOST_CHANNELS", 1)
        add("webhook", url=HOOK)
        with pytest.raises(choices.TooManyChannels):
            add("webhook", url=HOOK)
