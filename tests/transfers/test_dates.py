"""Imported sessions have the dates of their conversations, and readers of the log get them all the same."""

import datetime

import pytest
from django.utils import timezone

from apps.conversations.sessions import deletion
from apps.optional.transfers.importing import import_file
from apps.record import projection
from apps.record.models import Context, Message
from apps.record.reading import sync
from apps.record.reading.sync import Position
from tests.transfers import samples

pytestmark = pytest.mark.django_db

THEN = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)


def seconds_after(*rows):
    return [round((row - THEN).total_seconds(), 1) for row in rows]


def imported(person, agent, *conversations):
    return [one.session for one in import_file(person.principal, agent, samples.as_bytes(*conversations)).results]


def test_session_and_messages_are_dated_as_they_were(ada, echo):
    chat = samples.chatgpt()
    for later, name in enumerate(("asked", "new")):
        chat["mapping"][name]["message"]["create_time"] = THEN.timestamp() + 60 * later
    [session] = imported(ada, echo, chat)
    row = Context.objects.get(pk=session)
    said = Message.objects.filter(context=session).order_by("index").values_list("created_at", flat=True)
    assert seconds_after(*said, row.created_at, row.updated_at) == [0, 60, 0, 60]
    assert projection.differences(session) == []


def test_synchronized_client_gets_imports_in_pages(ada, echo):
    before = Position(timezone.now(), {})
    sessions = imported(ada, echo, *(samples.open_webui() | {"title": str(number)} for number in range(3)))
    everything = set(Context.objects.of(ada.principal).values_list("pk", flat=True))
    position, got, more = before, list[Context](), True
    while more:
        changes = sync.changes_since(ada.principal, position, limit=2)
        position, more = changes.position, changes.more
        got += changes.sessions
        assert {one.pk for one in changes.sessions} == set(changes.created)
    assert {one.pk for one in got} == everything >= set(sessions)
    missed = {one.session: (one.after, one.last) for one in sync.missed_events(ada.principal, before)}
    assert missed.keys() == everything
    assert missed[sessions[0]] == (0, 3)


def test_retention_counts_from_the_import(ada, echo):
    imported(ada, echo, samples.chatgpt())
    workspace = ada.personal_workspace
    workspace.retention_days = 30
    workspace.save()
    assert not deletion.expired_sessions().exists()
    long_ago = timezone.now() - datetime.timedelta(days=31)
    Context.objects.update(imported_at=long_ago)
    assert deletion.expired_sessions().count() == 2
