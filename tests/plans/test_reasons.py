"""People are told why a step waits, with correct limits."""

import pytest

from apps.plans.graphs import CompiledPlan, dependencies
from apps.plans.models import PlanRun, Step
from apps.plans.progress import Progress, waiting_reasons
from tests.plans.plans import plan


@pytest.mark.parametrize(
    ("live", "sentence"),
    [
        ([], "It begins as soon as the run is looked at again."),
        ([{"agent": "echo"}], "It begins as soon as the run is looked at again."),
        ([{"agent": "echo"}, {"agent": "echo"}], "`echo` works at 2 steps of a run at the same time at most."),
        ([{"agent": "other"}] * 3, "The plan lets 3 steps be worked at at the same time, and that many are."),
        ([{"agent": "other", "phase": "before"}] * 3, "It begins as soon as the run is looked at again."),
    ],
)
def test_a_limit_is_named_only_where_it_is_reached(live, sentence):
    definition = plan({"look": {}, "busy": {}}, limit=3, agent_limits={"echo": 2})
    steps = [Step(key="busy", item=item, state="running", **fields) for item, fields in enumerate(live)]
    compiled = CompiledPlan(definition, dependencies(definition), {}, [])
    [reason] = waiting_reasons(Progress(PlanRun(), compiled, [*steps, Step(key="look")]))
    assert reason.sentence.endswith(sentence)
