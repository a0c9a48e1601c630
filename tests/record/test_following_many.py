"""A follower of many sessions gets each event once and in order; a sync cursor misses nothing."""

import asyncio
import datetime
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest
from django.utils import timezone

from apps.conversations.sessions import deletion
from apps.record import ledger
from apps.record.errors import InvalidParams
from apps.record.events import EventType
from apps.record.models import Context, Event
from apps.record.reading import notifications, sync
from apps.record.reading.sync import Position, PositionTooOld, parse_position, position_token
from parley import db
from tests.emptying import remove, rewrite
from tests.record.lineages import rename, started

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
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_events_of_all_sessions_are_heard(ada, begun, settings, monkeypatch):
    settings.FEED_POLL_SECONDS = 0.05
    monkeypatch.setattr(notifications, "notify", lambda *reached, **how: None)
    old, young = await db.run(begun), await db.run(begun)
    await db.run(aged, old)
    async with client(ada.principal) as follower:
        waiting = await listening(follower)
        await db.run(rename, old, young, young)
        new = await db.run(begun)
        await waiting
        await follower.hear(4)
        assert [follower.indexes(session) for session in (old, young, new)] == [[2], [2, 3], [1]]


async def test_missed_events_come_first_and_once(ada, begun, monkeypatch):
    """Also where they go on to happen while a stream catches up."""
    sessions = [await db.run(begun) for _ in range(20)]
    before = await db.run(sync.current_position, ada.principal)
    for _ in range(2):
        await db.run(rename, *sessions)
    async with client(ada.principal, before) as follower:
        await follower.hear(40)
        assert all(follower.indexes(session) == [2, 3] for session in sessions)
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


async def test_cut_off_client_goes_on_however_many_changed(ada, begun, monkeypatch):
    """It hears one batch of each connection: fewer sessions than have news, more than a token names."""
    for name, value in {"MAX_SESSIONS": 4, "MAX_CONCURRENT_SESSIONS": 2, "BATCH_SIZE": 4}.items():
        monkeypatch.setattr(sync, name, value)
    sessions = [await db.run(begun) for _ in range(9)]
    await db.run(rename, *sessions, *sessions)
    for number, session in enumerate(sessions):
        await db.run(aged, session, by=(20 - number) * HOUR)
    await db.run(rename, sessions[0])
    place, heard = position_token(ada.principal, Position(timezone.now() - 30 * HOUR, {})), []
    async with asyncio.timeout(60):
        while len(heard) < 28:
            async with client(ada.principal, parse_position(ada.principal, place)) as follower:
                await follower.hear(1)
                place = follower.told[-1].place
                heard += [(told.session, told.index) for told in follower.told]
    assert sorted(heard) == sorted((one, index) for one in sessions for index in range(1, 4 + (one == sessions[0])))


async def test_named_sessions_are_heard_alone(ada, begun):
    one, other = await db.run(begun), await db.run(begun)
    async with client(ada.principal, sessions=[one]) as follower:
        waiting = await listening(follower)
        await db.run(rename, other, one)
        await waiting
        assert [(told.session, told.index) for told in follower.told] == [(one, 2)]
    await db.run(rename, one)
    await db.run(aged, one)
    async with client(ada.principal, 1, [one]) as follower:
        await follower.hear(2)
        assert follower.indexes(one) == [2, 3]
    with pytest.raises(InvalidParams, match="no event with this index"):
        await opened(ada.principal, 4, [one])
    with pytest.raises(InvalidParams, match="Name one"):
        await opened(ada.principal, 1, [one, other])


async def test_gone_events_are_told_as_gone(ada, begun):
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


def position_of(follower, user):
    return sync.parse_position(user.principal, follower.stream.newest_place)


async def test_caught_up_position_forgets_the_old(ada, begun, settings):
    settings.FEED_POLL_SECONDS = 0.05
    old, young = await db.run(begun), await db.run(begun)
    async with client(ada.principal) as follower:
        before = position_of(follower, ada)
        assert before.indexes.keys() == {old, young}
        waiting = await listening(follower)
        await db.run(aged, old)
        await until(lambda: old not in position_of(follower, ada).indexes)
        assert position_of(follower, ada).at > before.at, "an idle one moves on"
        assert position_of(follower, ada).indexes.keys() <= {young}
        await db.run(rename, old)
        await waiting
        assert follower.indexes(old) == [2]


async def test_slow_stream_hears_of_the_deletion_instead(ada, begun, settings):
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


async def test_stream_far_behind_delays_no_other(ada, begun, monkeypatch):
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


HOUR = datetime.timedelta(hours=1)


def aged(*contexts, by=HOUR):
    for context in Context.objects.filter(pk__in=contexts):
        Context.objects.filter(pk=context.pk).update(
            created_at=context.created_at - by, updated_at=context.updated_at - by
        )
        for event in Event.objects.filter(context=context):
            rewrite(Event.objects.filter(pk=event.pk), at=event.at - by)


def told(changes):
    return {row.pk for row in changes.sessions}


