"""Who worked when tells each attempt at a step, how long it waited, and how long it asked."""

import pytest
from django.utils import timezone

import bridge
from apps.orchestration import attempts, depicting
from apps.orchestration.depicting import Progress
from apps.orchestration.models import PlanRun, Step
from tests.orchestration.test_questions import answered, data
from tests.runtime.delegating import done

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker")]

STEPS = {
    "glass": {"agent": "brittle", "message": "1", "retries": 2},
    "each": {"agent": "loud", "message": "{{ item }}", "for_each": "['a', 'b']"},
    "colour": {"agent": "curious", "message": "it", "depends_on": ["glass", "each"]},
    "checked": {"agent": "loud", "message": "x", "output": {"artifact": "none"}, "on_failure": "skip"},
    "asked": {"agent": "loud", "message": "y", "approve": "before", "depends_on": ["colour"]},
}


def drawn(run):
    """By the row of a step, the state and the attempt of each spell but those in which it waited."""
    progress = Progress.of(PlanRun.objects.select_related("version").get(pk=run))
    picture = depicting.in_time(progress, timezone.now(), lambda task: f"/tasks/{task.pk}", is_over=True)
    return {
        row.step.key: [(one.state, one.attempt) for one in row.step.spells if one.state != "waiting"]
        for row in picture.rows
    }


async def test_each_attempt_and_each_question_is_told(ada, plan, said, monkeypatch):
    agent = await bridge.run(lambda: plan(STEPS))
    task = await done(ada.principal, agent, said())
    assert (await bridge.run(drawn, task.pk))["colour"] == [("running", 1), ("asking", 1)]
    task = await answered(ada, agent, said, task, "red")
    task = await answered(ada, agent, said, task, **data({"approved": True}))
    assert task.state == "completed"
    spells = await bridge.run(drawn, task.pk)
    assert spells["glass"] == [("failed", 1), ("done", 2)]
    assert spells["each-0"] == spells["each-1"] == [("done", 1)]
    assert spells["colour"] == [("done", 1), ("asking", 1), ("done", 1)]
    assert spells["asked"][-1] == ("done", 1)
    assert ("asking", 1) in spells["asked"]
    found = await bridge.run(lambda: attempts.attempts_of(PlanRun.objects.get(pk=task.pk)))
    for one in found.values():
        assert all(spell.ends is not None and spell.begins <= spell.ends for spell in one)

    monkeypatch.setattr(attempts, "MOST", 3)  # of a run of more, a bar is a round of its step
    assert (await bridge.run(drawn, task.pk))["glass"] == [("done", 2)]
    assert await bridge.run(Step.objects.filter(run=task.pk, state="done").count) == 5
