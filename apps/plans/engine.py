"""The engine of plans: moves a run on. `transitions` decides under the run's lock; what follows is done here, after it.

What follows (sending steps to their agents, canceling, reporting on the plan's task) is idempotent: the next tick does
again what was interrupted.
"""

from __future__ import annotations

import asyncio
import datetime
import math
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.db.models import Q
from django.db.models.functions import Now

from agentkit import Artifact, AuthRequired, Completed, Failed, InputRequired, Progress, text_part
from apps.agents import registration
from apps.agents.models import Agent
from apps.agents.negotiation import WorkRequest
from apps.agents.sql import AGENT_BY_SLUG
from apps.engine import cancel, delegation, finish
from apps.engine.delegation import principal_of, question_of
from apps.engine.send import accept_and_publish
from apps.features.routing import ranking
from apps.plans import registry, transitions
from apps.plans.graphs import plan_at
from apps.plans.models import PlanRun, Step
from apps.plans.person import PERSON
from apps.plans.run_state import RunState, deadline
from apps.plans.transitions import Decision, RunEnded, decide, reload_task
from apps.record import runs
from apps.record.errors import Refusal
from apps.record.events import JSON
from apps.record.ledger import Ledger
from apps.record.models import Artifact as Delivered
from apps.record.models import Context, Task, TaskState
from db import sql

CONNECTION_ERRORS = (OperationalError, InterfaceError, ConnectionError, TimeoutError)
"""Raised while a database or a broker is away, which says nothing about the run."""

MOST_FAILURES = 5  # of ticks of a run in a row, at least as far apart as sweeps
GIVEN_UP = "Parley could not go on with this plan. Whoever operates it finds why in its log."

MOST_TICKS = 200  # in one go: the sweep goes on with a run that does not come to rest

_failures_by_run: dict[uuid.UUID, Failures] = {}  # in this process, since the last tick that went well


@dataclass
class Failures:
    """How often ticks failed, and when (`time.monotonic`) that was counted last."""

    number: int = 0
    counted_at: float = -math.inf

    def count(self) -> None:
        now = time.monotonic()
        if now - self.counted_at >= settings.SWEEP_SECONDS:
            self.number, self.counted_at = self.number + 1, now


def advance(run_id: uuid.UUID) -> None:
    """Move a run on as far as it goes now. Any process may do so at any time, several at once.

    After MOST_FAILURES failures the run ends, so that nobody waits for it in vain.
    """
    try:
        for _ in range(MOST_TICKS):
            decision = decide(run_id)
            if decision is None or not _carry_out(decision):
                _failures_by_run.pop(run_id, None)
                return
        PlanRun.objects.filter(pk=run_id).update(advanced_at=None)
    except (Context.DoesNotExist, Task.DoesNotExist, PlanRun.DoesNotExist):
        _failures_by_run.pop(run_id, None)  # it was deleted just now
    except CONNECTION_ERRORS:
        _postpone(run_id)
        raise
    except Exception:
        failures = _failures_by_run.setdefault(run_id, Failures())
        failures.count()
        if failures.number < MOST_FAILURES:
            _postpone(run_id)
        else:
            _fail_run(run_id)
        raise


def _postpone(run_id: uuid.UUID) -> None:
    """Let the sweep come to others first. A run without `advanced_at` stays due."""
    PlanRun.objects.filter(pk=run_id, advanced_at__isnull=False).update(advanced_at=sql.database_time())


def _fail_run(run_id: uuid.UUID) -> None:
    task = reload_task(run_id)
    if task is not None:
        finish.record_outcome(task, Failed(GIVEN_UP, "engine_error"))  # the next tick closes the run
    _failures_by_run.pop(run_id, None)


def _carry_out(decision: Decision | RunEnded) -> bool:
    """Do what was decided; True if another tick is to follow at once."""
    if isinstance(decision, RunEnded):
        cancel.cancel_children(decision.task)
        return False
    run_state = decision.run_state
    task = run_state.run.task
    if decision.failed is not None:
        failed = Failed(failure_sentence(run_state, decision.failed), "step_failed")
        return finish.record_outcome(task, failed)
    if decision.is_done:
        return finish.record_outcome(task, completed_outcome(run_state))
    for key in run_state.to_cancel:
        _cancel_task(key)
    again = decision.is_out_of_time
    if run_state.plan.definition.answering:
        again |= forward_answers(run_state.run)
    if run_state.to_send:
        again |= send_steps(run_state.run, run_state.to_send)
    if decision.question_task is not None and _ask_on_task(run_state, decision.question_task):
        return True  # others may ask by then
    report_progress(run_state)
    return again


