"""Giving steps to their agents: each message becomes a child of the plan's task, once, however often it is sent."""

from __future__ import annotations

import asyncio
import datetime
import uuid
from collections.abc import Sequence
from functools import partial

from django.db.models.functions import Now

from apps.agents import registration
from apps.agents.models import Agent
from apps.agents.negotiation import Ask
from apps.engine import suspending
from apps.engine.delegation import principal_of
from apps.engine.send import accept_and_publish
from apps.features.routing import ranking
from apps.plans import answering, checks
from apps.plans.models import PlanRun, Step
from apps.plans.person import PERSON
from apps.plans.plans import plan_at
from apps.record import tracing
from apps.record.errors import Refusal
from apps.record.events import JSON
from apps.record.ledger import Ledger
from apps.record.lifecycle import TaskState
from apps.record.models import Task
from db import statements
from db.selections import Selection

State, Phase = Step.State, Step.Phase
AGENT = Selection(lambda slug: Agent.objects.filter(slug=slug), "slug")
HANDLER = "apps.plans.person:Person"


class NotWanted(Exception):
    """Somebody else has started the step, or it is not to be started any more."""


class NobodyFound(Exception):
    """There is nobody to do it; the text is a sentence that says why."""


def start_all(run: PlanRun, steps: Sequence[Step]) -> bool:
    """Send these steps to their agents; True where one of them could not be."""
    sender = Sender(run)
    refused = False
    for step in steps:
        try:
            sender.start(step)
        except NotWanted:
            continue
        except (NobodyFound, Refusal) as refusal:
            # Ended without a task: whoever looks at it finds why.
            why = str(refusal)[:500]
            still = Step.objects.filter(pk=step.pk, state=State.STARTING, phase=step.phase, attempt=step.attempt)
            refused |= bool(still.update(state=State.ENDED, why=why))
    return refused


class Sender:
    """Who sends the steps of a run: in the name of the task's owner, within its trace."""

    def __init__(self, run: PlanRun) -> None:
        self._run = run
        self._plan = plan_at(run.version_id)
        self._principal = principal_of(run.task)
        self._known: dict[str, Agent] = {}

    def start(self, step: Step) -> None:
        """Raises NotWanted, NobodyFound, Refusal."""
        definition = self._plan.step(step.key)
        receipt = accept_and_publish(
            self._principal,
            self._agent(step),
            step.message or {},
            alongside=partial(_link, step, definition.time_limit),
            sender=f"task:{self._run.pk}",
            skill=definition.skill or None if step.phase == Phase.WORK else None,
            parent=self._run.pk,
            traceparent=tracing.span_below(self._run.traceparent),
        )
        if receipt.repeated:  # it was sent, which whoever read the step had not heard of
            _adopt(step, receipt.task)

    def _agent(self, step: Step) -> Agent:
        """Who the step is for. Raises NobodyFound."""
        if step.phase == Phase.ANSWERING:
            slug = self._plan.definition.answering
        elif step.phase != Phase.WORK or step.agent == PERSON:
            return _person()
        else:
            slug = step.agent or self._found(step)
        if slug not in self._known:
            agent = AGENT.one(slug)
            if agent is None or not agent.is_open_to(self._principal):
                raise NobodyFound(f"There is no agent `{slug}` that the owner of this plan's task may use.")
            self._known[slug] = agent
        return self._known[slug]

    def _found(self, step: Step) -> str:
        """Whoever ranks best for the step: chosen once, whoever else looks. Raises NobodyFound."""
        wanted = self._plan.step(step.key).find
        ranked = asyncio.run(ranking.rank(self._principal, Ask(wanted)))
        fitting = [one.agent for one in ranked if one.accepted and one.agent.slug != PERSON]
        at_work = _plans_at_work(self._run.task)
        best = next((agent.slug for agent in fitting if not checks.way_back(agent, at_work)), None)
        if best is None:
            why = " but plans that would call this one again" if fitting else ""
            raise NobodyFound(f"No agent that the owner of this plan's task may use fits “{wanted}”{why}.")
        Step.objects.filter(pk=step.pk, agent="").update(agent=best)
        return str(Step.objects.values_list("agent", flat=True).get(pk=step.pk))


