"""Task states change only along the table, by compare-and-swap; ended tasks ignore everything."""

import uuid

import pytest
from django.db import DatabaseError, connection, transaction

from agentkit import Completed, Failed, InputRequired
from apps.conversations.sessions import deletion
from apps.engine import accept, cancel
from apps.record import ledger, projection
from apps.record.errors import TaskFinished, TaskNotCancelable
from apps.record.events import EventType
from apps.record.execution import Run
from apps.record.ledger import StaleWrite
from apps.record.models import TERMINAL_STATES, Context, IllegalTransition, Task, TaskState
from apps.record.runs import LeaseLost
from tests.working import begin, chunk, end, log_of, say, state_of

pytestmark = [pytest.mark.django_db, pytest.mark.services("transitions are a compare-and-swap of the database")]

S = TaskState
ANSWERED = {S.WORKING, S.CANCELED, S.FAILED, S.REJECTED}
ALLOWED = {
    S.SUBMITTED: {S.WORKING, S.REJECTED, S.CANCELED, S.FAILED},
    S.WORKING: set(S) - {S.SUBMITTED},
    S.INPUT_REQUIRED: ANSWERED,
    S.AUTH_REQUIRED: ANSWERED,
    **{ended: set() for ended in (S.COMPLETED, S.FAILED, S.REJECTED, S.CANCELED)},
}
WAY_TO = {S.SUBMITTED: [], S.REJECTED: [S.REJECTED], S.CANCELED: [S.CANCELED], S.FAILED: [S.FAILED]}


@pytest.fixture
def sent(ada, echo, said):
    return accept.accept(ada.principal, echo, said())


def move(sent, *states):
    for state in states:
        with ledger.writing(sent.context) as log:
            log.add(EventType.AGENT_STATUS, {"state": state}, task=sent.task)


@pytest.mark.parametrize("old", S)
def test_every_transition_is_as_the_table_says(ada, echo, said, old):
    for new in S:
        sent = accept.accept(ada.principal, echo, said())
        move(sent, *WAY_TO.get(old, [S.WORKING] if old == S.WORKING else [S.WORKING, old]))
        before = log_of(sent.context)
        if new in ALLOWED[old]:
            move(sent, new)
            assert state_of(sent.task) == new
        else:
            with pytest.raises(IllegalTransition):
                move(sent, new)
            assert (state_of(sent.task), log_of(sent.context)) == (old, before), new
        assert projection.differences(sent.context) == []


def test_terminal_states_have_no_successor():
    assert {state for state in S if not ALLOWED[state]} == TERMINAL_STATES


def test_writes_go_through_the_tasks_own_log(sent, ada, echo, said):
    before = log_of(sent.context)
    with pytest.raises(StaleWrite), ledger.writing(sent.context) as log:  # noqa: PT012
        log.add(EventType.AGENT_STATUS, {"state": S.WORKING}, task=sent.task)
        Task.objects.filter(pk=sent.task).update(state=S.CANCELED)  # around the ledger
    assert log_of(sent.context) == before
    other = accept.accept(ada.principal, echo, said())
    for named in ({"task": sent.task}, {}):
        with pytest.raises(Task.DoesNotExist), ledger.writing(other.context) as log:
            log.add(EventType.AGENT_STATUS, {"state": S.WORKING}, **named)
    deletion.delete_session(ada.principal, other.context)
    with pytest.raises(LeaseLost), ledger.writing(other.context) as log:
        log.add(EventType.SESSION_RENAMED, {"title": "late"})
    with pytest.raises(Context.DoesNotExist), ledger.writing(uuid.uuid4()) as log:
        log.add(EventType.SESSION_RENAMED, {"title": "new"})


def test_late_results_and_cancels_change_nothing(sent):
    held = begin(sent.run)
    cancel.cancel_task(Task.objects.get(pk=sent.task))
    before = log_of(sent.context)
    cancel.cancel_task(Task.objects.get(pk=sent.task))
    for outcome in (Completed("late"), Failed("late"), InputRequired("late?")):
        with pytest.raises(LeaseLost):
            end(held, outcome)
    with pytest.raises(LeaseLost):
        say(held, chunk("late", "late"))
    assert state_of(sent.task) == S.CANCELED
    assert log_of(sent.context) == before


def test_late_cancel_is_noted_late_message_refused(sent, ada, echo, said):
    end(begin(sent.run), Completed("done"))
    before = log_of(sent.context)
    with pytest.raises(TaskNotCancelable):
        cancel.cancel_task(Task.objects.get(pk=sent.task))
    assert state_of(sent.task) == S.COMPLETED
    assert log_of(sent.context) == before
    assert [note["note"] for note in Run.objects.get(pk=sent.run).notes] == ["A cancel came after the task had ended."]
    with pytest.raises(TaskFinished):
        accept.accept(ada.principal, echo, said(taskId=str(sent.task)))
    assert log_of(sent.context) == before


FINISHED = {
    S.COMPLETED: [S.WORKING, S.COMPLETED],
    S.FAILED: [S.FAILED],
    S.REJECTED: [S.REJECTED],
    S.CANCELED: [S.CANCELED],
}
CHANGES = [
    "state = 'working'",
    "status_message = '{}'",
    "slot = '{}'",
    """metadata = '{"skill": "other"}'""",
    "status_at = '2020-01-01 00:00:00+00:00'",
    "status_event = status_event + 1",
]


def execute(statement, task):
    key = task if connection.vendor == "postgresql" else task.hex
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"{statement} WHERE id = %s", [key])


@pytest.mark.parametrize("state", FINISHED)
def test_database_refuses_changes_of_finished_tasks(sent, state):
    move(sent, *FINISHED[state])
    before = projection.row_values(Task.objects.get(pk=sent.task))
    for change in CHANGES:
        with pytest.raises(DatabaseError, match="A finished task does not change"):
            execute(f"UPDATE record_task SET {change}", sent.task)
    assert projection.row_values(Task.objects.get(pk=sent.task)) == before
    execute("UPDATE record_task SET state = state, parent_id = NULL", sent.task)  # references may go
    Task.objects.get(pk=sent.task).delete()