def _cancel_task(key: uuid.UUID) -> None:
    task = reload_task(key)
    if task is not None:
        with suppress(Refusal):  # it has ended just now
            cancel.cancel_task(task)


def _ask_on_task(run_state: RunState, question_task: uuid.UUID) -> bool:
    """Put the question of a child on the plan's task; True if the task asks now, whoever put it there."""
    child, task = reload_task(question_task), run_state.run.task
    if child is None or not child.slot or not Step.objects.filter(run=task.pk, state=Step.State.ASKING).exists():
        return False
    if finish.record_outcome(task, with_waiting_questions(question_of(child), run_state), child):
        keep_waiting_questions(run_state)
        delegation.resume_suspended(Q(task=task.pk))  # the child may have gone on just before
    return True


State, Phase = Step.State, Step.Phase
PERSON_HANDLER = "apps.plans.person:Person"


class AlreadyStarted(Exception):
    """Another tick has started the step, or it is not to be started any more."""


class NoAgentFound(Exception):
    """No agent can do the step; the text is a sentence that says why."""


def send_steps(run: PlanRun, steps: Sequence[Step]) -> bool:
    """Send these steps to their agents; True if one could not be sent."""
    sender = Sender(run)
    refused = False
    for step in steps:
        try:
            sender.send(step)
        except AlreadyStarted:
            continue
        except (NoAgentFound, Refusal) as refusal:
            # It ends without a task: the next tick finds why.
            why = str(refusal)[:500]
            still = Step.objects.filter(pk=step.pk, state=State.STARTING, phase=step.phase, attempt=step.attempt)
            refused |= bool(still.update(state=State.ENDED, why=why))
    return refused


class Sender:
    """Sends the steps of a run in the name of the task's owner, within its trace."""

    def __init__(self, run: PlanRun) -> None:
        self._run = run
        self._plan = plan_at(run.version_id)
        self._principal = principal_of(run.task)
        self._agents: dict[str, Agent] = {}

    def send(self, step: Step) -> None:
        """Raises AlreadyStarted, NoAgentFound, Refusal."""
        definition = self._plan.step(step.key)
        receipt = accept_and_publish(
            self._principal,
            self._agent(step),
            step.message or {},
            extra_writes=partial(_link_task, step, definition.time_limit),
            sender=f"task:{self._run.pk}",
            skill=(step.phase == Phase.WORK and definition.skill) or None,
            parent=self._run.pk,
            traceparent=runs.new_span(self._run.traceparent),
        )
        if receipt.repeated:  # it was sent before
            _adopt_task(step, receipt.task, definition.time_limit)

    def _agent(self, step: Step) -> Agent:
        """The agent that the step is for. Raises NoAgentFound."""
        if step.phase == Phase.ANSWERING:
            slug = self._plan.definition.answering
        elif step.phase != Phase.WORK or step.agent == PERSON:
            return _person_agent()
        else:
            slug = step.agent or self._best_agent(step)
        if slug not in self._agents:
            agent = AGENT_BY_SLUG.one(slug)
            if agent is None or not agent.is_open_to(self._principal):
                raise NoAgentFound(f"There is no agent `{slug}` that the owner of this plan's task may use.")
            self._agents[slug] = agent
        return self._agents[slug]

    def _best_agent(self, step: Step) -> str:
        """The agent that ranks best for the step, chosen once for all ticks. Raises NoAgentFound."""
        wanted = self._plan.step(step.key).find
        ranked = asyncio.run(ranking.rank_agents(self._principal, WorkRequest(wanted)))
        fitting = [one.agent for one in ranked if one.accepted and one.agent.slug != PERSON]
        at_work = _calling_plans(self._run.task)
        best = next((agent.slug for agent in fitting if not registry.call_path_to(agent, at_work)), None)
        if best is None:
            why = " but plans that would call this one again" if fitting else ""
            raise NoAgentFound(f"No agent that the owner of this plan's task may use fits “{wanted}”{why}.")
        Step.objects.filter(pk=step.pk, agent="").update(agent=best)
        return str(Step.objects.values_list("agent", flat=True).get(pk=step.pk))


def _calling_plans(task: Task) -> list[str]:
    """The slugs of the plan whose task this is, and of those within which it runs."""
    found: list[str] = []
    at: Task | None = task
    while at is not None:
        found += [at.agent.slug] if at.agent.kind == Agent.Kind.PLAN else []
        at = Task.objects.select_related("agent").filter(pk=at.parent_id).first() if at.parent_id else None
    return found


