"""A plan runs: steps in order and side by side, what they deliver goes on, and the plan is a task like any other."""

import pytest

import bridge
from apps.conversations import replay
from apps.conversations.models import Artifact, Context, Run, Task
from apps.orchestration.models import PlanRun, Step
from tests.orchestration.plan_agents import DONE, GATE
from tests.runtime.delegating import done, ended, sent, until, words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker")]

TWO = {
    "first": {"agent": "loud", "message": "{{ inputs.text }}"},
    "second": {"agent": "counting", "message": "{{ steps.first.text }} said {{ steps.first.artifacts[0].text }}"},
}


async def the_record_holds():
    """Once nobody works any more, every log gives the rows that there are."""

    def check():
        for context in Context.objects.all():
            assert replay.differences(context.pk) == []

    await until(lambda: not Run.objects.unfinished().exists())
    await until(lambda: not Task.objects.unfinished().exists())
    await bridge.run(check)


async def test_two_steps_run_one_after_the_other(ada, plan, said):
    agent = await bridge.run(plan, TWO)
    task = await done(ada.principal, agent, said("hello"))
    assert (task.state, words(task)) == ("completed", "2 steps done.")

    def look():
        first, second = Step.objects.filter(run=task.pk).order_by("key").select_related("task__context")
        assert (first.state, second.state) == ("done", "done")
        assert second.task.references == [str(first.task_id)]
        assert {first.task.parent_id, second.task.parent_id} == {task.pk}
        assert first.task.context.parent_task == task.pk
        (artifact,) = Artifact.objects.delivered().filter(task=task)
        assert artifact.name == "count"
        assert artifact.parts[0]["data"] == {"count": len("HELLO said HELLO")}
        assert not Run.objects.unfinished().exists()

    await bridge.run(look)
    await until(lambda: PlanRun.objects.get().finished_at)
    assert DONE == {"loud:hello": 1, "counting": 1}
    await the_record_holds()


async def test_the_plans_task_tells_how_far_it_is(ada, plan, said):
    steps = {
        "first": {"agent": "loud", "message": "x"},
        "second": {"agent": "patient", "message": "{{ steps.first.text }}", "title": "The wait"},
    }
    agent = await bridge.run(plan, steps)
    receipt = await sent(ada.principal, agent, said())
    await until(lambda: told(receipt) == "1 of 2 steps done: The wait")
    GATE.set()
    assert words(await ended(receipt)) == "2 steps done."


def told(receipt):
    message = Task.objects.get(pk=receipt.task).status_message or {}
    return "".join(part.get("text", "") for part in message.get("parts", []))
