"""A follower of many sessions gets each event once and in order."""

import asyncio
import threading
import uuid
from contextlib import asynccontextmanager

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

import db
from apps.engine import accept
from apps.features.sessions import deletion
from apps.record import feed, notifications, sync
from apps.record.errors import ContextNotFound, InvalidParams
from apps.record.events import EventType
from apps.record.models import Context, Event
from tests.record.lineages import rename
from tests.record.test_positions import aged

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("what was missed is found by SQL")]


class Client:
    def __init__(self, following_):
        self.following, self.told, self.waiting = following_, [], None
        self._batches = following_.batches()

    async def hear(self, number):
        async with asyncio.timeout(20):
            while len(self.told) < number:
                for told in await anext(self._batches):
                    self.told.append(told)
                    self.following.acknowledge(told)
        return self.told

    async def leave(self):
        if self.waiting and not self.waiting.done():
            self.waiting.cancel()
            await asyncio.wait([self.waiting])
        await self._batches.aclose()

    def indexes(self, session):
        return [told.index for told in self.told if told.session == session]


@asynccontextmanager
async def client(principal, since=None, sessions=()):
    one = Client(await db.run(sync.open_stream, principal, frozenset(sessions), since))
    try:
        yield one
    finally:
        await one.leave()


async def listening(one):
    one.waiting = asyncio.create_task(one.hear(len(one.told) + 1))
    await until(lambda: is_waiting(one.following._subscription))
    return one.waiting


def is_waiting(subscription):
    return subscription and subscription._waiter and not subscription._waiter.done()


async def until(true):
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_from_now_on_what_happens_anywhere_is_heard(ada, begun, settings):
    settings.FEED_POLL_SECONDS = 3600
    old, young = await db.run(begun), await db.run(begun)
    await db.run(aged, old)
    async with client(ada.principal) as follower:
        waiting = await listening(follower)
        await db.run(rename, old, young, young)
        new = await db.run(begun)
        await waiting
        await follower.hear(4)
        assert [follower.indexes(session) for session in (old, young, new)] == [[2], [2, 3], [1]]


async def test_without_notifications_the_poll_delivers(ada, begun, settings, monkeypatch):
    settings.FEED_POLL_SECONDS = 0.05
    monkeypatch.setattr(notifications, "announce", lambda *reached, **how: None)
    old = await db.run(begun)
    await db.run(aged, old)
    async with client(ada.principal) as follower:
        waiting = await listening(follower)
        await db.run(rename, old)
        new = await db.run(begun)
        await waiting
        await follower.hear(2)
        assert (follower.indexes(old), follower.indexes(new)) == ([2], [1])


async def test_what_was_missed_comes_first_in_order_and_once(ada, begun):
    sessions = [await db.run(begun) for _ in range(20)]
    before = await db.run(sync.current_position, ada.principal)
    for _ in range(2):
        await db.run(rename, *sessions)
    async with client(ada.principal, before) as follower:
        await follower.hear(40)
        assert all(follower.indexes(session) == [2, 3] for session in sessions)


async def test_a_long_backlog_comes_in_batches_and_others_between(ada, begun, monkeypatch):
    monkeypatch.setattr(sync, "BATCH_SIZE", 10)
    long, short = await db.run(begun), await db.run(begun)
    before = await db.run(sync.current_position, ada.principal)
    await db.run(rename, *[long] * 40, short)
    async with client(ada.principal, before) as follower:
        await follower.hear(41)
        assert follower.indexes(long) == list(range(2, 42))
        assert [told.session for told in follower.told].index(short) < 10


async def test_those_that_are_named_are_heard_alone(ada, begun):
    one, other = await db.run(begun), await db.run(begun)
    async with client(ada.principal, sessions=[one]) as follower:
        waiting = await listening(follower)
        await db.run(rename, other, one)
        await waiting
        assert [(told.session, told.index) for told in follower.told] == [(one, 2)]


async def test_of_one_session_an_index_says_where_to_begin_and_one_out_of_range_is_refused(ada, begun):
    session, other = await db.run(begun), await db.run(begun)
    await db.run(rename, session, session)
    await db.run(aged, session)
    async with client(ada.principal, 1, [session]) as follower:
        await follower.hear(2)
        assert follower.indexes(session) == [2, 3]
    with pytest.raises(InvalidParams, match="no event with this index"):
        await db.run(sync.open_stream, ada.principal, frozenset([session]), 4)
    with pytest.raises(InvalidParams, match="Name one"):
        await db.run(sync.open_stream, ada.principal, frozenset([session, other]), 1)


async def test_somebody_elses_session_is_not_found_and_not_heard(ada, bob, echo, said, begun, settings):
    settings.FEED_POLL_SECONDS = 0.05
    session = await db.run(begun)
    with pytest.raises(ContextNotFound):
        await db.run(sync.open_stream, bob.principal, frozenset([session]), None)
    async with client(bob.principal) as follower:
        waiting = await listening(follower)
        await db.run(rename, session)
        await db.run(begun)
        own = (await db.run(accept.accept, bob.principal, echo, said())).context
        await waiting
        assert {told.session for told in follower.told} == {own}


