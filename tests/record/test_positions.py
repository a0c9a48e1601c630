"""A sync cursor covers all of a person's sessions and misses nothing."""

import datetime
import threading
import uuid

import pytest
from django.db import connection, transaction
from django.utils import timezone

from apps.accounts.principals import ANONYMOUS
from apps.features.sessions import deletion
from apps.record import ledger, sync
from apps.record.errors import InvalidParams
from apps.record.events import EventType
from apps.record.models import Context, Event
from apps.record.sync import Position, PositionTooOld, parse_position, position_token
from tests.emptying import rewrite
from tests.record.lineages import rename

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
class TestTokens:
    def test_a_token_comes_back_as_the_position_it_was_made_of(self, ada):
        position = Position(timezone.now(), {uuid.uuid4(): index for index in (0, 1, 2**32, 2**40 - 1)})
        text = position_token(ada.principal, position)
        assert parse_position(ada.principal, text) == position
        assert text.replace("-", "").replace("_", "").replace("=", "").replace(".", "").isalnum()

    def test_a_token_stays_small_however_much_moved(self, ada):
        position = Position(timezone.now(), {uuid.uuid4(): index for index in range(1000)})
        text = position_token(ada.principal, position)
        assert len(text) < 6000
        assert parse_position(ada.principal, text).indexes == dict(list(position.indexes.items())[-sync.MAX_SESSIONS :])

    def test_a_token_of_somebody_else_or_of_a_later_format_or_that_was_changed_is_none(self, ada, bob, monkeypatch):
        whole = position_token(ada.principal, Position(timezone.now(), {}))
        with pytest.raises(InvalidParams, match="position is not valid"):
            parse_position(bob.principal, whole)
        for spoiled in ("", whole[:-1], f"A{whole}", whole + "é\0"):
            with pytest.raises(InvalidParams):
                parse_position(ada.principal, spoiled)
        with monkeypatch.context() as later:
            later.setattr(sync, "TOKEN_FORMAT", 2)
            newer = position_token(ada.principal, Position(timezone.now(), {}))
        with pytest.raises(InvalidParams, match="another version"):
            parse_position(ada.principal, newer)

    def test_a_token_that_is_too_old_says_so(self, ada, settings):
        young = timezone.now() - datetime.timedelta(days=settings.SYNC_DAYS - 1)
        assert parse_position(ada.principal, position_token(ada.principal, Position(young, {})))
        old = young - datetime.timedelta(days=2)
        with pytest.raises(PositionTooOld):
            parse_position(ada.principal, position_token(ada.principal, Position(old, {})))


