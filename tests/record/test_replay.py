"""The log alone gives the rows; differences are found and named."""

import uuid

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import transaction

from apps.record import ledger, projection
from apps.record.events import EventType
from apps.record.execution import Accepted, Run
from apps.record.models import Artifact as ArtifactRow
from apps.record.models import Context, Message, Task
from tests.record.archiving import had_a_long_talk

pytestmark = [pytest.mark.django_db, pytest.mark.services("what the database gives back is what the log says")]


@pytest.fixture
def context(ada, echo, said):
    return had_a_long_talk(ada, echo, said).pk


def rows_of(context):
    rows = [
        *Context.objects.filter(pk=context),
        *Task.objects.filter(context=context).order_by("created_at"),
        *Message.objects.filter(context=context),
        *ArtifactRow.objects.filter(task__context=context),
    ]
    return [projection.row_values(row) for row in rows]


def test_the_rebuilt_rows_written_into_emptied_tables_are_the_rows(context):
    before = rows_of(context)
    assert len(before) == 1 + 2 + 5 + 3
    rebuilt = projection.rebuild(context)
    for model in (Accepted, Run, ArtifactRow, Message, Task, Context):
        model.objects.all()._raw_delete("default")
    for row in rebuilt.rows():
        row.save(force_insert=True)
    assert rows_of(context) == before
    assert projection.differences(context) == []


def test_a_row_that_was_changed_around_the_ledger_is_found(context):
    for model, change in [
        (Context, {"title": "other"}),
        (Task, {"first_event": 1000}),
        (Task, {"references": []}),
        (Message, {"parts": []}),
        (ArtifactRow, {"state": "discarded"}),
        (ArtifactRow, {"digest": ""}),
    ]:
        with transaction.atomic():
            model.objects.order_by("-pk").update(**change)
            found = projection.differences(context)
            transaction.set_rollback(True)
        assert found, change
        assert all(next(iter(change)) in line for line in found)
    assert projection.differences(context) == []


def test_a_row_that_was_read_before_somebody_else_wrote_takes_nothing_of_that_back(context):
    read = Context.objects.get(pk=context)
    with ledger.writing(context) as log:
        log.add(EventType.SESSION_RENAMED, {"title": "Theirs"})
    with ledger.writing(read) as log:
        log.add(EventType.SESSION_ARCHIVED, {})
    row = Context.objects.get(pk=context)
    assert (row.title, row.archived_at is None) == ("Theirs", False)
    assert projection.differences(context) == []


def test_rows_without_events_and_events_without_rows_are_found(context):
    lost = Message.objects.filter(context=context, role=Message.Role.AGENT).first()
    lost.delete()
    assert projection.differences(context) == [f"Message {lost.index} is missing"]
    lost.index, lost.pk = 1000, uuid.uuid4()
    lost.save(force_insert=True)
    assert f"Message {lost.index} has no events" in projection.differences(context)


def test_the_command_says_so_by_its_exit_code(context, capsys):
    call_command("replay", str(context))
    Context.objects.update(title="other")
    with pytest.raises((SystemExit, CommandError)):
        call_command("replay", str(context))
