"""Many and large plans run each step once, and a tick's cost does not grow."""

from __future__ import annotations

import asyncio
import datetime
import math
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agentkit import Artifact, Completed
from apps.agents.identities import signing
from apps.agents.models import Agent
from apps.budgets import spending
from apps.engine.send import accept_and_publish
from apps.installation import current
from apps.limits import current as limits
from apps.plans.definitions import MOST_STEPS, PlanDefinition
from apps.plans.models import PlanRun, Step
from apps.plans.registry import register_plan
from apps.plans.running import engine
from apps.record.execution import Run
from apps.record.models import Task
from apps.remote import circuit_breaker
from benchmarks.definitions import STEPS, small, wide
from parley import db
from tests import working
from tests.engine.delegating import ended, sent, words
from tests.plans.whole_plans import problems

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(600),  # a busy machine takes minutes
    pytest.mark.services("what a look costs, and who waits for whom, is of the database"),
]
MOST_TO_LOOK = 10
MOST_TO_BEGIN = 6 if connection.vendor == "postgresql" else 11  # PostgreSQL writes several tables in one statement
PATIENCE = 300

Said = Callable[..., dict[str, Any]]


def registered(definition: dict[str, Any]) -> Agent:
    return register_plan("plan", PlanDefinition.read(definition), access=Agent.Access.AUTHENTICATED)


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize(
    ("plans", "callers"), [(10, 10), pytest.param(100, 20, marks=pytest.mark.slow("half a minute of the processor"))]
)
async def test_parallel_plans_do_each_step_once(ada, echo, said, plans, callers):
    agent = await db.run(registered, small())
    left = iter(range(plans))

    async def caller() -> None:
        for number in left:
            receipt = await sent(ada.principal, agent, said(f"plan {number}"))
            task = await ended(receipt, within=PATIENCE)
            assert words(task) == f"{STEPS} steps done."

    async with asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(caller())
    assert await db.run(Step.objects.count) == plans * STEPS
    assert await db.run(problems, PlanRun.objects.all()) == []


@pytest.fixture
def begun(ada, echo, said):
    """Begins a plan with a fan-out this wide; no worker runs it."""

    def begin(width: int) -> PlanRun:
        receipt = accept_and_publish(ada.principal, registered(wide()), said(str(width)))
        asyncio.run(working.carry_out(receipt.run))
        return PlanRun.objects.get(pk=receipt.task)

    return begin


def queries(do: Callable[[], object]) -> int:
    with CaptureQueriesContext(connection) as asked:
        do()
    return len(asked)


def look(run: PlanRun) -> int:
    """Tick the run; returns its number of queries without those of progress messages."""
    PlanRun.objects.filter(pk=run.pk).update(told="", told_at=timezone.now() + datetime.timedelta(hours=1))
    return queries(lambda: engine.advance(run.pk))


def work(step: Step) -> int:
    """Do a step's work; returns the number of queries that the claim took."""
    taken: list[Any] = []
    asked = queries(lambda: taken.append(working.begin(Run.objects.get(task=step.task_id).pk)))
    working.end(taken[0], Completed(step.key, [Artifact.text("answer", f"{step.item}")]))
    return asked


def steps(run: PlanRun, stage: int) -> list[Step]:
    return list(Step.objects.filter(run=run, key=f"stage_{stage}").order_by("item"))


@pytest.fixture
def _nothing_expires(monkeypatch):
    """What a process remembers for seconds is read once, however slow the machine is."""
    for module in (spending, circuit_breaker):
        monkeypatch.setattr(module, "CACHE_SECONDS", math.inf)
    for module in (current, limits):
        monkeypatch.setattr(module, "REFRESH_SECONDS", math.inf)
    monkeypatch.setattr(signing, "SIGNER_CACHE_SECONDS", math.inf)


@pytest.mark.usefixtures("_nothing_expires")
def test_costs_do_not_grow_with_the_plan(begun):
    costs = []
    for width in (4, 40):
        run = begun(width)
        first = look(run)
        for step in steps(run, 1)[1:]:
            work(step)
        seen = look(run)
        work(steps(run, 1)[0])
        second = look(run)
        assert {step.state for step in steps(run, 2)} == {"running"}
        one, *others = steps(run, 2)
        costs.append({
            "the first stage begins, each step": (first, width),
            "steps that ended are seen": seen,
            "the next stage begins, each step": (second, width),
            "its step is taken up": work(one),
            "one step has ended": look(run),
            "several have ended": [work(step) for step in others[:2]] and look(run),
        })  # fmt: skip
    narrow, broad = costs
    for what, cost in narrow.items():
        if isinstance(cost, tuple):
            (few, width), (many, larger) = cost, broad[what]
            each = (many - few) / (larger - width)
            assert each <= MOST_TO_BEGIN, what
            assert each.is_integer(), what
        else:
            assert broad[what] == cost, what
    assert narrow["one step has ended"] <= MOST_TO_LOOK
    assert narrow["several have ended"] <= MOST_TO_LOOK


@pytest.mark.parametrize(("number", "state"), [(MOST_STEPS, "working"), (MOST_STEPS + 1, "failed")])
def test_a_list_fills_a_run_to_its_limit(ada, echo, said, number, state):
    definition = {**wide(), "limit": 1}
    definition["steps"] = {"stage_1": definition["steps"]["stage_1"]}
    definition["outputs"] = []
    receipt = accept_and_publish(ada.principal, registered(definition), said(str(number)))
    asyncio.run(working.carry_out(receipt.run))
    engine.advance(receipt.task)
    assert Task.objects.get(pk=receipt.task).state == state
    assert Step.objects.count() == (MOST_STEPS if state == "working" else 1)
