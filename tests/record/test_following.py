"""Followers hold no thread or connection, and survive lost notifications."""

import asyncio
import threading
import uuid
from contextlib import aclosing

import pytest
from django.db import connection

import db
from apps.engine import accept, cancel
from apps.record import feed, notifications, wire
from tests.record.lineages import rename
from tests.working import begin, chunk, say

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


async def test_without_notifications_the_poll_delivers(ada, echo, said, settings, monkeypatch):
    settings.FEED_POLL_SECONDS = 0.05
    monkeypatch.setattr(notifications, "announce", lambda *reached, **how: None)
    sent = await db.run(accept.accept, ada.principal, echo, said())
    following = asyncio.create_task(hear(sent.context, sent.index))
    await db.run(rename, sent.context)
    assert await asyncio.wait_for(following, 10) == [sent.index + 1]


async def test_a_notification_delivers_without_the_poll(ada, echo, said, settings):
    settings.FEED_POLL_SECONDS = 3600
    sent = await db.run(accept.accept, ada.principal, echo, said())
    following = asyncio.create_task(hear(sent.context, sent.index))
    await asyncio.sleep(0)
    await db.run(rename, sent.context)
    assert await asyncio.wait_for(following, 10) == [sent.index + 1]


async def test_a_follower_that_came_late_hears_what_was_there(ada, echo, said):
    sent = await db.run(accept.accept, ada.principal, echo, said())
    for _ in range(3):
        await db.run(rename, sent.context)
    assert await hear(sent.context, 0) == [1, 2, 3, 4]
    assert await hear(sent.context, 2) == [3, 4]


async def test_announcements_that_overtake_each_other_are_no_loss(settings):
    settings.FEED_POLL_SECONDS = 3600
    hub = feed.running_hub()
    hub._reached("a context", 6)
    hub._reached("a context", 5)
    assert hub._recent["a context"] == 6


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
async def heard_for_long(monkeypatch):
    """This loop's listener has been open for long."""
    monkeypatch.setattr(feed.running_hub(), "_created_at", asyncio.get_running_loop().time() - 60)


async def listen(sent, since):
    async with aclosing(feed.follow(sent.context, sent.index, since=since)) as batches:
        return [event.index for event in await anext(batches)]


async def test_who_listened_before_looks_for_nothing_until_something_is_announced(
    ada, echo, said, settings, heard_for_long, reads
):
    settings.FEED_POLL_SECONDS = 3600
    since = feed.start_listening()
    sent = await db.run(accept.accept, ada.principal, echo, said())
    following = asyncio.create_task(listen(sent, since))
    await asyncio.sleep(0)
    assert reads == []
    await db.run(rename, sent.context)
    assert await asyncio.wait_for(following, 10) == [sent.index + 1]
    assert reads == [sent.index]


async def test_what_was_announced_between_listening_and_following_is_not_missed(
    ada, echo, said, settings, heard_for_long
):
    settings.FEED_POLL_SECONDS = 3600
    since = feed.start_listening()
    sent = await db.run(accept.accept, ada.principal, echo, said())
    await db.run(rename, sent.context)
    assert await asyncio.wait_for(listen(sent, since), 10) == [sent.index + 1]


@pytest.mark.parametrize("ear", ["new", "not mentioned"])
async def test_who_may_have_missed_an_announcement_looks_first(ada, echo, said, settings, reads, ear):
    settings.FEED_POLL_SECONDS = 3600
    sent = await db.run(accept.accept, ada.principal, echo, said())
    await db.run(rename, sent.context)
    feed.running_hub()._recent.clear()
    since = feed.start_listening() if ear == "new" else None
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


async def test_a_caller_with_many_streams_is_woken_no_sooner_than_others(monkeypatch):
    monkeypatch.setattr(feed, "WOKEN_AT_ONCE", 4)
    monkeypatch.setattr(feed, "PAUSE_SECONDS", 0)
    turns = feed.Turns()
    order, all_woken = await woken(turns, ("ada", 100), ("bob", 2))
    assert order == ["ada 0", "bob 0", "ada 1", "bob 1"]
    later, others_woken = await woken(turns, ("eve", 1))
    await asyncio.gather(all_woken, others_woken)
    assert len(order) == 102
    assert later == ["eve 0"]


async def test_few_streams_wait_for_no_turn(monkeypatch):
    monkeypatch.setattr(feed, "PAUSE_SECONDS", 3600)
    turns = feed.Turns()
    for caller in ("ada", "bob", "ada"):
        order, _ = await woken(turns, (caller, 2))
        assert len(order) == 2


async def test_who_waits_for_an_answer_is_woken_before_all_streams(monkeypatch):
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


