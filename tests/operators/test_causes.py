"""A task's page says why it waits, or how it ended."""

import datetime
import json
from functools import partial

import pytest
from django.urls import reverse
from django.utils import timezone

from agentkit import Artifact, AuthRequired, Completed, Failed, InputRequired
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.engine import accept, activity, cancel
from apps.features.housekeeping.models import ServerProcess
from apps.installation.models import Activity
from apps.operators.actions import bulk
from apps.operators.work.causes import causes_of
from apps.operators.work.task_actions import CANCEL
from apps.record.execution import Run
from apps.record.models import Task, TaskState
from apps.remote.models import Breaker, OpenWork
from console.cells import page_url
from tests.working import begin, end, let_the_lease_run_out

pytestmark = pytest.mark.django_db


def told(task: Task) -> str:
    """All that the panel says about it."""
    fresh = Task.objects.select_related("agent", "owner").get(pk=task.pk)
    return " ".join(f"{cause.sentence} {cause.lines}" for cause in causes_of(fresh))


def queued_long_ago(task: Task) -> None:
    Run.objects.filter(task=task).update(queued_at=timezone.now() - datetime.timedelta(minutes=10))


def worker(**fields) -> None:
    now = timezone.now()
    known = {"kind": "worker", "host": "host", "version": "1", "started_at": now, "seen_at": now}
    ServerProcess.objects.create(**known | fields)


class TestInTheQueue:
    def test_a_new_run_is_about_to_start(self, task):
        assert "just queued" in told(task)

    def test_the_tasks_that_it_depends_on_are_linked(self, task, ada, echo, said):
        sent = accept.accept(ada.principal, echo, said(metadata={"dependsOn": [str(task.pk)]}))
        shown = told(Task.objects.get(pk=sent.task))
        assert "It starts when these tasks are completed." in shown
        assert page_url(Task, task.pk) in shown

    def test_no_worker_was_seen(self, task):
        queued_long_ago(task)
        assert "No worker was seen" in told(task)

    def test_all_workers_are_full(self, task):
        queued_long_ago(task)
        worker(pid=1, busy=3, capacity=3)
        assert "All workers are full: 3 runs in 1 process." in told(task)
        worker(pid=2, busy=2, capacity=3)
        assert "none has claimed it" in told(task)

    def test_a_worker_without_a_heartbeat_does_not_count(self, task):
        queued_long_ago(task)
        worker(pid=1, capacity=3, seen_at=timezone.now() - datetime.timedelta(minutes=5))
        assert "No worker was seen" in told(task)

    def test_its_agent_or_all_agents_are_paused(self, task, echo):
        activity.set_activity(echo, Activity.PAUSED)
        assert "Echo is paused" in told(task)
        activity.set_activity(echo, Activity.ACTIVE)
        activity.set_activity_of_all(Activity.PAUSED, None)
        assert "All agents are paused" in told(task)


class TestRunning:
    def test_its_worker_lease_attempt_and_fence_are_told(self, task):
        working = begin(task.runs.get().pk, "host:1:abc:7")
        said = told(task)
        assert "Echo works on turn 1" in said
        assert "host:1:abc:7" in said
        assert f"('fence', {working.lease.fence})" in said

    def test_a_lost_lease_says_what_the_sweep_does(self, task):
        let_the_lease_run_out(begin(task.runs.get().pk).lease)
        assert "lost the lease" in told(task)
        assert "gives it to another worker" in told(task)
        Agent.objects.update(retry_safe=False)
        assert "fails it" in told(task)

    def test_a_lost_run_of_a_paused_agent_waits_for_it_to_be_resumed(self, task, echo):
        let_the_lease_run_out(begin(task.runs.get().pk).lease)
        for pause in (partial(activity.set_activity, echo), lambda wanted: activity.set_activity_of_all(wanted, None)):
            pause(Activity.PAUSED)
            assert "when an operator resumes" in told(task)
            assert "next sweep" not in told(task)
            pause(Activity.ACTIVE)
            assert "next sweep" in told(task)

    def test_children_that_it_waits_for_are_linked(self, task, ada, countdown, said):
        begin(task.runs.get().pk)
        child = accept.accept(ada.principal, countdown, said(), parent=task.pk, sender=f"task:{task.pk}").task
        assert page_url(Task, child) in told(task)

    def test_a_remote_agent_that_fails_is_told_with_its_breaker(self, task):
        Agent.objects.update(kind=Agent.Kind.REMOTE, handler="")
        begin(task.runs.get().pk)
        OpenWork.objects.create(agent=task.agent, task=task.pk, run=task.runs.get().pk, remote_task="far-away-7")
        assert "far-away-7" in told(task)
        now = timezone.now()
        later = now + datetime.timedelta(minutes=5)
        Breaker.objects.create(agent=task.agent, opened_at=now, retry_at=later, error="It answers 502.")
        assert "held back" in told(task)
        assert "It answers 502." in told(task)