def _link_task(step: Step, limit: float | None, log: Ledger, task: uuid.UUID) -> None:
    """Tie the step to its task, and watch the task's context, in the transaction that makes the task."""
    still = {"id": step.pk, "state": State.STARTING, "phase": step.phase, "attempt": step.attempt}
    if not sql.update(Step, still, _running_fields(step, task, log.now, limit)):
        raise AlreadyStarted
    log.context.is_watched = True


def _adopt_task(step: Step, task: uuid.UUID, limit: float | None) -> None:
    """Tie the step to a task that was made for it before."""
    delegation.watch_child(task)
    still = Step.objects.filter(pk=step.pk, state=State.STARTING, phase=step.phase, attempt=step.attempt)
    if still.update(**_running_fields(step, task, sql.database_time(), limit)):
        _mark_from_task(step, task)


def _running_fields(step: Step, task: uuid.UUID, now: datetime.datetime, limit: float | None) -> JSON:
    tied = {"task": task, "due_at": deadline(now, limit)}
    if step.phase != Phase.WORK:
        tied = {"consulted": task, "due_at": None}
    return {"state": State.RUNNING, "asked_at": None, **tied}


def _person_agent() -> Agent:
    """The platform's own agent that asks people. Raises NoAgentFound if another agent has its slug."""
    found = Agent.objects.filter(slug=PERSON).first() or registration.register_hosted(PERSON, PERSON_HANDLER)
    if found.kind != Agent.Kind.HOSTED or found.handler != PERSON_HANDLER:
        raise NoAgentFound(f"The agent `{PERSON}` is not the platform's own. An operator has to give it another slug.")
    return found


def forward_answers(run: PlanRun) -> bool:
    """Give the answers of the answering agent to the tasks that asked; True if there was one."""
    passed = False
    answered = Step.objects.filter(run=run, state=State.ENDED, phase=Phase.ANSWERING)
    for step in answered.select_related("consulted", "task__context", "task__agent", "task__owner"):
        answer = transitions.answer_of_agent(step)
        if answer is None or step.task is None:
            continue
        if step.task.state == TaskState.INPUT_REQUIRED:
            _send_answer(run, step, step.task, answer)
        passed |= _resume_step(step, plan_at(run.version_id).step(step.key).time_limit)
    return passed


def _send_answer(run: PlanRun, step: Step, child: Task, answer: str) -> None:
    message_id = f"{step.key}:{step.item}:{step.round}:{step.attempt}:answered:{step.answers}"
    message = {"messageId": message_id, "taskId": str(child.pk), "role": "ROLE_USER", "parts": [{"text": answer}]}
    try:
        accept_and_publish(principal_of(run.task), child.agent, message, sender=f"task:{run.pk}")
    except Refusal:
        return  # it was answered, or has ended, just now


def _resume_step(step: Step, limit: float | None) -> bool:
    """The step works again, with all of its time."""
    answered = Step.objects.filter(pk=step.pk, phase=Phase.ANSWERING, state=State.ENDED)
    due_at = deadline(sql.database_time(), limit)
    if not answered.update(phase=Phase.WORK, state=State.RUNNING, asked_at=None, due_at=due_at):
        return False
    step.phase = Phase.WORK
    if step.task_id is not None:
        _mark_from_task(step, step.task_id)
    return True


def _mark_from_task(step: Step, task: uuid.UUID) -> None:
    """Mark the step as its task is by now: an event before it was tied to the task did not."""
    state = TaskState(Task.objects.values_list("state", flat=True).get(pk=task))
    if state.is_settled:
        seen = State.ENDED if state.is_terminal else State.ASKING
        Step.objects.filter(pk=step.pk, phase=step.phase, state=State.RUNNING).update(state=seen, asked_at=Now())


REPORT_INTERVAL = datetime.timedelta(seconds=1)
MOST_NAMED = 3  # steps in a sentence
REPORT_PENDING = ""  # the next tick, or the sweep, finds that
ALONE = "It asks one question."  # while no others wait


def failure_sentence(run_state: RunState, step: Step) -> str:
    """Which step failed, and why."""
    number = f" ({step.item + 1})" if step.item >= 0 else ""
    return f"The step “{run_state.plan.title_of(step.key)}”{number} failed: {step.why or 'It did not say why.'}"


def completed_outcome(run_state: RunState) -> Completed:
    """All is done: the artifacts of the plan's outputs, each under a name of its own."""
    done = run_state.count(State.DONE)
    skipped = run_state.count(State.SKIPPED)
    text = f"{_steps_counted(done)} done" + (f", {skipped} skipped." if skipped else ".")
    return Completed(text, _output_artifacts(run_state))


def _output_artifacts(run_state: RunState) -> list[Artifact]:
    found = [pair for key in run_state.plan.outputs for pair in _delivered_by(run_state, key)]
    names = Counter(one.name for _, one in found)
    return [_output_artifact(step, one, _artifact_name(step, one, names)) for step, one in found]


