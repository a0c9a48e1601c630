"""A follower of many sessions gets each event once and in order."""

import asyncio
import threading
import uuid
from collections import Counter
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
from tests.emptying import remove
from tests.record.lineages import rename
from tests.record.test_positions import aged

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("what was missed is found by SQL")]


def show(items):
    """As `api.events.show`, which makes frames."""
    return [item.index for item in items]


class Client:
    def __init__(self, stream):
        self.stream, self.told, self.waiting = stream, [], None
        self._batches = stream.batches()

    async def hear(self, number):
        async with asyncio.timeout(60):
            while len(self.told) < number:
                self.told += await anext(self._batches)
        return self.told

    async def leave(self):
        if self.waiting and not self.waiting.done():
            self.waiting.cancel()
            await asyncio.wait([self.waiting])
        await self._batches.aclose()
        self.stream.close()

    def indexes(self, session):
        return [told.index for told in self.told if told.session == session]


async def opened(principal, since=None, sessions=()):
    return Client(await sync.open_stream(principal, frozenset(sessions), since, show))


@asynccontextmanager
async def client(principal, since=None, sessions=()):
    one = await opened(principal, since, sessions)
    try:
        yield one
    finally:
        await one.leave()


async def listening(one):
    one.waiting = asyncio.create_task(one.hear(len(one.told) + 1))
    return one.waiting


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
        await opened(ada.principal, 4, [session])
    with pytest.raises(InvalidParams, match="Name one"):
        await opened(ada.principal, 1, [session, other])


async def test_somebody_elses_session_is_not_found_and_not_heard(ada, bob, echo, said, begun, settings):
    settings.FEED_POLL_SECONDS = 0.05
    session = await db.run(begun)
    with pytest.raises(ContextNotFound):
        await opened(bob.principal, None, [session])
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
    await db.run(remove, Event.objects.filter(context__in=[lost, away]))
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


def position_of(follower, user):
    return sync.parse_position(user.principal, follower.stream.newest_place)


async def test_a_position_that_is_caught_up_forgets_what_is_long_ago(ada, begun, settings):
    settings.FEED_POLL_SECONDS = 0.05
    old, young = await db.run(begun), await db.run(begun)
    async with client(ada.principal) as follower:
        before = position_of(follower, ada)
        assert before.indexes.keys() == {old, young}
        waiting = await listening(follower)
        await db.run(aged, old)
        await until(lambda: old not in position_of(follower, ada).indexes)
        assert position_of(follower, ada).at > before.at
        assert position_of(follower, ada).indexes == {young: 1}
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
        [subscription] = feed.running_hub()._subscriptions[f"owner {ada.pk}"]
        await until(lambda: subscription.last_poll)
        monkeypatch.setattr(feed.running_hub(), "_poll_subscriptions", poll)
        await polled.wait()
        session = await db.run(begun)
        await waiting
        await until(lambda: follower.stream.newest_place)
        assert position_of(follower, ada) == sync.Position(subscription.last_poll.at, {session: 1})


async def test_an_idle_position_moves_on(ada, begun, settings):
    settings.FEED_POLL_SECONDS = 0.05
    await db.run(aged, await db.run(begun))
    async with client(ada.principal) as follower:
        await listening(follower)
        before = position_of(follower, ada).at
        await until(lambda: position_of(follower, ada).at > before)


async def test_a_slow_stream_hears_of_a_deletion_instead_of_what_was_deleted(ada, begun, settings):
    settings.FEED_POLL_SECONDS = 3600
    session, other = await db.run(begun), await db.run(begun)
    async with client(ada.principal) as slow, client(ada.principal) as quick:
        waiting = [await listening(slow), await listening(quick)]
        await db.run(rename, session)
        await asyncio.gather(*waiting)  # from here on the slow one does not read
        await db.run(rename, session, other)
        await quick.hear(3)
        await db.run(deletion.delete_session, ada.principal, session)
        await quick.hear(4)
        await slow.hear(4)
        assert [told.index for told in slow.told if told.session == other] == [2]
        unread = [told for told in slow.told[1:] if told.session == session]
        assert [told.is_deletion for told in unread] == [True] * len(unread)


@pytest.fixture
def counted(monkeypatch):
    """How often these functions of the feed are called."""
    calls = Counter()

    def counting(module, name):
        function = getattr(module, name)

        def counted_function(*args, **options):
            calls[name] += 1
            return function(*args, **options)

        monkeypatch.setattr(module, name, counted_function)

    counting(sync, "missed_events")
    counting(sync, "current_position")
    counting(feed, "read_present_events")
    return calls