def _plans_at_work(task: Task) -> list[str]:
    """The slugs of the plan whose task this is, and of those within which it runs."""
    found: list[str] = []
    at: Task | None = task
    while at is not None:
        found += [at.agent.slug] if at.agent.kind == Agent.Kind.PLAN else []
        at = Task.objects.select_related("agent").filter(pk=at.parent_id).first() if at.parent_id else None
    return found


def _link(step: Step, limit: float | None, log: Ledger, task: uuid.UUID) -> None:
    """Tie the step to its task, and have its log listened to, in the transaction that makes the task."""
    values: JSON = {"task": task, "due_at": log.now + datetime.timedelta(seconds=limit) if limit else None}
    if step.phase != Phase.WORK:
        values = {"consulted": task, "due_at": None}
    still = {"id": step.pk, "state": State.STARTING, "phase": step.phase, "attempt": step.attempt}
    if not statements.update(Step, still, {"state": State.RUNNING, "asked_at": None, **values}):
        raise NotWanted
    log.context.is_watched = True


def _person() -> Agent:
    """Whom people are asked through, the platform's own alone. Raises NobodyFound where somebody else has the slug."""
    found = Agent.objects.filter(slug=PERSON).first() or registration.register_hosted(PERSON, HANDLER)
    if found.kind != Agent.Kind.HOSTED or found.handler != HANDLER:
        raise NobodyFound(f"The agent `{PERSON}` is not the platform's own. An operator has to give it another slug.")
    return found


def pass_answers_on(run: PlanRun) -> bool:
    """Give the answers of an answering agent to those who asked; True where there was one."""
    passed = False
    for step in Step.objects.filter(run=run, state=State.ENDED, phase=Phase.ANSWERING).select_related("task"):
        answer = answering.answer_of(step)
        child = Task.objects.select_related("context", "agent", "owner").filter(plan_steps=step).first()
        if answer is None or child is None:
            continue
        if child.state == TaskState.INPUT_REQUIRED:
            _answer(run, step, child, answer)
        passed |= _go_on(step, plan_at(run.version_id).step(step.key).time_limit)
    return passed


def _answer(run: PlanRun, step: Step, child: Task, answer: str) -> None:
    message_id = f"{step.key}:{step.item}:{step.round}:{step.attempt}:answered:{step.answers}"
    message = {"messageId": message_id, "taskId": str(child.pk), "role": "ROLE_USER", "parts": [{"text": answer}]}
    try:
        accept_and_publish(principal_of(run.task), child.agent, message, sender=f"task:{run.pk}")
    except Refusal:
        return  # it was answered, or has ended, just now


def _adopt(step: Step, task: uuid.UUID) -> None:
    """Tie the step to a task that was made for it before."""
    suspending.watch(task)
    tied = {"task": task} if step.phase == Phase.WORK else {"consulted": task}
    still = Step.objects.filter(pk=step.pk, state=State.STARTING, phase=step.phase, attempt=step.attempt)
    if still.update(state=State.RUNNING, asked_at=None, due_at=None, **tied):
        _look_at(step, task)


def _go_on(step: Step, limit: float | None) -> bool:
    """The step works again, with all of its time: what was left of it is not kept while it is being answered."""
    here = Step.objects.filter(pk=step.pk, phase=Phase.ANSWERING, state=State.ENDED)
    due_at = statements.database_time() + datetime.timedelta(seconds=limit) if limit else None
    if not here.update(phase=Phase.WORK, state=State.RUNNING, asked_at=None, due_at=due_at):
        return False
    step.phase = Phase.WORK
    if step.task_id is not None:
        _look_at(step, step.task_id)
    return True


def _look_at(step: Step, task: uuid.UUID) -> None:
    """Mark the step as its task is by now, which nobody may have told it before."""
    state = TaskState(Task.objects.values_list("state", flat=True).get(pk=task))
    if state.is_settled:
        seen = State.ENDED if state.is_terminal else State.ASKING
        Step.objects.filter(pk=step.pk, phase=step.phase, state=State.RUNNING).update(state=seen, asked_at=Now())
