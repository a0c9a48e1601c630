"""What remains of a run whose task was deleted."""

import pytest

from agentkit import Completed, Failed, Progress
from apps.agents.models import Agent
from apps.engine import finish
from apps.features.sessions import deletion
from apps.plans import jobs, runs
from apps.plans.models import PlanRun, Step
from apps.record.models import Context, Task
from tests.plans.playing import rows, words
from tests.plans.test_engine import PATIENT, TWO

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_deleted_conversation_takes_its_runs_along(play):
    deletion.delete_session(play.ada.principal, play(TWO).context_id)
    assert not PlanRun.objects.exists()
    assert not Step.objects.exists()


def test_a_step_whose_conversation_is_deleted_has_failed(play):
    task = play(PATIENT)
    deletion.delete_session(play.ada.principal, Task.objects.get(parent=task.pk).context_id)
    jobs.sweep()
    task = play.on(task.pk)
    assert (task.state, words(task)) == ("failed", "The step “one” failed: Its session was deleted.")


def test_what_a_run_refers_to_is_not_put_into_cold_storage(play, echo):
    task, other = play(TWO), play.send(echo)
    found = {context.pk: runs.archive_obstacle(context) for context in Context.objects.all()}
    assert found.pop(other.context_id) == ""
    assert task.context_id in found
    assert set(found.values()) == {"A run of a plan refers to it."}


def test_a_task_without_a_run_is_ended_once_and_only_while_it_is_open(play):
    task = play(PATIENT)
    assert finish.record_outcome(task, Progress("half of it", 1, 2))
    assert words(Task.objects.get(pk=task.pk)) == "half of it"
    assert finish.record_outcome(task, Completed("That is all."))
    assert not finish.record_outcome(task, Failed("Or not."))
    assert not finish.record_outcome(task, Progress("more"))
    task = play.on(task.pk)
    assert (task.state, words(task), rows(task, "state")) == ("completed", "That is all.", ["canceled"])


def test_nothing_is_recorded_beside_a_run(play):
    task = play.send(Agent.objects.get(slug="patient"))
    assert not finish.record_outcome(task, Completed("Done."))
    assert play.release(task).state == "completed"
