"""The log alone gives the rows; a difference between them is found and named."""

import uuid

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from agentkit import Artifact, Completed, InputRequired
from apps.conversations import canceling, intake, replay
from apps.conversations.events import EventType
from apps.conversations.models import Accepted, Context, Event, Message, Run, Task
from apps.conversations.models import Artifact as ArtifactRow
from tests.working import begin, chunk, end, say

pytestmark = pytest.mark.django_db


@pytest.fixture
def context(ada, echo, said):
    """A conversation of two tasks, one of two turns, with what was streamed and what was delivered."""
    sent = intake.accept(ada.principal, echo, said("first", contextId="talk"))
    held = begin(sent.run)
    say(held, chunk("lines", "1\n", last=False), chunk("lines", "2\n", append=True))
    end(held, InputRequired("Which?", slot="word"))
    answer = intake.accept(ada.principal, echo, said("this", taskId=str(sent.task)))
    end(begin(answer.run), Completed("done", [Artifact.json("data", {"large": 2**60})]))
    again = intake.accept(ada.principal, echo, said("more", contextId="talk"))
    canceling.cancel(ada.principal, echo, str(again.task))
    return sent.context


def rows_of(context):
    rows = [
        *Context.objects.filter(pk=context),
        *Task.objects.filter(context=context).order_by("created_at"),
        *Message.objects.filter(context=context),
        *ArtifactRow.objects.filter(task__context=context),
    ]
    return [replay.values_of(row) for row in rows]


def test_the_rebuilt_rows_written_into_emptied_tables_are_the_rows(context):
    before = rows_of(context)
    assert len(before) == 1 + 2 + 5 + 2
    rebuilt = replay.rebuild(context)
    for model in (Accepted, Run, ArtifactRow, Message, Task, Context):
        model.objects.all()._raw_delete("default")
    for row in rebuilt.rows():
        row.save(force_insert=True)
    assert rows_of(context) == before
    assert replay.differences(context) == []


@pytest.mark.parametrize(
    ("model", "change"),
    [
        (Context, {"title": "other"}),
        (Task, {"state": "failed"}),
        (Task, {"references": []}),
        (Message, {"parts": []}),
        (ArtifactRow, {"state": "discarded"}),
        (ArtifactRow, {"digest": ""}),
    ],
)
def test_a_row_that_was_changed_around_the_ledger_is_found(context, model, change):
    model.objects.order_by("-pk").update(**change)
    found = replay.differences(context)
    assert found
    assert all(next(iter(change)) in line for line in found)


def test_rows_without_events_and_events_without_rows_are_found(context):
    lost = Message.objects.filter(context=context, role=Message.Role.AGENT).first()
    lost.delete()
    assert replay.differences(context) == [f"Message {lost.index} is missing"]
    lost.index, lost.pk = 1000, uuid.uuid4()
    lost.save(force_insert=True)
    assert f"Message {lost.index} has no events" in replay.differences(context)


def test_a_gap_is_found(context):
    Event.objects.filter(context=context, type=EventType.AGENT_START).first().delete()
    assert any("is at index" in line for line in replay.differences(context))


def test_the_command_says_so_by_its_exit_code(context, capsys):
    call_command("replay", str(context))
    Context.objects.update(title="other")
    with pytest.raises((SystemExit, CommandError)):
        call_command("replay", str(context))
