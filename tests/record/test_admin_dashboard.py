"""Admin's dashboard counts states, and each number links to its rows."""

import datetime
import re

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import User
from apps.engine import accept
from apps.record.models import Run, Task

pytestmark = pytest.mark.django_db


@pytest.fixture
def task(ada, echo, said) -> Task:
    return Task.objects.get(pk=accept.accept(ada.principal, echo, said("hi")).task)


def dashboard(client) -> str:
    answer = client.get(reverse("admin:index"))
    assert answer.status_code == 200
    return answer.content.decode()


def numbers(shown: str) -> dict[str, int]:
    pairs = re.findall(r"</svg>([\w-]+)</span>\s*</dt>\s*<dd>\s*<a [^>]*>(\d+)</a>", shown)
    return {state: int(number) for state, number in pairs}


def test_it_counts_the_tasks_of_a_day_and_the_runs_of_now_and_leads_to_them(admin_client, task, ada, echo, said):
    shown = dashboard(admin_client)
    assert set(numbers(shown).values()) == {0, 1}
    for link in re.findall(r'<dd>\s*<a class="console-link" href="([^"]+)">1</a>', shown):
        assert admin_client.get(link.replace("&amp;", "&")).context["cl"].result_count == 1
    old = accept.accept(ada.principal, echo, said("old"))
    Task.objects.filter(pk=old.task).update(status_at=timezone.now() - datetime.timedelta(hours=25))
    with CaptureQueriesContext(connection) as captured:
        counted = numbers(dashboard(admin_client))
    assert (counted["submitted"], counted["queued"], counted["running"]) == (1, 2, 0)
    assert len([query for query in captured if "record_" in query["sql"]]) == 4
    assert len(captured) <= 8


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
    assert "queued" in shown
    assert "completed" not in shown
