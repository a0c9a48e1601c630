"""A caller sees its own. Someone else's is not found, as if it did not exist."""

import uuid

import pytest
from django.urls import reverse

from apps.accounts.models import ApiKey
from apps.accounts.principals import ANONYMOUS
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.conversations import addressing, canceling, intake
from apps.conversations.errors import InvalidParams, TaskNotFound
from apps.conversations.models import Context, Message, Task
from tests.working import log_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def sent(ada, echo, said):
    return intake.accept(ada.principal, echo, said(contextId="talk"))


def test_contexts_and_tasks_are_shown_to_their_owner_alone(sent, ada, bob):
    for model, key in ((Context, sent.context), (Task, sent.task)):
        assert model.objects.visible_to(ada.principal).get().pk == key
        assert not model.objects.visible_to(bob.principal).exists()
        assert not model.objects.visible_to(ANONYMOUS).exists()


def test_what_nobody_owns_is_not_a_known_callers(echo, said, ada):
    intake.accept(ANONYMOUS, echo, said())
    assert not Task.objects.visible_to(ada.principal).exists()
    assert not Context.objects.visible_to(ada.principal).exists()


def test_keys_are_shown_to_their_user_alone(ada, bob):
    ApiKey.issue(ada, "mine")
    assert ApiKey.objects.visible_to(ada.principal).count() == 1
    assert not ApiKey.objects.visible_to(bob.principal).exists()
    assert not ApiKey.objects.visible_to(ANONYMOUS).exists()


def test_agents_are_shown_to_whom_they_are_open(ada, echo):
    register_hosted("open", "apps.showcase.agents.echo:Echo", access=Agent.Access.PUBLIC)
    assert set(Agent.objects.visible_to(ada.principal).values_list("slug", flat=True)) == {"echo", "open"}
    assert set(Agent.objects.visible_to(ANONYMOUS).values_list("slug", flat=True)) == {"open"}


@pytest.mark.parametrize("who", ["bob", "nobody"])
def test_somebody_elses_task_is_not_found_by_any_door(sent, bob, echo, said, who):
    principal = bob.principal if who == "bob" else ANONYMOUS
    before = log_of(sent.context)
    for door in (
        lambda: addressing.find_task(principal, echo, str(sent.task)),
        lambda: canceling.cancel(principal, echo, str(sent.task)),
        lambda: intake.accept(principal, echo, said(taskId=str(sent.task))),
    ):
        with pytest.raises(TaskNotFound):
            door()
    assert log_of(sent.context) == before


def test_an_agent_does_not_show_another_agents_tasks(sent, ada, countdown):
    with pytest.raises(TaskNotFound):
        addressing.find_task(ada.principal, countdown, str(sent.task))


@pytest.mark.parametrize("task_id", ["", "no uuid", str(uuid.UUID(int=1))])
def test_what_does_not_exist_is_refused_in_the_same_words(sent, ada, bob, echo, task_id):
    with pytest.raises(TaskNotFound) as missing:
        addressing.find_task(ada.principal, echo, task_id)
    with pytest.raises(TaskNotFound) as foreign:
        addressing.find_task(bob.principal, echo, str(sent.task))
    assert str(missing.value) == str(foreign.value)


def test_a_context_id_of_somebody_else_is_a_new_context_of_ones_own(sent, bob, echo, said):
    his = intake.accept(bob.principal, echo, said(contextId="talk"))
    assert his.context != sent.context
    assert Message.objects.filter(context=sent.context).count() == 1


def test_a_context_is_used_with_one_agent(sent, ada, countdown, said):
    with pytest.raises(InvalidParams):
        intake.accept(ada.principal, countdown, said(contextId="talk"))


def test_references_to_somebody_elses_tasks_are_left_out(sent, bob, echo, said):
    his = intake.accept(bob.principal, echo, said(referenceTaskIds=[str(sent.task)]))
    assert Task.objects.get(pk=his.task).references == []


def test_somebody_elses_file_is_not_found(ada, bob, echo, said, client):
    sent = intake.accept(ada.principal, echo, said("x" * 300_000))
    digest = Message.objects.get(context=sent.context).parts[0]["stored"]["sha256"]
    intake.accept(bob.principal, echo, said("x" * 300_000))
    address = reverse("file", args=[sent.context, digest])
    mine, his = (f"Bearer {ApiKey.issue(user, 'test')[1]}" for user in (ada, bob))
    found = client.get(address, headers={"Authorization": mine})
    assert b"".join(found.streaming_content) == b"x" * 300_000
    assert client.get(address, headers={"Authorization": his}).status_code == 404
    assert client.get(address).status_code == 404
    assert client.get(address, headers={"Authorization": "Bearer wrong"}).status_code == 401