@pytest.mark.django_db(transaction=True)
@pytest.mark.services("what changed is found by SQL, by what committed")
class TestChanges:
    def test_what_is_created_renamed_and_deleted_is_told_once(self, ada, echo, begun):
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

    def test_nobody_hears_of_what_others_do(self, ada, bob, begun):
        before = sync.current_position(bob.principal)
        begun()
        for who, since in ((bob.principal, before), (ANONYMOUS, sync.current_position(ANONYMOUS))):
            changes = sync.changes_since(who, since)
            assert (changes.sessions, changes.position.indexes) == ([], {})

    def test_many_changes_come_in_pages_and_each_once(self, ada, begun):
        sessions = [begun() for _ in range(7)]
        for number, session in enumerate(sessions):
            aged(session, by=datetime.timedelta(seconds=200 - 30 * number))
        position, pages = Position(timezone.now() - HOUR, {}), []
        while not pages or pages[-1].more:
            pages.append(sync.changes_since(ada.principal, position, limit=2))
            position = parse_position(ada.principal, position_token(ada.principal, pages[-1].position))
        assert [len(page.sessions) for page in pages] == [2, 2, 2, 1]
        assert [row.pk for page in pages for row in page.sessions] == sessions
        assert [key for page in pages for key in page.created] == sessions

    def test_reading_comes_to_an_end_however_many_changed_in_one_minute(self, ada, begun, monkeypatch):
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

    def test_what_changes_between_two_pages_is_told_with_the_last(self, ada, begun):
        sessions = [begun() for _ in range(3)]
        before = Position(timezone.now() - HOUR, {})
        page = sync.changes_since(ada.principal, before, limit=2)
        rename(sessions[0])
        assert told(sync.changes_since(ada.principal, page.position)) == {sessions[0], sessions[2]}

    def test_who_lacks_something_old_of_a_session_is_told_of_it(self, ada, begun):
        session = begun()
        rename(session)
        aged(session)
        changes = sync.changes_since(ada.principal, Position(timezone.now(), {session: 1}))
        assert told(changes) == {session}
        assert told(sync.changes_since(ada.principal, Position(timezone.now(), {session: 2}))) == set()

    def test_it_takes_one_query_or_two_whatever_changed(self, ada, begun, django_assert_num_queries):
        sessions = 7
        for _ in range(sessions):
            aged(begun())
        with django_assert_num_queries(1):
            before = sync.current_position(ada.principal)
        for context in Context.objects.all():
            rename(context.pk)
        with django_assert_num_queries(1):
            assert len(sync.changes_since(ada.principal, before).sessions) == sessions
        with django_assert_num_queries(1):
            assert len(sync.missed_events(ada.principal, before)) == sessions
        aged(*Context.objects.values_list("pk", flat=True))
        lacking = Position(before.at, {context.pk: 1 for context in Context.objects.all()})
        with django_assert_num_queries(2):
            assert len(sync.changes_since(ada.principal, lacking).sessions) == sessions
        with django_assert_num_queries(2):
            assert len(sync.missed_events(ada.principal, lacking)) == sessions

    def test_it_is_found_along_the_index_of_an_owners_sessions(self, ada):
        found = Context.objects.ever_visible_to(ada.principal).listed()
        with transaction.atomic(), connection.cursor() as cursor:
            if connection.vendor == "postgresql":  # which scans tables of few rows
                cursor.execute("SET LOCAL enable_seqscan = off")
                cursor.execute("SET LOCAL enable_sort = off")
                cursor.execute("DROP INDEX contexts_by_update")  # as cheap while there are few rows, of one owner
            plan = found.filter(updated_at__gt=timezone.now()).order_by("updated_at", "pk").explain()
            transaction.set_rollback(True)
        assert "listed_contexts_of_an_owner" in plan

    @pytest.mark.services("needs several processes or a real broker", only=True)
    def test_what_commits_late_is_not_missed(self, ada, begun):
        session, added, commit = begun(), threading.Event(), threading.Event()
        aged(session)

        def write():
            with ledger.writing(session) as log:
                log.add(EventType.SESSION_RENAMED, {"title": "late"})
                added.set()
                assert commit.wait(30)
            connection.close()

        writer = threading.Thread(target=write)
        writer.start()
        assert added.wait(30)
        looked = sync.changes_since(ada.principal, sync.current_position(ada.principal))
        assert told(looked) == set()
        commit.set()
        writer.join()
        assert Event.objects.filter(context=session).last().at < looked.position.at
        assert told(sync.changes_since(ada.principal, looked.position)) == {session}
        [missed] = sync.missed_events(ada.principal, looked.position)
        assert (missed.after, missed.last) == (1, 2)


@pytest.mark.django_db(transaction=True)
@pytest.mark.services("what changed is found by SQL, by what committed")
class TestStretches:
    def test_of_a_session_young_or_old_what_was_recorded_since_is_new(self, ada, begun):
        young, old = begun(), begun()
        rename(old)
        aged(old)
        before = sync.current_position(ada.principal)
        rename(young, old, old, old)
        found = {missed.session: (missed.after, missed.last) for missed in sync.missed_events(ada.principal, before)}
        assert found == {young: (1, 2), old: (2, 5)}

    def test_of_a_new_session_everything_is_new_but_of_a_fork_its_past(self, ada, begun):
        before = sync.current_position(ada.principal)
        plain, fork = begun(), begun()
        rename(*[fork] * 4)
        Context.objects.filter(pk=fork).update(forked_at=3)
        found = {missed.session: (missed.after, missed.last) for missed in sync.missed_events(ada.principal, before)}
        assert found == {plain: (0, 1), fork: (3, 5)}

    def test_a_session_that_is_gone_is_marked(self, ada, echo, begun):
        session = begun(contextId="gone")
        before = sync.current_position(ada.principal)
        deletion.delete_context(ada.principal, echo, "gone")
        [missed] = sync.missed_events(ada.principal, before)
        assert (missed.session, missed.is_deleted) == (session, True)

    def test_conversations_between_agents_are_nobodys_sessions(self, ada, begun):
        before = sync.current_position(ada.principal)
        Context.objects.filter(pk=begun()).update(parent_task=uuid.uuid4())
        assert sync.missed_events(ada.principal, before) == []
        assert sync.changes_since(ada.principal, before).sessions == []
