"""A plan from a goal: by a language model where there is one, otherwise by the agents' skills."""

import pytest

from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.plans import drafting, planner, registry
from apps.plans.definitions import PlanDefinition
from apps.plans.drafting import NoAgentFits, draft_plan
from apps.plans.planner import register_planner
from apps.record.models import Task
from parley import db
from tests.engine.delegating import done
from tests.model_agents.conftest import endpoint
from tests.model_agents.endpoint import refuses, says

__all__ = ["endpoint"]

pytestmark = pytest.mark.django_db(transaction=True)
GOAL = "1. Count down from 5\n2. Then echo the text and every file"
WRITTEN = """Here it is:
```yaml
name: Echo twice
description: Echoes, and echoes again.
steps:
  first: {agent: echo, message: One}
  second: {agent: echo, message: Two, attach: [steps.first.artifacts]}
```"""


async def test_each_part_goes_to_the_fitting_agent(ada, echo, countdown):
    await db.run(register_planner)
    draft = await draft_plan(ada.principal, GOAL)
    assert not draft.by_model
    steps = [(step.agent, step.attach) for step in draft.definition.steps.values()]
    assert steps == [("countdown", []), ("echo", ["steps.step_1.artifacts"])]
    await db.run(registry.validate, draft.definition, "drafted", ada.principal)
    draft = await draft_plan(ada.principal, "Count down from {{ inputs.secret }} {% raw %}")
    await db.run(registry.validate, draft.definition, "drafted", ada.principal)  # words of the goal are no template


async def test_only_agents_one_may_use_take_part(ada, countdown):
    await db.run(register_hosted, "echo", "examples.agents.echo:Echo", access=Agent.Access.GROUPS)
    draft = await draft_plan(ada.principal, GOAL)
    assert {step.agent for step in draft.definition.steps.values()} == {"countdown"}
    await Agent.objects.filter(slug="countdown").aupdate(is_enabled=False)
    with pytest.raises(NoAgentFits):
        await draft_plan(ada.principal, GOAL)


async def test_a_model_drafts_and_corrects_once(ada, echo, countdown, endpoint):
    endpoint.replies += [says(WRITTEN.replace("agent: echo", "agent: nobody")), says(WRITTEN)]
    draft = await draft_plan(ada.principal, GOAL)
    assert (draft.by_model, draft.definition.name) == (True, "Echo twice")
    asked = str(endpoint.requests[0]["messages"])
    assert "- countdown:" in asked
    assert "Count down from 5" in asked
    assert "nobody" in str(endpoint.requests[1]["messages"])


@pytest.mark.parametrize(
    "replies", [[refuses(400, "broken")], [says("I cannot."), says("steps: {")]], ids=["error", "no plan"]
)
async def test_where_the_model_fails_skills_decide(ada, echo, countdown, endpoint, replies):
    endpoint.replies += replies
    draft = await draft_plan(ada.principal, GOAL)
    assert (draft.by_model, len(draft.definition.steps)) == (False, 2)


async def test_the_planners_draft_is_its_readers_alone(ada, bob, echo, countdown, said, worker):
    await db.run(register_planner)
    found = await Agent.objects.aget(slug=drafting.PLANNER)
    task = await done(ada.principal, found, said(GOAL))
    assert task.state == "completed"
    yaml = await db.run(planner.draft_of, ada.principal, task.pk)
    assert len(PlanDefinition.from_yaml(yaml).steps) == 2
    assert await db.run(planner.draft_of, bob.principal, task.pk) == ""
    declined = await done(ada.principal, found, said("x" * (drafting.LONGEST_GOAL + 1)))
    assert declined.state == "rejected"
    assert await Task.objects.acount() == 2
