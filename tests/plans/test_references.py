"""A step's message refers to the tasks that it uses."""

import uuid

import pytest
from django.utils import timezone

from agentkit import Artifact as Made
from apps.engine import accept
from apps.features.provenance.traversal import provenance_of
from apps.plans import runs
from apps.plans.models import PlanRun, Step
from apps.plans.run_state import MOST_REFERENCES, RunState
from apps.plans.transitions import start_ready_steps
from apps.record.models import Artifact, Task
from tests.api.delivering import delivered

pytestmark = pytest.mark.django_db

MANY = 600
WIDE = {
    "spread": {"agent": "loud", "message": "{{ item }}", "for_each": "range(600) | list"},
    "again": {"agent": "loud", "message": "{{ item.text }}", "for_each": "steps.spread"},
    "plain": {"agent": "loud", "message": "{{ item }}", "for_each": "steps.spread | map(attribute='text')"},
    "join": {"agent": "loud", "message": "{{ steps.spread | length }}"},
}


def board_of(task):
    return RunState(PlanRun.objects.select_related("task").get(pk=task.pk), timezone.now())


def test_what_steps_that_begin_after_a_fan_out_refer_to(ada, plan, said):
    agent = plan(WIDE, limit=20)
    run = Task.objects.get(pk=accept.accept(ada.principal, agent, said()).task)
    runs.begin_run(run, agent.current_version)
    like = Task.objects.get(pk=delivered(ada, agent, said()).task)
    kept = {field.attname: getattr(like, field.attname) for field in Task._meta.concrete_fields}
    tasks = Task.objects.bulk_create([Task(**kept | {"id": uuid.uuid4(), "parent_id": run.pk}) for _ in range(MANY)])
    Step.objects.filter(run=run.pk, key="spread").delete()
    Step.objects.bulk_create(
        Step(run_id=run.pk, key="spread", item=at, state="done", task=one) for at, one in enumerate(tasks)
    )
    start_ready_steps(board_of(run))
    made = [str(one.pk) for one in tasks]
    again, plain, (join,) = (
        list(Step.objects.filter(run=run.pk, key=key).order_by("item")) for key in ("again", "plain", "join")
    )
    referred = [step.message["referenceTaskIds"] for step in again if step.message]
    assert referred
    assert referred == [[key] for key in made[: len(referred)]]
    # An element made of plain values refers to as many as it may.
    assert board_of(run).references(plain[7]) == made[:MOST_REFERENCES]
    # A join refers to all of them, and the provenance of its result is complete.
    assert board_of(run).references(join) == made
    receipt = delivered(ada, like.agent, said(referenceTaskIds=made), [Made.text("all", "600")])
    assert Task.objects.get(pk=receipt.task).references == made
    found = provenance_of(ada.principal, Artifact.objects.get(task=receipt.task))
    assert not found.truncated
    assert {f"task:{key}" for key in made} <= {node.id for node in found.nodes}
