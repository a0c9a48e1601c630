"""What people do with a run of a plan: pause it, let it go on, and run it again from a step."""

from __future__ import annotations

import uuid

from django.utils import timezone

import db
from agentkit import AgentFailure
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine.accept import Receipt
from apps.engine.send import accept_and_publish
from apps.plans import opening
from apps.plans.models import PlanRun, Step
from apps.plans.plans import plan_at
from apps.plans.starting import claims
from apps.plans.waking import wake
from apps.record.errors import UnsupportedOperation
from apps.record.events import JSON


def pause(run: PlanRun) -> bool:
    """Begin no further steps; those that are being worked at go on. False where it is paused, or over. Synchronous."""
    paused = PlanRun.objects.going_on().filter(pk=run.pk, paused_at=None).update(paused_at=timezone.now())
    if paused:
        wake(run.pk)
    return bool(paused)


def resume(run: PlanRun) -> bool:
    """Let a paused run go on; False where it is not paused. Synchronous."""
    resumed = PlanRun.objects.going_on().filter(pk=run.pk, paused_at__isnull=False)
    if went := resumed.update(paused_at=None, advanced_at=None):
        wake(run.pk)
    return bool(went)


def first_to_do_again(run: PlanRun) -> str:
    """The key of the first step that was not done, from which a run that failed goes on; else of the first of all."""
    plan = plan_at(run.version_id)
    left = set(Step.objects.filter(run=run).exclude(state__in=Step.SETTLED).values_list("key", flat=True))
    return next((key for key in plan.definition.steps if key in left), next(iter(plan.definition.steps)))


async def run_again(principal: Principal, run: PlanRun, from_step: str, *, key: str = "") -> Receipt:
    """`again`, from where there is an event loop."""
    return await db.run(again, principal, run, from_step, key=key or str(uuid.uuid4()))


def again(principal: Principal, run: PlanRun, from_step: str, *, key: str = "") -> Receipt:
    """Run the plan again from a step, as a new task that keeps the results of all steps that do not need that one.

    The message of the new task says what it continues, so the record has it. `key` is its messageId: whoever repeats
    it gets the same task, and it starts no other plan. Synchronous. Raises errors.Refusal.
    """
    agent, message = _again(principal, run.pk, from_step, key)
    return accept_and_publish(principal, agent, message, claims(principal, agent, message["messageId"]))


def _again(principal: Principal, run_id: uuid.UUID, from_step: str, key: str) -> tuple[Agent, JSON]:
    runs = PlanRun.objects.visible_to(principal).select_related("task__agent", "task__context")
    run = runs.filter(pk=run_id).first()
    agent = Agent.objects.visible_to(principal).filter(pk=run.task.agent_id).first() if run else None
    if run is None or agent is None or agent.current_version_id is None:
        raise UnsupportedOperation("There is no such run of a plan that you may run again.")
    plan = plan_at(agent.current_version_id)
    try:
        opening.check_again(plan, run, from_step)
    except AgentFailure as failure:
        raise UnsupportedOperation(str(failure)) from None
    message: JSON = {
        "messageId": key or str(uuid.uuid4()),
        "role": "ROLE_USER",
        "parts": [{"text": f"Run again from “{plan.title_of(from_step)}”."}],
        "referenceTaskIds": [str(run.pk)],
        "metadata": {opening.AGAIN: {"continues": str(run.pk), "from": from_step}},
    }
    if run.task.context.parent_task is None:
        message["contextId"] = run.task.context.context_id
    return agent, message
