"""Operators cancel tasks and run them again; what cannot be done is said, and nothing else is touched."""

import uuid

import pytest
from django.contrib.auth.models import Permission
from django.urls import reverse

from apps.accounts.models import User
from apps.accounts.principals import ANONYMOUS
from apps.agents.models import Agent
from apps.conversations import canceling, intake, replay
from apps.conversations.models import Event, Message, Task

pytestmark = pytest.mark.django_db

LIST = "admin:conversations_task_changelist"


@pytest.fixture
def task(ada, echo, said) -> Task:
    message = said("first words", metadata={"lang": "en"})
    return Task.objects.get(pk=intake.accept(ada.principal, echo, message).task)


def act(client, action: str, *tasks: Task):
    chosen = {"action": action, "_selected_action": [str(task.pk) for task in tasks]}
    return client.post(reverse(LIST), chosen, follow=True)


def told(answer) -> str:
    return " ".join(str(message) for message in answer.context["messages"])


def press(client, button: str, task: Task):
    """What the page's button does: the confirmation is fetched, which changes nothing, then sent."""
    address = reverse(f"admin:conversations_task_{button}", args=[task.pk])
    before = list(Task.objects.values_list("state", flat=True))
    assert 'id="dialog"' in client.get(address).content.decode()
    assert list(Task.objects.values_list("state", flat=True)) == before
    return client.post(address, {"_form_submitted": "True"})


def test_a_task_is_canceled_and_its_run_with_it_and_what_has_ended_is_left_alone(admin_client, task, ada, echo, said):
    ended = Task.objects.get(pk=intake.accept(ada.principal, echo, said("ended")).task)
    canceling.cancel_found(ended)
    events = Event.objects.filter(task=ended).count()
    answer = told(act(admin_client, "cancel_selected", task, ended))
    assert "1 task was canceled." in answer
    assert "1 task was left alone" in answer
    assert Event.objects.filter(task=ended).count() == events
    task.refresh_from_db()
    assert (task.state, task.runs.get().state) == ("canceled", "canceled")
    assert replay.differences(task.context_id) == []


def test_a_task_is_run_again_as_a_new_one_for_its_owner(admin_client, task, ada):
    act(admin_client, "run_selected_again", task)
    old, new = Task.objects.order_by("created_at")
    assert old == task
    assert (new.context, new.owner, new.agent) == (task.context, ada, task.agent)
    assert new.references == [str(task.pk)]
    first, second = Message.objects.order_by("index")
    assert second.task == new
    assert (second.parts, second.metadata) == (first.parts, {"lang": "en"})
    assert second.message_id != first.message_id
    assert new.runs.get().state == "queued"
    assert replay.differences(task.context_id) == []


def test_a_nobodys_task_is_run_again_for_nobody_as_often_as_one_likes(admin_client, echo, said):
    Agent.objects.update(access="public")
    task = Task.objects.get(pk=intake.accept(ANONYMOUS, echo, said("hi")).task)
    for _ in range(2):
        act(admin_client, "run_selected_again", task)
    assert Task.objects.filter(owner=None, context=task.context, references=[str(task.pk)]).count() == 2


def test_why_a_task_cannot_be_run_again_is_said(admin_client, task, countdown):
    Task.objects.filter(pk=task.pk).update(agent=countdown)  # its context is another agent's
    assert f"Task {task.pk} was not run again." in told(act(admin_client, "run_selected_again", task))
    assert Task.objects.count() == 1


def test_the_buttons_of_a_tasks_page_ask_and_do(admin_client, task):
    page = reverse("admin:conversations_task_change", args=[task.pk])
    shown = admin_client.get(page).content.decode()
    assert reverse("admin:conversations_task_cancel", args=[task.pk]) in shown
    answer = press(admin_client, "cancel", task)
    assert answer["HX-Redirect"] == page
    task.refresh_from_db()
    assert task.state == "canceled"
    shown = admin_client.get(page).content.decode()
    assert "1 task was canceled." in shown
    assert reverse("admin:conversations_task_cancel", args=[task.pk]) not in shown
    press(admin_client, "run_again", task)
    assert Task.objects.count() == 2


def test_a_task_that_is_not_there_is_no_error_page(admin_client):
    assert admin_client.get(reverse("admin:conversations_task_change", args=[uuid.uuid4()])).status_code == 302
    assert press(admin_client, "cancel", Task(pk=uuid.uuid4())).status_code == 200


def test_who_may_only_look_can_do_neither(client, task):
    operator = User.objects.create_user("op@example.org", "let me in", is_staff=True)
    operator.user_permissions.add(Permission.objects.get(codename="view_task"))
    client.force_login(operator)
    page = client.get(reverse("admin:conversations_task_change", args=[task.pk]))
    assert page.status_code == 200
    for button in ("cancel", "run_again"):
        address = reverse(f"admin:conversations_task_{button}", args=[task.pk])
        assert address not in page.content.decode()
        assert client.post(address, {"_form_submitted": "True"}).status_code == 403
    for action in ("cancel_selected", "run_selected_again"):
        act(client, action, task)
    task.refresh_from_db()
    assert task.state == "submitted"
    assert Task.objects.count() == 1
    operator.user_permissions.add(Permission.objects.get(codename="change_task"))
    assert "1 task was canceled." in told(act(client, "cancel_selected", task))