class TestWaitingForAPerson:
    def test_the_question_and_who_may_answer(self, task):
        end(begin(task.runs.get().pk), InputRequired("Which color?"))
        assert "Which color?" in told(task)
        assert "ada@example.org" in told(task) or "Ada" in told(task)

    def test_a_credential_is_told_without_its_link(self, admin_client, ada, said):
        calendar = register_hosted("calendar", "tests.engine.agents:Calendar")
        task = Task.objects.get(pk=accept.accept(ada.principal, calendar, said()).task)
        end(begin(task.runs.get().pk), AuthRequired("Your key?", service="calendar of ada"))
        assert "calendar of ada" in told(task)
        task.refresh_from_db()
        link = task.status_message["metadata"]["url"]
        token = link.rpartition("/")[2]
        for page in (page_url(Task, task.pk), reverse("admin:record_task_json", args=[task.pk])):
            assert token not in admin_client.get(page).content.decode()


class TestAtTheEnd:
    def test_a_failure_has_its_code(self, task):
        end(begin(task.runs.get().pk), Failed("No paper left.", "no_paper"))
        assert "It failed: No paper left." in told(task)
        assert "no_paper" in told(task)

    def test_a_cancel_says_who(self, task, ada, echo, said, django_user_model):
        other = Task.objects.get(pk=accept.accept(ada.principal, echo, said()).task)
        cancel.cancel_task(other)
        assert "its owner" in told(other)
        operator = django_user_model.objects.create_superuser("root@example.org", "root")
        bulk.begin(CANCEL, operator, [task.pk])
        assert "root@example.org" in told(task)


def test_the_page_shows_causes_timeline_and_json(admin_client, task):
    begin(task.runs.get().pk, "host:1:abc:7")
    page = admin_client.get(page_url(Task, task.pk)).content.decode()
    assert 'id="causes"' in page
    assert f'id="queued-{task.runs.get().pk}"' in page
    answer = admin_client.get(reverse("admin:record_task_json", args=[task.pk]))
    shown = json.loads(answer.content)
    assert (shown["id"], shown["status"]["state"]) == (str(task.pk), TaskState.WORKING.wire)
    run = json.loads(admin_client.get(reverse("admin:record_run_json", args=[task.runs.get().pk])).content)
    assert run["worker"] == "host:1:abc:7"


def test_the_json_is_for_who_may_view_the_task(operator_with, task):
    address = reverse("admin:record_task_json", args=[task.pk])
    assert operator_with("view_run").get(address).status_code == 403
    assert operator_with("view_task").get(address).status_code == 200


def test_a_tasks_json_has_messages_and_artifacts_for_who_may_view_those(operator_with, task):
    end(begin(task.runs.get().pk), Completed("final words", [Artifact.text("answer", "its content")]))
    texts = {"history": "first words", "artifacts": "its content"}
    for permissions, seen in (
        ((), set()),
        (("view_message",), {"history"}),
        (("view_artifact",), {"artifacts"}),
        (("view_message", "view_artifact"), {"history", "artifacts"}),
    ):
        viewer = operator_with("view_task", *permissions)
        shown = viewer.get(reverse("admin:record_task_json", args=[task.pk])).content.decode()
        assert {name for name in texts if name in json.loads(shown)} == seen
        page = viewer.get(page_url(Task, task.pk)).content.decode()
        for text in (shown, page):
            assert {name for name, words in texts.items() if words in text} == seen
