"""Plans over A2A: what a run asks and what it is answered, and what is refused in a sentence."""

import pytest

import bridge
from apps.agents.models import Agent
from tests.a2a.calling import message, text_of
from tests.orchestration.conftest import agents, plan  # noqa: F401 fixtures
from tests.orchestration.test_questions import UPLOAD, file
from tests.orchestration.test_questions_at_once import MEASURED

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker")]


def stands(task):
    return task["status"]["state"].removeprefix("TASK_STATE_"), text_of(task["status"]["message"])


async def test_what_steps_ask_is_asked_and_answered_one_after_the_other(ada_at, plan):  # noqa: F811
    await bridge.run(lambda: plan({key: MEASURED[key] for key in ("left", "right")}))
    task = (await ada_at("plan").send(message("go"))).result["task"]
    asked = set()
    for value in (1, 2):
        state, words = stands(task)
        assert state == "INPUT_REQUIRED"
        asked.add(words.partition(".")[0])
        answer = message(parts=[{"data": {"value": value}}], taskId=task["id"])
        task = (await ada_at("plan").send(answer)).result["task"]
    assert stands(task) == ("COMPLETED", "2 steps done.")
    assert asked == {"Read the left well", "Read the right well"}


async def test_a_file_of_the_wrong_shape_is_asked_for_again_with_why(ada_at, plan):  # noqa: F811
    await bridge.run(lambda: plan(UPLOAD))
    task = (await ada_at("plan").send(message("plate 1"))).result["task"]
    assert stands(task) == ("INPUT_REQUIRED", "Upload the screening data for plate 1.")
    task = (await ada_at("plan").send(message(taskId=task["id"], **file("compound;dose\na;1")))).result["task"]
    state, words = stands(task)
    assert (state, "has no column `effect`" in words) == ("INPUT_REQUIRED", True)
    task = (await ada_at("plan").send(message(taskId=task["id"], **file("compound,effect\na,1")))).result["task"]
    assert stands(task)[0] == "COMPLETED"


async def test_a_plan_over_an_agent_that_its_caller_may_not_use_does_not_begin(ada_at, plan):  # noqa: F811
    await bridge.run(lambda: plan({"one": {"agent": "loud", "message": "x"}}))
    await bridge.run(lambda: Agent.objects.filter(slug="loud").update(access=Agent.Access.GROUPS))
    state, words = stands((await ada_at("plan").send(message("go"))).result["task"])
    assert state == "FAILED"
    assert "steps.one.agent: There is no agent `loud` that can be used." in words


async def test_a_template_that_reaches_for_what_is_not_there_says_so(ada_at, plan):  # noqa: F811
    steps = {
        "first": {"agent": "loud", "message": "x"},
        "second": {"agent": "loud", "message": "{{ steps.first.data.n }}"},
    }
    await bridge.run(lambda: plan(steps))
    state, words = stands((await ada_at("plan").send(message("go"))).result["task"])
    assert state == "FAILED"
    assert words.startswith("The step “second” failed: ")
    assert "`n`" in words