async def test_however_many_follow_a_context_its_events_are_read_once(ada, echo, said, settings, reads):
    settings.FEED_POLL_SECONDS = 3600
    sent = await db.run(accept.accept, ada.principal, echo, said())
    heard = []

    async def follow(heard):
        async with aclosing(feed.follow(sent.context, sent.index)) as batches:
            async for events in batches:
                heard += events
                if events[-1].index == sent.index + 2:
                    break

    for _ in range(3 * feed.WOKEN_AT_ONCE):
        heard.append([])
    following = [asyncio.create_task(follow(one)) for one in heard]
    await asyncio.sleep(0)
    for _ in range(2):
        await db.run(rename, sent.context)
    await asyncio.wait_for(asyncio.gather(*following), 20)
    assert len(reads) <= 3, "before, and after each of two events"
    assert {tuple(map(id, events)) for events in heard} == {tuple(map(id, heard[0]))}


async def test_what_followers_show_is_made_once_for_all(ada, echo, said):
    sent = await db.run(accept.accept, ada.principal, echo, said())
    events, shows = await db.run(feed.read_events, sent.context, 0), []

    def show(events, failing):
        shows.append(len(events))
        if failing:
            raise KeyError
        return object()

    for _ in range(2):
        with pytest.raises(KeyError):
            await feed.shared(events, "page", show, True)
    assert (
        len({id(one) for one in await asyncio.gather(*(feed.shared(events, "page", show, False) for _ in "12"))}) == 1
    )
    await feed.shared(events, "another", show, False)
    assert shows == [1] * 4


async def test_a_late_follower_gets_what_was_just_read(ada, echo, said, settings, reads):
    settings.FEED_POLL_SECONDS = 3600
    sent = await db.run(accept.accept, ada.principal, echo, said())
    await db.run(rename, sent.context)
    for _ in range(3):
        assert await hear(sent.context, sent.index) == [sent.index + 1]
    assert reads == [sent.index]
    hub = feed.running_hub()
    for _ in range(2):
        hub._forget_readers()
    assert hub._readers == {}


def test_words_wait_shortly_an_opening_longer_and_an_end_not_at_all(ada, echo, said, monkeypatch):
    waits = []
    monkeypatch.setattr(notifications, "announce", lambda *reached, wait: waits.append(wait))
    sent = accept.accept(ada.principal, echo, said())
    held = begin(sent.run)
    say(held, chunk("lines", "1\n", last=False))
    rename(sent.context)
    cancel.cancel_by_id(ada.principal, echo, str(sent.task))
    assert waits == [notifications.LATER, notifications.LATER, notifications.SOON, notifications.LATER, 0.0]


class Interrupting(dict):
    """During a read, another thread announces an event."""

    def __init__(self, announce):
        super().__init__()
        self.thread = threading.Thread(target=announce)

    def get(self, key, default=None):
        found = super().get(key, default)
        if self.thread.ident is None:
            self.thread.start()
            self.thread.join(0.2)
        return found


async def test_an_event_that_is_announced_while_somebody_begins_to_follow_is_heard():
    context = uuid.uuid4()
    hub = feed.Hub(asyncio.get_running_loop())
    try:
        hub._recent = recent = Interrupting(lambda: hub._reached(str(context), 7))
        with hub.reader(context) as reader:
            recent.thread.join()
            await asyncio.wait_for(reader.grown_beyond(6), 10)
    finally:
        hub._stop_listening()
        hub._poll.cancel()


async def test_a_loop_that_ends_just_then_does_not_fail_who_announces(monkeypatch):
    """After the commit, a follower's loop may end between the check and the call."""
    feed.start_listening()
    context = uuid.uuid4()
    with feed.running_hub().reader(context) as reader:

        def ended(*_):
            raise RuntimeError("Event loop is closed")

        with monkeypatch.context() as patched:
            patched.setattr(asyncio.get_running_loop(), "call_soon_threadsafe", ended)
            notifications._notify(notifications.REACHED, str(context), 3)
        assert reader._newest == 0


async def test_what_was_read_before_the_newest_event_is_not_given_again():
    reader, has_read = feed.Reader(uuid.uuid4(), 2, feed.Turns()), threading.Event()

    def nothing_yet(context_id, after):
        has_read.set()
        return []

    given = []
    first = asyncio.create_task(reader.read(1, nothing_yet))
    while not first.done():
        await asyncio.sleep(0)  # at one of these, the read has ended and its followers have not been woken
        if has_read.is_set():
            other = reader.read(1, nothing_yet)
            try:
                other.send(None)
            except StopIteration as end:
                given.append(end.value)
            other.close()
    await reader.read(1, nothing_yet)
    assert given == []


async def test_a_large_batch_is_sent_in_pieces_and_others_have_their_turn_in_between():
    frame, made = b"x" * (wire.PIECE_BYTES // 4), list[int]()

    async def batches():
        yield range(16)

    def say(batch):
        for number in batch:
            made.append(number)
            yield frame

    async with aclosing(wire.with_heartbeats(batches(), say)) as pieces:
        assert await anext(pieces) == frame * 4
        assert made == [0, 1, 2, 3], "what nobody reads yet is not made"
        others = asyncio.Event()
        asyncio.get_running_loop().call_soon(others.set)
        await anext(pieces)
        assert others.is_set()
        assert [piece async for piece in pieces] == [frame * 4, frame * 4]
