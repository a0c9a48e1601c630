"""What a run of a plan leaves when somebody deletes what it worked on, and how its task is told of."""

import pytest

import bridge
from agentkit import Completed, Failed, Progress
from apps.agents.models import Agent
from apps.conversations import clearing
from apps.conversations.models import Context, Task
from apps.orchestration import keeping, sweeping
from apps.orchestration.models import PlanRun, Step
from apps.runtime import outcomes
from tests.orchestration.plan_agents import DONE, GATE
from tests.orchestration.test_plans_run import TWO, the_record_holds
from tests.runtime.delegating import done, ended, sent, until, words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker")]

ONE = {"one": {"agent": "patient", "message": "x"}}


async def test_a_deleted_conversation_takes_its_runs_along(ada, plan, said):
    agent = await bridge.run(lambda: plan(TWO))
    task = await done(ada.principal, agent, said("hello"))
    await until(lambda: PlanRun.objects.get().finished_at)
    await bridge.run(clearing.clear_session, ada.principal, task.context_id)
    assert not await bridge.run(PlanRun.objects.exists)
    assert not await bridge.run(Step.objects.exists)


async def test_a_step_whose_conversation_is_deleted_has_failed(ada, plan, said):
    agent = await bridge.run(lambda: plan(ONE))
    receipt = await sent(ada.principal, agent, said())
    await until(lambda: DONE["patient"])
    child = await bridge.run(lambda: Task.objects.get(parent=receipt.task).context_id)
    await bridge.run(clearing.clear_session, ada.principal, child)
    await bridge.run(sweeping.sweep)
    task = await ended(receipt)
    assert (task.state, words(task)) == ("failed", "The step “one” failed: Its conversation was deleted.")


async def test_what_a_run_refers_to_is_not_put_into_cold_storage(ada, plan, said, echo):
    agent = await bridge.run(lambda: plan(TWO))
    task = await done(ada.principal, agent, said("hello"))
    other = await done(ada.principal, echo, said("hello"))

    def obstacles():
        contexts = Context.objects.order_by("created_at")
        return {context.pk: keeping.waits(context) for context in contexts}

    found = await bridge.run(obstacles)
    assert found.pop(other.context_id) == ""
    assert task.context_id in found
    assert set(found.values()) == {"A run of a plan refers to it."}


async def test_a_task_without_a_run_is_ended_once_and_only_while_it_is_open(ada, plan, said):
    agent = await bridge.run(lambda: plan(ONE))
    receipt = await sent(ada.principal, agent, said())
    await until(lambda: DONE["patient"])
    await until(lambda: not Task.objects.get(pk=receipt.task).runs.unfinished().exists())
    task = await bridge.run(lambda: Task.objects.get(pk=receipt.task))
    assert await bridge.run(outcomes.record, task, Progress("half of it", 1, 2))
    assert await bridge.run(lambda: words(Task.objects.get(pk=task.pk))) == "half of it"
    assert await bridge.run(outcomes.record, task, Completed("That is all."))
    assert not await bridge.run(outcomes.record, task, Failed("Or not."))
    assert not await bridge.run(outcomes.record, task, Progress("more"))
    assert (await ended(receipt)).state == "completed"
    GATE.set()
    await until(lambda: set(Step.objects.values_list("state", flat=True)) == {"canceled"})
    await the_record_holds()


async def test_nothing_is_recorded_beside_a_run(ada, said, agents):
    patient = await bridge.run(lambda: Agent.objects.get(slug="patient"))
    receipt = await sent(ada.principal, patient, said())
    await until(lambda: DONE["patient"])
    task = await bridge.run(lambda: Task.objects.get(pk=receipt.task))
    assert not await bridge.run(outcomes.record, task, Completed("Done."))
    GATE.set()
    assert (await ended(receipt)).state == "completed"
