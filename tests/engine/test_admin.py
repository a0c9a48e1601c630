"""Operators act on tasks, revoke credentials, and see an agent's health."""

import uuid

import pytest
from django.contrib.auth.models import Permission
from django.urls import reverse

from agentkit import AuthRequired
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.conversations.sessions import commands
from apps.credentials.models import Credential, CredentialRequest
from apps.engine import accept
from apps.health.monitoring import examine_agents, measure_agents
from apps.record import projection
from apps.record.models import Message, Task
from tests.health.test_health import make_runs
from tests.working import begin, end

pytestmark = pytest.mark.django_db


@pytest.fixture
def task(ada, echo, said):
    message = said("first words", metadata={"lang": "en"})
    return Task.objects.get(pk=accept.accept(ada.principal, echo, message).task)


def act(client, action, *rows, list_="record_task"):
    chosen = {"action": action, "_selected_action": [str(row.pk) for row in rows]}
    answer = client.post(reverse(f"admin:{list_}_changelist"), chosen, follow=True)
    return " ".join(str(message) for message in answer.context["messages"])


def viewer(client, *permissions):
    person = User.objects.create_user(f"{uuid.uuid4()}@example.org", is_staff=True)
    person.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client.force_login(person)
    return person


def page_of(client, row):
    name = f"admin:{row._meta.app_label}_{row._meta.model_name}_change"
    return client.get(reverse(name, args=[row.pk])).content.decode()


def test_task_is_run_again_for_its_owner(admin_client, task, ada, countdown):
    act(admin_client, "run_again_selected", task)
    old, new = Task.objects.order_by("created_at")
    assert (new.context, new.owner, new.agent) == (task.context, ada, task.agent)
    assert (old, new.references, new.runs.get().state) == (task, [str(task.pk)], "queued")
    first, second = Message.objects.order_by("index")
    assert (second.task, second.parts, second.metadata) == (new, first.parts, {"lang": "en"})
    assert second.message_id != first.message_id
    assert projection.differences(task.context_id) == []
    gone = reverse("admin:record_task_run_again", args=[uuid.uuid4()])
    assert admin_client.post(gone, {"_form_submitted": "True"}).status_code == 200
    Task.objects.filter(pk=task.pk).update(agent=countdown)  # its context belongs to another agent
    assert "1 failed" in act(admin_client, "run_again_selected", task)
    assert Task.objects.count() == 2


def test_viewers_of_tasks_change_none(client, task):
    viewer(client, "view_task")
    page = page_of(client, task)
    for button in ("cancel", "run_again"):
        address = reverse(f"admin:record_task_{button}", args=[task.pk])
        assert address not in page
        assert client.post(address, {"_form_submitted": "True"}).status_code == 403
        act(client, f"{button}_selected", task)
    assert [one.state for one in Task.objects.all()] == ["submitted"]
    viewer(client, "view_task", "change_task")
    assert "1 done" in act(client, "cancel_selected", task)


@pytest.fixture
def given(ada, echo):
    secret = {"username": "canary-name", "secret": "canary-secret"}
    return Credential.objects.create(agent=echo, user=ada, service="mail box", auth_type="basic", **secret)


def test_credential_pages_show_no_secrets(admin_client, given, ada, echo, said):
    end(begin(accept.accept(ada.principal, echo, said()).run), AuthRequired("Your key?", service="calendar of ada"))
    asked = CredentialRequest.objects.get()
    for row, shown, search in ((given, "mail box", "mail"), (asked, "calendar of ada", str(asked.task_id))):
        rows = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_changelist")
        for page in (page_of(admin_client, row), admin_client.get(rows, {"q": search}).content.decode()):
            assert shown in page
            assert "canary" not in page
            assert asked.digest not in page
        assert shown not in admin_client.get(rows, {"q": "nothing"}).content.decode()


@pytest.mark.django_db(transaction=True)  # the service is told on the event loop
def test_revoked_credential_is_erased(admin_client, client, given):
    viewer(client, "view_credential")
    act(client, "revoke_selected", given, list_="credentials_credential")
    assert Credential.objects.get().revoked_at is None, "who may only look revokes nothing"
    assert "1 done" in act(admin_client, "revoke_selected", given, list_="credentials_credential")
    given.refresh_from_db()
    assert (given.secret, given.username) == ("", "")
    assert given.revoked_at is not None
    assert "1 skipped" in act(admin_client, "revoke_selected", given, list_="credentials_credential")


def test_agents_page_shows_health_and_measures(admin_client, ada, echo, countdown, django_assert_max_num_queries):
    make_runs(ada, echo, *[("done", 0.5, 2.0)] * 15, ("failed", 0, 1.0), *[("canceled", 0, 1.0)] * 4)
    Agent.objects.filter(pk=echo.pk).update(handler="gone_agents:Gone")
    measure_agents()
    examine_agents()
    with django_assert_max_num_queries(20):
        page = page_of(admin_client, echo)
    for measure in ("2.0 s, 95% within 2.0 s", "94% of 16", "The last 20 turns: 15 done, 1 failed, 4 canceled."):
        assert measure in page
    for shown in (page, admin_client.get(reverse("admin:agents_agent_changelist")).content.decode()):
        assert "The module &#x27;gone_agents&#x27; of" in shown
    assert "gone_agents" not in page_of(admin_client, countdown)


@pytest.fixture
def rated(ada, echo, countdown, said):
    """Rated tasks: two of one agent, one of another."""
    given = ((echo, 1, "never <b>again</b>"), (echo, 5, "wonderful"), (countdown, 3, ""))
    tasks = []
    for agent, rating, text in given:
        tasks.append(Task.objects.get(pk=accept.accept(ada.principal, agent, said()).task))
        words = {"feedback": text} if text else {}
        commands.give_feedback(ada.principal, agent, str(tasks[-1].pk), {"rating": rating, **words})
    return tasks


def test_feedback_is_searched_and_stands_on_its_pages(admin_client, rated, echo):
    for query, ratings in (
        ({}, [1, 3, 5]),
        ({"task__agent__id__exact": echo.pk}, [1, 5]),
        ({"rating": "good"}, [5]),
        ({"q": "wonder"}, [5]),
        ({"q": str(rated[2].pk)}, [3]),
    ):
        answer = admin_client.get(reverse("admin:record_feedback_changelist"), query)
        assert sorted(row.rating for row in answer.context["cl"].result_list) == ratings, query
    measure_agents()
    for row in (rated[0], echo):
        assert "never &lt;b&gt;again&lt;/b&gt;" in page_of(admin_client, row)
    assert "3.0 of 5, from 2" in page_of(admin_client, echo)


def test_viewers_of_agents_see_no_runs_or_feedback(client, ada, rated, echo):
    make_runs(ada, echo, ("done", 0, 1.0))
    viewer(client, "view_agent")
    page = page_of(client, echo)
    assert "wonderful" not in page
    assert 'role="img"' not in page
    assert "turns waiting or running" in page
    assert client.get(reverse("admin:record_feedback_changelist")).status_code == 403
