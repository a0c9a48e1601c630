"""Callers see their own objects; others' are not found."""

import uuid

import pytest

from apps.accounts.principals import ANONYMOUS
from apps.engine import accept, cancel
from apps.record import lookup
from apps.record.errors import TaskNotFound
from apps.record.models import Context, Message, Task
from tests.working import log_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def sent(ada, echo, said):
    return accept.accept(ada.principal, echo, said(contextId="talk"))


def test_contexts_and_tasks_are_shown_to_their_owner_alone(sent, ada, bob, echo, said):
    for model, key in ((Context, sent.context), (Task, sent.task)):
        assert model.objects.visible_to(ada.principal).get().pk == key
        assert not model.objects.visible_to(bob.principal).exists()
        assert not model.objects.visible_to(ANONYMOUS).exists()
    accept.accept(ANONYMOUS, echo, said())
    assert not Task.objects.visible_to(bob.principal).exists(), "what nobody owns is nobody's"
    assert not Context.objects.visible_to(bob.principal).exists()


def test_somebody_elses_task_is_not_found_by_any_door(sent, bob, echo, said):
    before = log_of(sent.context)
    for door in (
        lambda who: lookup.find_agent_task(who, echo, str(sent.task)),
        lambda who: cancel.cancel_by_id(who, echo, str(sent.task)),
        lambda who: accept.accept(who, echo, said(taskId=str(sent.task))),
    ):
        for stranger in (bob.principal, ANONYMOUS):
            with pytest.raises(TaskNotFound):
                door(stranger)
    assert log_of(sent.context) == before


def test_what_does_not_exist_is_refused_in_the_same_words(sent, ada, bob, echo, countdown):
    with pytest.raises(TaskNotFound) as foreign:
        lookup.find_agent_task(bob.principal, echo, str(sent.task))
    for agent, task_id in [(countdown, str(sent.task)), *((echo, one) for one in ("", "no", str(uuid.UUID(int=1))))]:
        with pytest.raises(TaskNotFound) as missing:
            lookup.find_agent_task(ada.principal, agent, task_id)
        assert str(missing.value) == str(foreign.value), task_id


def test_a_context_id_of_somebody_else_is_a_new_context_of_ones_own(sent, bob, echo, said):
    his = accept.accept(bob.principal, echo, said(contextId="talk"))
    assert his.context != sent.context
    assert Message.objects.filter(context=sent.context).count() == 1


def test_references_to_somebody_elses_tasks_are_left_out(sent, bob, echo, said):
    his = accept.accept(bob.principal, echo, said(referenceTaskIds=[str(sent.task)]))
    assert Task.objects.get(pk=his.task).references == []
