"""Operators run tasks again, and see an agent's health and what people say of it."""

import uuid

import pytest
from django.contrib.auth.models import Permission
from django.urls import reverse

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.conversations.sessions import commands
from apps.engine import accept
from apps.health.monitoring import examine_agents, measure_agents
from apps.record import projection
from apps.record.models import Message, Task
from tests.chosen_rows import act
from tests.health.test_health import make_runs

pytestmark = pytest.mark.django_db


@pytest.fixture
def task(ada, echo, said):
    message = said("first words", metadata={"lang": "en"})
    return Task.objects.get(pk=accept.accept(ada.principal, echo, message).task)


def run_again(client, task):
    answer = act(client, Task, "run_again_selected", task)
    return " ".join(str(message) for message in answer.context["messages"])


def page_of(client, row):
    name = f"admin:{row._meta.app_label}_{row._meta.model_name}_change"
    return client.get(reverse(name, args=[row.pk])).content.decode()


def test_task_is_run_again_for_its_owner(admin_client, task, ada, countdown):
    run_again(admin_client, task)
    old, new = Task.objects.order_by("created_at")
    assert (new.context, new.owner, new.agent) == (task.context, ada, task.agent)
    assert (old, new.references, new.runs.get().state) == (task, [str(task.pk)], "queued")
    first, second = Message.objects.order_by("index")
    assert (second.task, second.parts, second.metadata) == (new, first.parts, {"lang": "en"})
    assert second.message_id != first.message_id
    assert projection.differences(task.context_id) == []
    Task.objects.filter(pk=task.pk).update(agent=countdown)  # its context belongs to another agent
    assert "1 failed" in run_again(admin_client, task)
    assert Task.objects.count() == 2


@pytest.fixture
def rated(ada, echo, said):
    """Of the agent: turns, a rating and an ailment."""
    make_runs(ada, echo, *[("done", 0.5, 2.0)] * 15, ("failed", 0, 1.0), *[("canceled", 0, 1.0)] * 4)
    task = accept.accept(ada.principal, echo, said()).task
    commands.give_feedback(ada.principal, echo, str(task), {"rating": 1, "feedback": "never <b>again</b>"})
    Agent.objects.filter(pk=echo.pk).update(handler="gone_agents:Gone")
    measure_agents()
    examine_agents()
    return echo


def test_agents_page_shows_health_and_feedback(admin_client, rated, django_assert_max_num_queries):
    with django_assert_max_num_queries(20):
        page = page_of(admin_client, rated)
    for shown in ("2.0 s, 95% within 2.0 s", "94% of 16", "gone_agents", "never &lt;b&gt;again&lt;/b&gt;"):
        assert shown in page


def test_viewers_of_agents_see_no_runs_or_feedback(client, rated):
    viewer = User.objects.create_user(f"{uuid.uuid4()}@example.org", is_staff=True)
    viewer.user_permissions.set(Permission.objects.filter(codename="view_agent"))
    client.force_login(viewer)
    page = page_of(client, rated)
    assert "never &lt;b&gt;" not in page
    assert 'role="img"' not in page
    assert "turns waiting or running" in page
    assert client.get(reverse("admin:record_feedback_changelist")).status_code == 403
