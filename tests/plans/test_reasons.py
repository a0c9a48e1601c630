"""People are told why a step waits, with correct limits."""

import pytest

from apps.agents.models import Agent
from apps.engine import activity
from apps.installation.models import Activity
from apps.plans.graphs import CompiledPlan, dependencies
from apps.plans.models import PlanRun, Step
from apps.plans.progress import Progress, waiting_reasons
from tests.plans.plans import plan


@pytest.mark.parametrize(
    ("live", "sentence"),
    [
        ([], "It is ready and about to start."),
        ([{"agent": "echo"}], "It is ready and about to start."),
        ([{"agent": "echo"}, {"agent": "echo"}], "The plan runs at most 2 steps of `echo` at the same time."),
        ([{"agent": "other"}] * 3, "The plan runs at most 3 steps at the same time."),
        ([{"agent": "other", "phase": "before"}] * 3, "It is ready and about to start."),
    ],
)
def test_a_limit_is_named_only_where_it_is_reached(live, sentence):
    definition = plan({"look": {}, "busy": {}}, limit=3, agent_limits={"echo": 2})
    steps = [Step(key="busy", item=item, state="running", **fields) for item, fields in enumerate(live)]
    compiled = CompiledPlan(definition, dependencies(definition), {}, [])
    [reason] = waiting_reasons(Progress(PlanRun(), compiled, [*steps, Step(key="look")]))
    assert reason.sentence.endswith(sentence)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("wanted", "sentence"), [("paused", "is paused"), ("draining", "accepts no new tasks")])
def test_a_step_waits_for_an_agent_that_is_paused_or_drained_and_says_so(play, wanted, sentence):
    loud = Agent.objects.get(slug="loud")
    activity.set_activity(loud, Activity(wanted))
    play.held.add("loud")
    task = play({"one": {"agent": "loud", "message": "hello"}})
    assert task.state == "working"
    [reason] = waiting_reasons(Progress.of(PlanRun.objects.get()))
    assert sentence in reason.sentence
    activity.set_activity(loud, Activity.ACTIVE)
    Step.objects.filter(state="starting").update(due_at="2026-01-01T00:00Z")
    assert play.release(task).state == "completed"
