"""Followers hold no thread or connection, and survive lost notifications."""

import asyncio
import threading
from concurrent.futures import Future
from contextlib import aclosing

import pytest
from django.db import connection

from agentkit import Completed
from apps.engine import accept
from apps.record.reading import feed, notifications
from parley import db
from tests.record.lineages import rename
from tests.working import begin, chunk, end, say

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("followers hold no connection")]


async def hear(context, after):
    """Indexes of the first events after an index."""
    async with aclosing(feed.follow(context, after)) as batches:
        return [event.index for event in await anext(batches)]


def connections():
    """Database connections; for SQLite those of threads."""
    if connection.vendor != "postgresql":
        return 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return cursor.fetchone()[0]


async def by_all_threads(count):
    async def of(caller):
        db.caller.set(str(caller))  # of whom each gets some of the threads alone
        await db.run(connections)

    await asyncio.gather(*(of(caller) for caller in range(count)))


async def test_200_followers_hold_no_thread_and_no_connection(ada, echo, said, settings):
    sent = [await db.run(accept.accept, ada.principal, echo, said()) for _ in range(20)]
    await by_all_threads(settings.BRIDGE_THREADS * 3)
    feed.start_listening()  # the process's listener has a thread
    threads, before = threading.active_count(), await db.run(connections)
    followers = [asyncio.create_task(hear(sent[n % 20].context, sent[n % 20].index)) for n in range(200)]
    await asyncio.sleep(0)
    await by_all_threads(settings.BRIDGE_THREADS * 3)
    assert threading.active_count() <= threads
    assert await db.run(connections) <= before
    assert not any(follower.done() for follower in followers)
    for one in sent:
        await db.run(rename, one.context)
    for n, heard in enumerate(await asyncio.gather(*followers)):
        assert heard == [sent[n % 20].index + 1]
    assert not any(reader.followers for reader in feed.running_hub()._readers.values())


@pytest.mark.parametrize("by", ["poll", "notification"])
async def test_events_are_delivered_by_either_way(ada, echo, said, settings, monkeypatch, by):
    settings.FEED_POLL_SECONDS = 0.05 if by == "poll" else 3600
    if by == "poll":
        monkeypatch.setattr(notifications, "notify", lambda *reached, **how: None)
    sent = await db.run(accept.accept, ada.principal, echo, said())
    following = asyncio.create_task(hear(sent.context, sent.index))
    await asyncio.sleep(0)
    await db.run(rename, sent.context)
    assert await asyncio.wait_for(following, 10) == [sent.index + 1]
    await db.run(rename, sent.context)
    assert [await hear(sent.context, after) for after in (0, 2)] == [[1, 2, 3], [3]], "also to who comes late"


@pytest.fixture
def reads(monkeypatch):
    """After which indexes the log was read."""
    asked, read = [], feed.read_events

    def noted(context, after):
        asked.append(after)
        return read(context, after)

    monkeypatch.setattr(feed, "read_events", noted)
    return asked


@pytest.fixture
async def heard_for_long():
    """New contexts are heard of already."""
    hub = feed.running_hub()
    assert await hub.heard(*hub._own) < feed.start_listening()


async def listen(sent, since):
    async with aclosing(feed.follow(sent.context, sent.index, since=since)) as batches:
        return [event.index for event in await anext(batches)]


async def test_listener_reads_once_announced(ada, echo, said, settings, heard_for_long, reads):
    settings.FEED_POLL_SECONDS = 3600
    since = feed.start_listening()
    sent = await db.run(accept.accept, ada.principal, echo, said())
    following = asyncio.create_task(listen(sent, since))
    await asyncio.sleep(0)
    assert reads == []
    await db.run(rename, sent.context)
    assert await asyncio.wait_for(following, 10) == [sent.index + 1]
    assert reads == [sent.index]
    assert await asyncio.wait_for(listen(sent, since), 10) == [sent.index + 1], "what was announced before it followed"


