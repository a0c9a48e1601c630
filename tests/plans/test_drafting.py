"""A plan from a goal: by a language model where there is one, otherwise by the agents' skills."""

import pytest

import db
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.plans import drafting, planner, registry
from apps.plans.definitions import PlanDefinition
from apps.plans.drafting import NoAgentFits, draft_plan
from apps.plans.planner import register_planner
from apps.record.models import Task
from tests.engine.delegating import done
from tests.llm import endpoint as endpoints
from tests.llm.endpoint import refuses, says

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


@pytest.fixture
def agents(echo, countdown):
    return {"echo": echo, "countdown": countdown}


@pytest.fixture
def endpoint(settings):
    with endpoints.running() as running:
        settings.LLM_MODEL, settings.LLM_BASE_URL, settings.LLM_API_KEY = "test-model", running.url, "key"
        yield running


def steps_of(definition):
    return [(step.agent, step.attach) for step in definition.steps.values()]


async def test_each_part_goes_to_the_agent_whose_skills_fit_it(ada, agents):
    await db.run(register_planner)
    draft = await draft_plan(ada.principal, GOAL)
    assert not draft.by_model
    assert steps_of(draft.definition) == [("countdown", []), ("echo", ["steps.step_1.artifacts"])]
    await db.run(registry.validate, draft.definition, "drafted", ada.principal)


async def test_words_of_the_goal_are_no_template(ada, agents):
    draft = await draft_plan(ada.principal, "Count down from {{ inputs.secret }} {% raw %}")
    await db.run(registry.validate, draft.definition, "drafted", ada.principal)


async def test_only_agents_that_the_person_may_use_take_part(ada, countdown):
    await db.run(register_hosted, "echo", "examples.agents.echo:Echo", access=Agent.Access.GROUPS)
    draft = await draft_plan(ada.principal, GOAL)
    assert {step.agent for step in draft.definition.steps.values()} == {"countdown"}
    await Agent.objects.filter(slug="countdown").aupdate(is_enabled=False)
    with pytest.raises(NoAgentFits):
        await draft_plan(ada.principal, GOAL)


async def test_a_model_writes_the_draft_and_learns_of_the_agents(ada, agents, endpoint):
    endpoint.replies.append(says(WRITTEN))
    draft = await draft_plan(ada.principal, GOAL)
    assert (draft.by_model, draft.definition.name) == (True, "Echo twice")
    asked = str(endpoint.requests[0]["messages"])
    assert "- countdown:" in asked
    assert "Count down from 5" in asked


async def test_a_model_corrects_its_draft_once(ada, agents, endpoint):
    endpoint.replies += [says(WRITTEN.replace("agent: echo", "agent: nobody")), says(WRITTEN)]
    assert (await draft_plan(ada.principal, GOAL)).by_model
    assert "nobody" in str(endpoint.requests[1]["messages"])


@pytest.mark.parametrize(
    "replies", [[refuses(400, "broken")], [says("I cannot."), says("steps: {")]], ids=["error", "no plan"]
)
async def test_where_the_model_fails_skills_decide(ada, agents, endpoint, replies):
    endpoint.replies += replies
    draft = await draft_plan(ada.principal, GOAL)
    assert (draft.by_model, len(draft.definition.steps)) == (False, 2)


async def test_the_planner_delivers_a_draft_that_its_reader_alone_opens(ada, bob, agents, said, worker):
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
