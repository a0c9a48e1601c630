"""A task that depends on others starts when they are completed, and fails when one of them fails."""

import pytest
from django.db.models import Q

from agentkit import Completed, Failed
from apps.engine import cancel, dependencies
from apps.engine.send import accept_and_publish
from apps.record import projection
from apps.record.errors import InvalidParams
from apps.record.execution import Dependency, Run
from apps.record.models import Task
from tests.working import begin, end, state_of

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("what ends is heard of after its commit"),
]


@pytest.fixture
def send(ada, echo, said):
    def send(*depends, **fields):
        metadata = {"metadata": {"dependsOn": [str(one.task) for one in depends]}} if depends else {}
        return accept_and_publish(ada.principal, echo, said(**metadata), **fields)

    return send


def run_of(receipt):
    return Run.objects.get(task=receipt.task)


def test_a_dependent_task_starts_after_its_tasks(send):
    first, second = send(), send()
    third = send(first, second)
    assert (state_of(third.task), run_of(third).state, third.run) == ("submitted", "waiting", None)
    end(begin(first.run), Completed("one"))
    dependencies.settle(Q())
    assert run_of(third).state == "waiting", "the second works"
    end(begin(second.run), Completed("two"))
    dependencies.settle(Q())
    run = run_of(third)
    assert run.state == "queued"
    assert [one.messages[-1].text for one in begin(run.pk).references] == ["one", "two"]
    assert projection.differences(third.context) == []


def test_a_dependent_task_fails_with_its_task(send):
    first = send()
    second = send(first)
    third = send(second)
    end(begin(first.run), Failed("no"))
    for _ in range(2):
        dependencies.settle(Q())
    assert [state_of(one.task) for one in (second, third)] == ["failed", "failed"]
    said = Task.objects.get(pk=second.task).status_message["parts"][0]["text"]
    assert said == "The task of Echo that this one depends on was not completed: it is failed."
    assert not Dependency.objects.exists()
    assert state_of(send(first).task) == "failed", "it had failed before"


def test_a_deleted_dependency_fails_its_dependents(send):
    first = send()
    second = send(first)
    Task.objects.filter(pk=first.task).delete()
    dependencies.sweep()
    assert state_of(second.task) == "failed"


def test_a_canceled_dependent_does_not_start(ada, echo, send):
    first = send()
    second = send(first)
    cancel.cancel_by_id(ada.principal, echo, str(second.task))
    end(begin(first.run), Completed("one"))
    dependencies.sweep()
    assert (state_of(second.task), run_of(second).state) == ("canceled", "canceled")
    assert not Dependency.objects.exists()


def test_unseen_dependencies_are_hints(bob, echo, said, send):
    theirs = accept_and_publish(bob.principal, echo, said())
    mine = send(theirs)
    assert mine.run is not None
    assert Task.objects.get(pk=mine.task).metadata["hints"] == [
        f"There is no task {theirs.task} that you may see. It has no effect."
    ]


def test_a_called_task_cannot_depend_on_its_caller(send):
    caller = send()
    with pytest.raises(InvalidParams, match="cannot depend on one that called it"):
        send(caller, parent=caller.task)
