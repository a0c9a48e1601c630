"""What steps refer to: a join to all that it joins, an element of a fan-out to what it is made of."""

import uuid

import pytest
from django.utils import timezone

from agentkit import Artifact as Made
from apps.conversations import intake
from apps.conversations.models import Artifact, Task
from apps.conversations.provenance.walking import provenance_of
from apps.orchestration import opening
from apps.orchestration.beginning import begin_all
from apps.orchestration.board import MOST_REFERENCES, Board
from apps.orchestration.models import PlanRun, Step
from tests.api.delivering import delivered

pytestmark = pytest.mark.django_db

MANY = 600
WIDE = {
    "spread": {"agent": "loud", "message": "{{ item }}", "for_each": "range(600) | list"},
    "again": {"agent": "loud", "message": "{{ item.text }}", "for_each": "steps.spread"},
    "plain": {"agent": "loud", "message": "{{ item }}", "for_each": "steps.spread | map(attribute='text')"},
    "join": {"agent": "loud", "message": "{{ steps.spread | length }}"},
}


def board_of(step):
    return Board(PlanRun.objects.select_related("task").get(pk=step.run_id), timezone.now())


@pytest.fixture
def begun(ada, plan, said):
    """The steps that begin once all elements of `spread` are done, by their keys; and the tasks of those elements."""
    agent = plan(WIDE, limit=20)
    run = Task.objects.get(pk=intake.accept(ada.principal, agent, said()).task)
    opening.begin(run, agent.current_version)
    like = Task.objects.get(pk=delivered(ada, agent, said()).task)
    kept = {field.attname: getattr(like, field.attname) for field in Task._meta.concrete_fields}
    made = Task.objects.bulk_create([Task(**kept | {"id": uuid.uuid4(), "parent_id": run.pk}) for _ in range(MANY)])
    Step.objects.filter(run=run.pk, key="spread").delete()
    Step.objects.bulk_create(
        Step(run_id=run.pk, key="spread", item=at, state="done", task=one) for at, one in enumerate(made)
    )
    begin_all(board_of(Step.objects.filter(run=run.pk)[0]))
    steps = {key: list(Step.objects.filter(run=run.pk, key=key).order_by("item")) for key in ("again", "plain", "join")}
    return steps, [str(one.pk) for one in made]


def test_a_join_of_many_refers_to_all_of_them_and_its_provenance_is_whole(ada, said, begun):
    steps, made = begun
    (join,) = steps["join"]
    assert board_of(join).references(join) == made
    agent = Task.objects.select_related("agent").get(pk=made[0]).agent
    receipt = delivered(ada, agent, said(referenceTaskIds=made), [Made.text("all", "600")])
    assert Task.objects.get(pk=receipt.task).references == made
    found = provenance_of(ada.principal, Artifact.objects.get(task=receipt.task))
    assert not found.truncated
    assert {f"task:{key}" for key in made} <= {node.id for node in found.nodes}


def test_an_element_refers_to_what_it_is_made_of(begun):
    steps, made = begun
    referred = [step.message["referenceTaskIds"] for step in steps["again"] if step.message]
    assert referred
    assert referred == [[key] for key in made[: len(referred)]]


def test_an_element_of_plain_values_refers_to_as_many_as_it_may(begun):
    steps, made = begun
    one = steps["plain"][7]
    assert board_of(one).references(one) == made[:MOST_REFERENCES]
