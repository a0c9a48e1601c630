"""Admin's dashboard counts states, and each number links to its rows."""

import datetime
import re

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from apps.a2a.models import Delivery, PushConfig
from apps.accounts.models import User
from apps.engine import accept
from apps.record.execution import Run
from apps.record.models import Task, TaskState
from apps.remote.models import RemoteAgent
from tests.analytics.worlds import make_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def task(ada, echo, said) -> Task:
    return Task.objects.get(pk=accept.accept(ada.principal, echo, said("hi")).task)


def dashboard(client) -> str:
    answer = client.get(reverse("admin:index"))
    assert answer.status_code == 200
    return answer.content.decode()


def numbers(shown: str) -> dict[str, int]:
    return {state: int(number) for state, _, number in tiles(shown)}


def tiles(shown: str) -> list[tuple[str, str, str]]:
    """State, link and number."""
    found = re.findall(r"</svg>([\w -]+)</span>\s*</dt>\s*<dd>\s*<a [^>]*href=\"([^\"]+)\">(\d+)</a>", shown)
    return [(state, link.replace("&amp;", "&"), number) for state, link, number in found]


@pytest.fixture
def busy(ada, echo, said) -> dict[str, int]:
    """Tasks in every state, half of them of the day before yesterday, runs, and deliveries."""
    now, long_ago = timezone.now(), timezone.now() - datetime.timedelta(days=2)
    expected: dict[str, int] = {}
    for number, state in enumerate(TaskState, start=1):
        for at in [now] * number + [long_ago]:
            task = Task.objects.get(pk=accept.accept(ada.principal, echo, said(state)).task)
            Task.objects.filter(pk=task.pk).update(state=state, status_at=at)
            task.runs.update(state="failed", finished_at=at)
        expected[state] = number + (0 if state.is_terminal else 1)
    task.runs.update(state="running", finished_at=None)
    Task.objects.filter(state="submitted").first().runs.update(state="queued", finished_at=None)
    hook = PushConfig.objects.create(task=task, config_id="1", url="https://hooks.example.org/")
    for index, state in enumerate(("waiting", "dead", "dead", "delivered")):
        Delivery.objects.create(config=hook, event_index=index, state=state)
    RemoteAgent.objects.create(agent=echo, proposed=echo.current_version)
    waiting = {name: expected[name] for name in ("input-required", "auth-required")} | {"changed cards": 1}
    faulty = {f"tasks {state}": expected[state] for state in ("failed", "rejected", "canceled")}
    ended = Run.objects.filter(finished_at__gte=now - datetime.timedelta(hours=1)).count()
    runs = {"queued": 1, "running": 1, "runs failed": ended, "runs done": 0, "runs canceled": 0}
    plans = {"plans that ask": 0, "plan runs ended": 0}
    return {**waiting, **faulty, **runs, **plans, "webhook backlog": 1, "dead letters": 2}


def test_each_number_is_what_the_record_says_and_leads_to_exactly_so_many_rows(admin_client, busy):
    shown = dashboard(admin_client)
    assert numbers(shown) == busy
    for state, link, number in tiles(shown):
        assert admin_client.get(link).context["cl"].result_count == int(number), state


def test_it_costs_as_many_queries_however_much_there_is(admin_client, busy):
    with CaptureQueriesContext(connection) as captured:
        dashboard(admin_client)
    few = len(captured)
    assert few <= 46
    for run in list(Run.objects.filter(state="failed"))[:20]:
        make_run(run.task.owner, run.task.agent, timezone.now(), state="failed", error={"code": "timed_out"})
    with CaptureQueriesContext(connection) as captured:
        dashboard(admin_client)
    assert len(captured) == few


def test_it_names_the_task_that_waits_longest_for_a_person(admin_client, task):
    nothing_waits = dashboard(admin_client)
    assert reverse("admin:record_task_change", args=[task.pk]) not in nothing_waits
    since = timezone.now() - datetime.timedelta(hours=3)
    Task.objects.filter(pk=task.pk).update(state="auth-required", status_at=since)
    shown = dashboard(admin_client)
    assert reverse("admin:record_task_change", args=[task.pk]) in shown
    assert "3 h ago" in shown


def test_it_names_the_run_that_waits_longest_and_what_failed_lately(admin_client, task, ada, echo, said):
    reason = {"parts": [{"text": "The disk is full."}]}
    Task.objects.filter(pk=task.pk).update(state="failed", status_message=reason, status_at=timezone.now())
    longest = task.runs.get()
    accept.accept(ada.principal, echo, said("later"))
    Run.objects.filter(pk=longest.pk).update(queued_at=timezone.now() - datetime.timedelta(minutes=7))
    shown = dashboard(admin_client)
    assert "7 min ago" in shown
    assert reverse("admin:record_run_change", args=[longest.pk]) in shown
    assert "The disk is full." in shown
    assert reverse("admin:record_task_change", args=[task.pk]) in shown


def test_an_operator_who_may_not_view_tasks_sees_none_of_it(client, task):
    operator = User.objects.create_user("op@example.org", "let me in", is_staff=True)
    client.force_login(operator)
    assert not numbers(dashboard(client))
    operator.user_permissions.add(Permission.objects.get(codename="view_run"))
    shown = numbers(dashboard(client))
    assert set(shown) == {"queued", "running", "runs done", "runs failed", "runs canceled"}