async def test_conversations_between_agents_are_asked_about_once(ada, begun, settings, counted):
    settings.FEED_POLL_SECONDS = 3600
    async with client(ada.principal) as follower:
        child = await db.run(begun)
        await follower.hear(1)
    await db.run(Context.objects.filter(pk=child).update, parent_task=uuid.uuid4())
    await db.run(aged, child)
    async with client(ada.principal) as follower:
        waiting = await listening(follower)
        counted.clear()
        await db.run(rename, child)
        await until(lambda: counted["missed_events"])
        await db.run(rename, child, child)
        await db.run(begun)
        await waiting
        assert counted["missed_events"] == 2
        assert follower.indexes(child) == []


@pytest.mark.parametrize("which", ["all", "named"])
async def test_50_who_follow_the_same_share_their_reads_and_hold_nothing(ada, begun, settings, counted, which):
    settings.FEED_POLL_SECONDS = 3600
    sessions = [await db.run(begun) for _ in range(8)]
    for _ in range(settings.BRIDGE_THREADS * 2):
        await db.run(connection.ensure_connection)
    threads = threading.active_count()
    named = sessions if which == "named" else ()
    followers = await asyncio.gather(*(opened(ada.principal, None, named) for _ in range(50)))
    waiting = [await listening(follower) for follower in followers]
    assert threading.active_count() <= threads + 1
    assert which == "named" or counted["current_position"] == 1
    counted.clear()
    await db.run(rename, *sessions)
    await asyncio.gather(*waiting)
    await asyncio.gather(*(follower.hear(8) for follower in followers))
    assert all(follower.indexes(session) == [2] for follower in followers for session in sessions)
    assert counted == {"read_present_events": 8}
    first, *others = followers
    assert all(told is item for follower in others for told, item in zip(follower.told, first.told, strict=True))
    for follower in followers:
        await follower.leave()
    await until(lambda: not feed.running_hub()._subscriptions)


async def test_who_follows_other_sessions_takes_part_in_the_reads(ada, begun, settings, counted):
    settings.FEED_POLL_SECONDS = 3600
    shared, *others = [await db.run(begun) for _ in range(5)]
    followers = [await opened(ada.principal, None, [shared, other]) for other in others]
    followers.append(await opened(ada.principal))
    waiting = [await listening(follower) for follower in followers]
    counted.clear()
    await db.run(rename, shared)
    await asyncio.gather(*waiting)
    assert counted["read_present_events"] == 1
    assert len({id(follower.told[0].event) for follower in followers}) == 1
    for follower in followers:
        await follower.leave()


async def test_a_stream_that_is_far_behind_reads_what_it_lacks_and_the_others_wait_for_nobody(ada, begun, monkeypatch):
    monkeypatch.setattr(sync, "MAX_UNREAD", 10)
    monkeypatch.setattr(sync, "BATCH_SIZE", 5)
    one, other = await db.run(begun), await db.run(begun)
    async with client(ada.principal) as slow, client(ada.principal) as quick:
        for _ in range(10):
            await db.run(rename, one, other, other)
            await quick.hear(len(quick.told) + 3)
        assert len(slow.stream._live._items) <= 10
        await slow.hear(30)
        new = await db.run(begun)
        await db.run(rename, one)
        await slow.hear(32)
        assert slow.indexes(one) == list(range(2, 13))
        assert slow.indexes(other) == list(range(2, 22))
        assert slow.indexes(new) == [1]


async def test_what_happens_while_a_stream_catches_up_comes_once(ada, begun, monkeypatch):
    """It is live for the others, and the last of it is missed by this one and live."""
    monkeypatch.setattr(sync, "BATCH_SIZE", 4)
    session = await db.run(begun)
    before = await db.run(sync.current_position, ada.principal)
    await db.run(rename, *[session] * 10)
    async with client(ada.principal) as other, client(ada.principal, before) as follower:
        await follower.hear(4)
        await db.run(rename, *[session] * 5)
        await other.hear(5)
        await follower.hear(15)
        await db.run(rename, session)
        await follower.hear(16)
        assert follower.indexes(session) == list(range(2, 18))
        assert other.indexes(session) == list(range(12, 17))


def test_a_poll_is_two_queries_for_all_that_listen(ada, bob, begun):
    session = begun()
    with CaptureQueriesContext(connection) as queries:
        found = feed._newest_rows(
            frozenset([ada.pk, bob.pk]), frozenset([session]), sync.current_position(ada.principal).margin_start
        )
    assert len(queries) == 3
    assert {topic for topic, _ in found} == {f"owner {ada.pk}", str(session)}