def _output_artifact(step: Step, delivered: Delivered, name: str) -> Artifact:
    return Artifact(delivered.parts, name, delivered.description, metadata={**delivered.metadata, "step": step.key})


def _delivered_by(run_state: RunState, key: str) -> list[tuple[Step, Delivered]]:
    """The artifacts of the steps of a key; of a repetition those of its last round."""
    last = {step.item: step for step in run_state.steps(key=key, state=State.DONE, task__isnull=False)}
    by_task = {step.task_id: step for step in last.values()}
    made = Delivered.objects.delivered().filter(task__in=by_task).order_by("first_event")
    ordered = sorted(made, key=lambda one: by_task[one.task_id].item)
    return [(by_task[one.task_id], one) for one in ordered]


def _artifact_name(step: Step, artifact: Delivered, names: Counter[str]) -> str:
    """The artifact's name, with the step's if several have the same."""
    if names[artifact.name] == 1 and artifact.name:
        return artifact.name
    number = f" {step.item + 1}" if step.item >= 0 else ""
    return f"{step.key}{number}: {artifact.name}"[:250] if artifact.name else f"{step.key}{number}"


def with_waiting_questions(question: InputRequired | AuthRequired, run_state: RunState) -> InputRequired | AuthRequired:
    """The question of a step as the plan's, which says how many others wait."""
    others = _waiting_questions(run_state)
    if others == ALONE:
        return question
    parts = [*question.parts, text_part(others)]
    if isinstance(question, AuthRequired):  # whose last part is the link to where a credential is given
        parts[-2:] = reversed(parts[-2:])
    return replace(question, message=parts)


def keep_waiting_questions(run_state: RunState) -> None:
    """Remember how many others wait, as the plan has said."""
    PlanRun.objects.filter(pk=run_state.run.pk, told=run_state.run.told).update(told=_waiting_questions(run_state))


def _waiting_questions(run_state: RunState) -> str:
    """How many questions wait beside the one that the plan itself asks."""
    number = run_state.count(State.ASKING) - 1
    if number < 1:
        return ALONE
    many = "1 more question waits" if number == 1 else f"{number} more questions wait"
    return f"{many} beside this one: all are in the inbox to be answered in any order, and are asked here in turn."


def report_progress(run_state: RunState) -> None:
    """Say on the task how far the run is, where that has changed and at most once in REPORT_INTERVAL."""
    run = run_state.run
    if TaskState(run.task.state).is_interrupted:
        _report_questions(run_state)
        return
    done, total = run_state.count(State.DONE, State.SKIPPED), run_state.size
    titles = [run_state.plan.title_of(key) for key in run_state.plan.definition.steps if run_state.is_active(key)]
    named = ", ".join(titles[:MOST_NAMED]) + (f" and {len(titles) - MOST_NAMED} more" if titles[MOST_NAMED:] else "")
    text = (
        f"{done} of {_steps_counted(total)} done"
        + (f": {named}" if named else "")
        + (" (paused)" if run.paused_at else "")
    )
    text = text[:300]
    if text == run.told:
        return
    if run.told_at and run_state.now - run.told_at < REPORT_INTERVAL:
        if run.told != REPORT_PENDING:
            sql.update(PlanRun, {"task": run.pk, "told_at": run.told_at}, {"told": REPORT_PENDING})
        return
    as_read = {"task": run.pk, "told": run.told} | ({"told_at": run.told_at} if run.told_at else {})
    if sql.update(PlanRun, as_read, {"told": text, "told_at": run_state.now}):
        finish.record_outcome(run.task, Progress(text, done, total))


def _report_questions(run_state: RunState) -> None:
    """Say how many questions wait by now, if that has changed since the plan asked."""
    run, text = run_state.run, _waiting_questions(run_state)
    own = (run.task.slot or {}).get("child")
    asking = Step.objects.asking().filter(run=run)
    if text == run.told or not asking.filter(Q(task=own) | Q(consulted=own)).exists():
        return  # nothing is new, or the plan is about to go on
    is_soon = run.told_at is not None and run_state.now - run.told_at < REPORT_INTERVAL
    if is_soon and run_state.count(State.ASKING) > MOST_NAMED:
        PlanRun.objects.filter(pk=run.pk, told_at=run.told_at).update(told=REPORT_PENDING)
    elif PlanRun.objects.filter(pk=run.pk, told=run.told).update(told=text, told_at=run_state.now) and text != ALONE:
        finish.add_remark(run.task, text)


def _steps_counted(number: int) -> str:
    return f"{number} step" if number == 1 else f"{number} steps"