@pytest.mark.django_db
def test_tokens_hold_positions_of_their_owner(ada, bob, monkeypatch, settings):
    position = Position(timezone.now(), {uuid.uuid4(): index for index in (0, 1, 2**32, 2**40 - 1)})
    text = position_token(ada.principal, position)
    assert parse_position(ada.principal, text) == position
    assert text.replace("-", "").replace("_", "").replace("=", "").replace(".", "").isalnum()
    many = Position(timezone.now(), {uuid.uuid4(): index for index in range(1000)})
    long = position_token(ada.principal, many)
    assert len(long) < 6000
    assert parse_position(ada.principal, long).indexes == dict(list(many.indexes.items())[-sync.MAX_SESSIONS :])
    with pytest.raises(InvalidParams, match="position is not valid"):
        parse_position(bob.principal, text)
    for spoiled in ("", text[:-1], text + "é\0"):
        with pytest.raises(InvalidParams):
            parse_position(ada.principal, spoiled)
    with monkeypatch.context() as later:
        later.setattr(sync, "TOKEN_FORMAT", 2)
        newer = position_token(ada.principal, Position(timezone.now(), {}))
    with pytest.raises(InvalidParams, match="another version"):
        parse_position(ada.principal, newer)
    young = timezone.now() - datetime.timedelta(days=settings.SYNC_DAYS - 1)
    assert parse_position(ada.principal, position_token(ada.principal, Position(young, {})))
    old = young - datetime.timedelta(days=2)
    with pytest.raises(PositionTooOld):
        parse_position(ada.principal, position_token(ada.principal, Position(old, {})))


def test_changes_are_told_once(ada, echo, begun):
    renamed, deleted, quiet, old = begun(), begun(contextId="deleted"), begun(), begun()
    aged(old)
    before = sync.current_position(ada.principal)
    assert old not in before.indexes
    rename(renamed)
    rename(old)
    deletion.delete_context(ada.principal, echo, "deleted")
    begun(contextId="short-lived")
    deletion.delete_context(ada.principal, echo, "short-lived")  # no tombstone for a client that never knew it
    created = begun()
    changes = sync.changes_since(ada.principal, before)
    assert told(changes) == {renamed, created, old}
    assert changes.created == [created]
    assert changes.deleted == [deleted]
    again = sync.changes_since(ada.principal, changes.position)
    assert (again.sessions, again.deleted, again.more) == ([], [], False)
    assert quiet not in told(changes)
    rename(quiet)
    aged(quiet)
    lacking, knowing = [sync.changes_since(ada.principal, Position(timezone.now(), {quiet: n})) for n in (1, 2)]
    assert (quiet in told(lacking), quiet in told(knowing)) == (True, False), "what somebody lacks, however old"


def test_reading_ends_however_many_changed(ada, begun, monkeypatch):
    monkeypatch.setattr(sync, "MAX_SESSIONS", 4)
    sessions = {begun() for _ in range(15)}
    position, pages = Position(timezone.now() - HOUR, {}), []
    while (not pages or pages[-1].more) and len(pages) < 20:
        pages.append(sync.changes_since(ada.principal, position, limit=3))
        position = parse_position(ada.principal, position_token(ada.principal, pages[-1].position))
    assert len(pages) == 5
    assert {row.pk for page in pages for row in page.sessions} == sessions
    rename(next(iter(sessions)))
    assert next(iter(sessions)) in told(sync.changes_since(ada.principal, position, limit=100))


@pytest.mark.services("needs several processes or a real broker", only=True)
def test_late_commits_are_not_missed(ada, begun):
    session, added, commit = begun(), threading.Event(), threading.Event()
    aged(session)

    def write():
        with ledger.writing(session) as log:
            log.add(EventType.SESSION_RENAMED, {"title": "late"})
            added.set()
            assert commit.wait(30)

    with ThreadPoolExecutor(1) as threads:
        writing = started(threads, write)
        assert added.wait(30)
        looked = sync.changes_since(ada.principal, sync.current_position(ada.principal))
        assert told(looked) == set()
        commit.set()
        writing.result()
    assert Event.objects.filter(context=session).last().at < looked.position.at
    assert told(sync.changes_since(ada.principal, looked.position)) == {session}
    [missed] = sync.missed_events(ada.principal, looked.position)
    assert (missed.after, missed.last) == (1, 2)


def test_missed_events_are_told_by_session(ada, echo, begun):
    young, old, gone = begun(), begun(), begun(contextId="gone")
    rename(old)
    aged(old)
    before = sync.current_position(ada.principal)
    rename(young, old, old, old)
    plain, fork = begun(), begun()
    rename(*[fork] * 4)
    Context.objects.filter(pk=fork).update(forked_at=3)
    deletion.delete_context(ada.principal, echo, "gone")
    Context.objects.filter(pk=begun()).update(parent_task=uuid.uuid4())  # between agents, so in no list
    missed = {one.session: one for one in sync.missed_events(ada.principal, before)}
    assert missed.pop(gone).is_deleted
    found = {session: (one.after, one.last) for session, one in missed.items()}
    assert found == {young: (1, 2), old: (2, 5), plain: (0, 1), fork: (3, 5)}
