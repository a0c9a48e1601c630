"""A task's page says why it waits, or how it ended."""

import datetime
import json
from functools import partial

import pytest
from django.urls import reverse
from django.utils import timezone

from agentkit import Artifact, AuthRequired, Completed
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.engine import accept, activity, cancel
from apps.housekeeping.models import ServerProcess
from apps.installation.models import Activity
from apps.operators.actions import bulk
from apps.operators.causes import causes_of
from apps.record.execution import Run
from apps.record.models import Task
from apps.remote.models import Breaker, OpenWork
from parley.faces.cells import page_url
from tests.working import begin, end, let_the_lease_run_out

pytestmark = pytest.mark.django_db


def told(task: Task) -> str:
    """All that the panel says about it."""
    fresh = Task.objects.select_related("agent", "owner").get(pk=task.pk)
    return " ".join(f"{cause.sentence} {cause.lines}" for cause in causes_of(fresh))


def worker(**fields) -> None:
    now = timezone.now()
    known = {"kind": "worker", "host": "host", "version": "1", "started_at": now, "seen_at": now}
    ServerProcess.objects.create(**known | fields)


def test_queued_tasks_say_what_they_wait_for(task, ada, echo, said):
    assert "just queued" in told(task)
    sent = accept.accept(ada.principal, echo, said(metadata={"dependsOn": [str(task.pk)]}))
    dependent = told(Task.objects.get(pk=sent.task))
    assert "It starts when these tasks are completed." in dependent
    assert page_url(Task, task.pk) in dependent
    Run.objects.filter(task=task).update(queued_at=timezone.now() - datetime.timedelta(minutes=10))
    worker(pid=1, capacity=3, seen_at=timezone.now() - datetime.timedelta(minutes=5))
    assert "No worker was seen" in told(task)
    worker(pid=2, busy=3, capacity=3)
    assert "All workers are full: 3 runs in 1 process." in told(task)
    worker(pid=3, busy=2, capacity=3)
    assert "none has claimed it" in told(task)
    activity.set_activity(echo, Activity.PAUSED)
    assert "Echo is paused" in told(task)
    activity.set_activity(echo, Activity.ACTIVE)
    activity.set_activity_of_all(Activity.PAUSED, None)
    assert "All agents are paused" in told(task)


def test_lost_leases_say_what_the_sweep_does(task, echo):
    let_the_lease_run_out(begin(task.runs.get().pk).lease)
    assert "lost the lease" in told(task)
    assert "gives it to another worker" in told(task)
    for pause in (partial(activity.set_activity, echo), lambda wanted: activity.set_activity_of_all(wanted, None)):
        pause(Activity.PAUSED)
        assert "when an operator resumes" in told(task)
        assert "next sweep" not in told(task)
        pause(Activity.ACTIVE)
        assert "next sweep" in told(task)
    Agent.objects.update(retry_safe=False)
    assert "fails it" in told(task)


def test_failing_remote_agents_are_told_with_their_breaker(task):
    Agent.objects.update(kind=Agent.Kind.REMOTE, handler="")
    begin(task.runs.get().pk)
    OpenWork.objects.create(agent=task.agent, task=task.pk, run=task.runs.get().pk, remote_task="far-away-7")
    assert "far-away-7" in told(task)
    now = timezone.now()
    later = now + datetime.timedelta(minutes=5)
    Breaker.objects.create(agent=task.agent, opened_at=now, retry_at=later, error="It answers 502.")
    assert "held back" in told(task)
    assert "It answers 502." in told(task)


def test_asked_credentials_are_told_without_their_link(admin_client, ada, said):
    calendar = register_hosted("calendar", "tests.engine.agents:Calendar")
    task = Task.objects.get(pk=accept.accept(ada.principal, calendar, said()).task)
    end(begin(task.runs.get().pk), AuthRequired("Your key?", service="calendar of ada"))
    assert "calendar of ada" in told(task)
    task.refresh_from_db()
    token = task.status_message["metadata"]["url"].rpartition("/")[2]
    for page in (page_url(Task, task.pk), reverse("admin:record_task_json", args=[task.pk])):
        assert token not in admin_client.get(page).content.decode()


def test_cancels_say_who(task, ada, echo, said, django_user_model):
    other = Task.objects.get(pk=accept.accept(ada.principal, echo, said()).task)
    cancel.cancel_task(other)
    assert "its owner" in told(other)
    operator = django_user_model.objects.create_superuser("root@example.org", "root")
    bulk.begin(bulk.ACTIONS["task.cancel"], operator, [task.pk])
    assert "root@example.org" in told(task)


def test_task_json_shows_what_the_viewer_may_see(operator_with, task):
    end(begin(task.runs.get().pk), Completed("final words", [Artifact.text("answer", "its content")]))
    texts = {"history": "first words", "artifacts": "its content"}
    assert operator_with("view_run").get(reverse("admin:record_task_json", args=[task.pk])).status_code == 403
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
