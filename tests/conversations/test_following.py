"""Who follows a context holds no thread and no connection, and hears everything though wake-ups are lost."""

import asyncio
import threading
from contextlib import aclosing

import pytest
from django.db import connection

import bridge
from apps.conversations import feed, intake, ledger, wakeups
from apps.conversations.events import EventType

pytestmark = pytest.mark.django_db(transaction=True)


def rename(context, title="new"):
    with ledger.writing(context) as log:
        log.add(EventType.SESSION_RENAMED, {"title": title})


async def hear(context, after):
    """The indexes of the first events after an index."""
    async with aclosing(feed.follow(context, after)) as batches:
        return [event.index for event in await anext(batches)]


def connections():
    """How many the database has; SQLite's are those of the threads."""
    if connection.vendor != "postgresql":
        return 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return cursor.fetchone()[0]


async def test_200_followers_hold_no_thread_and_no_connection(ada, echo, said, settings):
    sent = [await bridge.run(intake.accept, ada.principal, echo, said()) for _ in range(20)]
    await asyncio.gather(*(bridge.run(connections) for _ in range(settings.BRIDGE_THREADS * 3)))
    threads, before = threading.active_count(), await bridge.run(connections)
    followers = [asyncio.create_task(hear(sent[n % 20].context, sent[n % 20].index)) for n in range(200)]
    await asyncio.sleep(0)  # all of them have begun
    await asyncio.gather(*(bridge.run(connections) for _ in range(settings.BRIDGE_THREADS * 3)))
    assert threading.active_count() <= threads
    assert await bridge.run(connections) <= before
    assert not any(follower.done() for follower in followers)
    for one in sent:
        await bridge.run(rename, one.context)
    for n, heard in enumerate(await asyncio.gather(*followers)):
        assert heard == [sent[n % 20].index + 1]
    assert feed._hub()._readers == {}


async def test_without_wake_ups_the_poll_delivers(ada, echo, said, settings, monkeypatch):
    settings.FEED_POLL_SECONDS = 0.05
    monkeypatch.setattr(wakeups, "announce", lambda *reached, **how: None)
    sent = await bridge.run(intake.accept, ada.principal, echo, said())
    following = asyncio.create_task(hear(sent.context, sent.index))
    await bridge.run(rename, sent.context)
    assert await asyncio.wait_for(following, 10) == [sent.index + 1]


async def test_a_wake_up_delivers_without_the_poll(ada, echo, said, settings):
    settings.FEED_POLL_SECONDS = 3600
    sent = await bridge.run(intake.accept, ada.principal, echo, said())
    following = asyncio.create_task(hear(sent.context, sent.index))
    await asyncio.sleep(0)
    await bridge.run(rename, sent.context)
    assert await asyncio.wait_for(following, 10) == [sent.index + 1]


async def test_a_follower_that_came_late_hears_what_was_there(ada, echo, said):
    sent = await bridge.run(intake.accept, ada.principal, echo, said())
    for number in range(3):
        await bridge.run(rename, sent.context, str(number))
    assert await hear(sent.context, 0) == [1, 2, 3, 4]
    assert await hear(sent.context, 2) == [3, 4]


async def test_announcements_that_overtake_each_other_are_no_loss(settings):
    settings.FEED_POLL_SECONDS = 3600
    hub = feed._hub()
    hub._reached("a context", 6)
    hub._reached("a context", 5)
    assert hub._recent["a context"] == 6


async def test_a_courier_carries_only_the_newest_of_a_context(monkeypatch):
    carried, gate, started = [], threading.Event(), threading.Event()

    class Layer:
        """A channel layer that is slow with its first message."""

        async def group_send(self, group, message):
            started.set()
            await asyncio.to_thread(gate.wait)
            carried.append(message["index"])
            if message["index"] == 100:
                finished.set()

    finished = threading.Event()
    monkeypatch.setattr(wakeups, "get_channel_layer", Layer)
    courier = wakeups.Courier()
    courier.send("group", "context", {"index": 1})
    await asyncio.to_thread(started.wait, 10)
    for index in range(2, 101):
        courier.send("group", "context", {"index": index})
    gate.set()
    assert await asyncio.to_thread(finished.wait, 10)
    assert carried == [1, 100]
