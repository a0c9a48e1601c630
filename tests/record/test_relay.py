"""Notifications reach the processes that follow, at once if they settle, otherwise the newest after a wait."""

import asyncio
import queue
import uuid
from contextlib import aclosing

import pytest
from django.conf import settings

from apps.record.reading import feed, notifications
from apps.record.reading.notifications import REACHED, Relay, channel_of
from parley import db
from tests.record.lineages import rename

SOON = 10.0  # seconds after which a notification counts as lost

pytestmark = pytest.mark.services("needs several processes or a real broker", only=True)


class Process:
    """A relay as in another process, and its messages."""

    def __init__(self, prefix, url=""):
        self.heard = queue.Queue()
        self.relay = Relay(url or settings.CHANNEL_LAYER_URL, prefix, self.hear)

    def hear(self, group, key, index, owner, settles):
        said = (group, key, index, owner) if owner else (group, key, index)
        self.heard.put(said if settles else (*said, "on its way"))

    def hears(self):
        return self.heard.get(timeout=SOON)

    def listens(self, channel="group"):
        self.relay.listen(channel).result(SOON)


@pytest.fixture
def prefix():
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
def one(prefix):
    return Process(prefix)


@pytest.fixture
def other(prefix, one):
    process = Process(prefix)
    process.listens()
    return process


def test_processes_hear_each_other_not_themselves(one, other):
    one.listens()
    Process("test-another").relay.send("group", "a key", 1)  # another installation
    one.relay.send("group", "a key", 7)
    other.relay.send("group", "another key", 8)
    assert other.hears() == ("group", "a key", 7)
    assert one.hears() == ("group", "another key", 8)
    assert one.heard.empty()
    assert other.heard.empty()


def test_newest_waiting_announcement_is_carried(one, other):
    for index in (*range(1, 100), 50):
        one.relay.send("group", "a key", index, wait=0.05)
    assert other.hears() == ("group", "a key", 99)
    one.relay.send("group", "a key", 105, wait=3600)
    one.relay.send("group", "a key", 104)
    assert other.hears() == ("group", "a key", 105), "what may not wait takes along what does"
    one.relay.send("group", "patient", 1, wait=3600)
    one.relay.send("group", "less so", 1, wait=0.01)
    assert other.hears() == ("group", "less so", 1)


def test_process_hears_only_what_it_follows(one, other):
    followed, foreign = "0a0a0", "0b0b0"
    other.listens(channel_of(followed))
    other.listens(channel_of("owner ada"))
    one.relay.send(REACHED, foreign, 1, "bob")
    one.relay.send(REACHED, followed, 2, "bob")
    one.relay.send(REACHED, foreign, 3, "ada")
    assert [other.hears(), other.hears()] == [(REACHED, followed, 2), (REACHED, foreign, 3, "ada")]
    other.relay.leave(channel_of(followed))
    other.listens(channel_of(foreign))
    one.relay.send(REACHED, followed, 4, "bob")
    one.relay.send(REACHED, foreign, 5, "bob")
    assert other.hears() == (REACHED, foreign, 5)


def test_channel_is_heard_until_its_last_listener(one, other):
    other.listens()
    other.relay.leave("group")
    one.relay.send("group", "a key", 1)
    assert other.hears() == ("group", "a key", 1)


@pytest.fixture
def elsewhere(settings, monkeypatch):
    """Another process of this installation commits; its notifications alone tell of it."""
    settings.FEED_POLL_SECONDS = 3600
    notifications.on_reached(lambda *said: None)()  # this process's relay keeps the true function
    relay = Relay(settings.CHANNEL_LAYER_URL, settings.INSTALLATION, lambda *said: None)
    monkeypatch.setattr(notifications, "notify", lambda *said, wait=0.0, **how: relay.send(*said, **how))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("made", ["here", "elsewhere"])
async def test_followers_hear_other_processes(ada, begun, elsewhere, monkeypatch, made):
    hub = feed.running_hub()
    await hub.heard(*hub._own)
    if made == "elsewhere":
        monkeypatch.setattr(notifications, "_new_ids", "")
    session = await db.run(begun)
    assert (channel_of(str(session)) in hub._heard) == (made == "here")
    await hub.heard(str(session))
    async with aclosing(feed.growth(session, 1, since=feed.start_listening())) as grown:
        waiting = asyncio.ensure_future(anext(grown))
        async with hub.subscribe(owner=ada.pk) as subscription:
            await db.run(rename, session)
            assert await asyncio.wait_for(waiting, SOON) == 2
            await asyncio.wait_for(subscription.wait(), SOON)
            assert subscription.take_pending() == {session: 2}


async def test_channels_are_left_when_nobody_follows():
    hub = feed.running_hub()
    for _ in range(2):
        hub.hear(str(uuid.uuid4()))
        hub._renew_own()
        hub._forget_channels()
    assert hub._heard.keys() == {channel_of(own) for own in hub._own}
    assert len(hub._own) == 2