async def test_what_is_gone_is_told_and_no_gap(ada, begun):
    """The session was deleted; its log is deleted or archived."""
    gone, lost, away, other = [await db.run(begun) for _ in range(4)]
    before = await db.run(sync.current_position, ada.principal)
    await db.run(rename, gone, lost, away, away, other)
    for session in (gone, lost):
        await db.run(deletion.delete_session, ada.principal, session)
    await db.run(Event.objects.filter(context__in=[lost, away]).delete)
    async with client(ada.principal, before) as follower:
        told = {one.session: (one.event and one.event.type, one.reason) for one in await follower.hear(4)}
    assert told[gone][0] == EventType.SESSION_DELETED
    assert (told[lost], told[away]) == ((None, "deleted"), (None, "archived"))
    assert (len(follower.told), follower.indexes(other)) == (4, [2])


async def test_a_fork_begins_with_its_own_first_event(ada, begun):
    async with client(ada.principal) as follower:
        waiting = await listening(follower)
        fork = await db.run(begun)
        await db.run(rename, fork, fork)
        await waiting
    before = await db.run(sync.current_position, ada.principal)
    before.indexes.pop(fork)
    await db.run(Context.objects.filter(pk=fork).update, forked_at=2)
    async with client(ada.principal, before) as follower:
        await follower.hear(1)
        assert follower.indexes(fork) == [3]


async def test_a_position_that_is_caught_up_forgets_what_is_long_ago(ada, begun, settings):
    settings.FEED_POLL_SECONDS = 0.05
    old, young = await db.run(begun), await db.run(begun)
    async with client(ada.principal) as follower:
        began = follower.following.position.at
        assert follower.following.position.indexes.keys() == {old, young}
        waiting = await listening(follower)
        await db.run(aged, old)
        await until(lambda: old not in follower.following.settle().indexes)
        assert follower.following.position.at > began
        assert follower.following.position.indexes == {young: 1}
        await db.run(rename, old)
        await waiting
        assert follower.indexes(old) == [2]


async def test_what_happened_after_the_last_look_stays_in_the_position(ada, begun, settings, monkeypatch):
    settings.FEED_POLL_SECONDS = 0.05
    polled = asyncio.Event()

    async def poll():
        polled.set()

    async with client(ada.principal) as follower:
        waiting = await listening(follower)
        await until(lambda: follower.following._subscription.last_poll)
        monkeypatch.setattr(feed.running_hub(), "_poll_subscriptions", poll)
        await polled.wait()
        session = await db.run(begun)
        await waiting
        assert follower.following.settle().at == follower.following._subscription.last_poll.at
        assert follower.following.position.indexes == {session: 1}


async def test_conversations_between_agents_are_asked_about_once(ada, begun):
    async with client(ada.principal) as follower:
        waiting = await listening(follower)
        child = await db.run(begun)
        await waiting
        await db.run(Context.objects.filter(pk=child).update, parent_task=uuid.uuid4())
        follower.following.position.indexes.pop(child)
        waiting = await listening(follower)
        looks = []
        look = follower.following._find_missed
        follower.following._find_missed = lambda: looks.append(1) or look()
        await db.run(rename, child)
        await until(lambda: child in follower.following._unlisted)
        await db.run(rename, child, child)
        await db.run(begun)
        await waiting
        assert len(looks) == 2
        assert follower.indexes(child) == [1]


async def test_50_who_follow_the_same_share_their_queries_and_hold_nothing(ada, begun, settings):
    sessions = [await db.run(begun) for _ in range(8)]
    followings = [await db.run(sync.open_stream, ada.principal, frozenset(), None) for _ in range(50)]
    followers = [Client(one) for one in followings]
    for _ in range(settings.BRIDGE_THREADS * 2):
        await db.run(connection.ensure_connection)
    threads = threading.active_count()
    waiting = [await listening(follower) for follower in followers]
    assert threading.active_count() <= threads + 1
    reads = []
    read = sync.read_ranges
    sync.read_ranges = lambda ranges: reads.append(ranges) or read(ranges)
    try:
        await db.run(rename, *sessions)
        await asyncio.gather(*waiting)
        await asyncio.gather(*(follower.hear(8) for follower in followers))
    finally:
        sync.read_ranges = read
    assert all(follower.indexes(session) == [2] for follower in followers for session in sessions)
    assert len(reads) < 50
    for follower in followers:
        await follower.leave()
    assert feed.running_hub()._subscriptions == {}


def test_a_poll_is_two_queries_for_all_that_listen(ada, bob, begun):
    session = begun()
    with CaptureQueriesContext(connection) as queries:
        found = feed._newest_rows(
            frozenset([ada.pk, bob.pk]), frozenset([session]), sync.current_position(ada.principal).margin_start
        )
    assert len(queries) == 3
    assert {topic for topic, _ in found} == {f"owner {ada.pk}", str(session)}