async def test_progress_wakes_nobody_who_awaits_settling(ada, echo, said, settings, heard_for_long):
    settings.FEED_POLL_SECONDS = 3600
    since = feed.start_listening()
    sent = await db.run(accept.accept, ada.principal, echo, said())
    held = await db.run(begin, sent.run)
    async with aclosing(feed.growth(sent.context, sent.index, since=since, settled=True)) as grown:
        waiting = asyncio.ensure_future(anext(grown))
        await db.run(say, held, chunk("lines", "1\n", last=False))
        assert await asyncio.wait({waiting}, timeout=0.05) == (set(), {waiting})
        await db.run(end, held, Completed("done"))
        assert await asyncio.wait_for(waiting, 10) > sent.index
        await db.run(rename, sent.context)  # whatever no run records may have ended a task, too
        assert await asyncio.wait_for(anext(grown), 10) > sent.index


@pytest.mark.parametrize("ear", ["unconfirmed", "not mentioned"])
async def test_who_may_have_missed_an_announcement_reads(ada, echo, said, settings, reads, monkeypatch, ear):
    settings.FEED_POLL_SECONDS = 3600
    if ear == "unconfirmed":
        monkeypatch.setattr(notifications, "listen", lambda channel: Future())
    sent = await db.run(accept.accept, ada.principal, echo, said())
    await db.run(rename, sent.context)
    feed.running_hub()._recent.clear()
    since = feed.start_listening() if ear == "unconfirmed" else None
    assert await asyncio.wait_for(listen(sent, since), 10) == [sent.index + 1]
    assert reads == [sent.index]


async def woken(turns, *crowds):
    """In which order waiting streams of callers, each with so many, are woken."""
    order, waiting = [], {}
    for caller, number in crowds:
        for at in range(number):
            waiter = asyncio.get_running_loop().create_future()
            waiter.add_done_callback(lambda _, name=f"{caller} {at}": order.append(name))
            waiting[waiter] = caller
    turns.wake(waiting)
    await asyncio.sleep(0)
    return order, asyncio.gather(*waiting)


async def test_callers_take_turns_in_being_woken(monkeypatch):
    monkeypatch.setattr(feed, "PAUSE_SECONDS", 3600)
    few = feed.Turns()
    for caller in ("ada", "bob", "ada"):
        order, _ = await woken(few, (caller, 2))
        assert len(order) == 2, "few wait for no turn"
    monkeypatch.setattr(feed, "WOKEN_AT_ONCE", 4)
    monkeypatch.setattr(feed, "PAUSE_SECONDS", 0)
    turns = feed.Turns()
    order, all_woken = await woken(turns, ("ada", 100), ("bob", 2))
    assert order == ["ada 0", "bob 0", "ada 1", "bob 1"]
    later, others_woken = await woken(turns, ("eve", 1))
    await asyncio.gather(all_woken, others_woken)
    assert (len(order), later) == (102, ["eve 0"])


async def test_waiting_callers_are_woken_before_streams(monkeypatch):
    monkeypatch.setattr(feed, "PAUSE_SECONDS", 3600)
    bell = feed.Bell(feed.Turns())
    streams = [asyncio.create_task(bell.wait()) for _ in range(3 * feed.WOKEN_AT_ONCE)]
    answer = asyncio.create_task(bell.wait(at_once=True))
    await asyncio.sleep(0)
    bell.ring()
    await asyncio.wait({answer}, timeout=10)
    assert answer.done()
    assert sum(stream.done() for stream in streams) <= feed.WOKEN_AT_ONCE
    for stream in streams:
        stream.cancel()


async def test_events_are_read_once_for_all_followers(ada, echo, said, settings, reads):
    settings.FEED_POLL_SECONDS = 3600
    sent = await db.run(accept.accept, ada.principal, echo, said())

    async def follow():
        heard = []
        async with aclosing(feed.follow(sent.context, sent.index)) as batches:
            while len(heard) < 2:
                heard += await anext(batches)
        return heard

    following = [asyncio.create_task(follow()) for _ in range(3 * feed.WOKEN_AT_ONCE)]
    await asyncio.sleep(0)
    for _ in range(2):
        await db.run(rename, sent.context)
    heard = await asyncio.wait_for(asyncio.gather(*following), 20)
    assert len(reads) <= 3, "before, and after each of two events"
    assert {tuple(map(id, events)) for events in heard} == {tuple(map(id, heard[0]))}
    known = len(reads)
    assert await hear(sent.context, sent.index + 1) == [sent.index + 2]
    assert len(reads) == known, "a late follower gets what was just read"
    hub = feed.running_hub()
    for _ in range(2):
        hub._forget_readers()
    assert hub._readers == {}
