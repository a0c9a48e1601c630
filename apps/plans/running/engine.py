"""The engine of plans. `transitions` decides under the run's lock; after the commit, this module carries it out.

Sending steps, canceling tasks and reporting on the plan's task are idempotent: the next tick repeats what was lost.
"""

from __future__ import annotations

import asyncio
import datetime
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.db.models import Q
from django.db.models.functions import Now

from agentkit import Artifact, AuthRequired, Completed, Failed, InputRequired, Progress, text_part
from apps.accounts.principals import Principal
from apps.agents import registration
from apps.agents.models import Agent
from apps.agents.negotiation import WorkRequest
from apps.agents.sql import AGENT_BY_SLUG
from apps.engine import cancel, finish
from apps.engine.send import accept_and_publish
from apps.engine.turns import delegation
from apps.engine.turns.delegation import principal_of, question_of
from apps.installation.models import Activity
from apps.plans import registry
from apps.plans.graphs import plan_at
from apps.plans.models import PlanRun, Step
from apps.plans.person import PERSON, record_answers
from apps.plans.running import transitions
from apps.plans.running.run_state import RunState, deadline
from apps.plans.running.transitions import Decision, RunEnded, decide, reload_task
from apps.record.content.composing import compose
from apps.record.errors import NotAccepting, Refusal
from apps.record.events import JSON
from apps.record.execution import Run
from apps.record.ledger import Ledger
from apps.record.models import Artifact as Delivered
from apps.record.models import Context, Task, TaskState
from apps.routing import ranking
from parley.db import sql

CONNECTION_ERRORS = (OperationalError, InterfaceError, ConnectionError, TimeoutError)  # not the run's fault
MOST_FAILURES = 5  # ticks of a run that fail in a row, at least SWEEP_SECONDS apart
GIVEN_UP = "Parley could not continue this plan. An operator can find the reason in the log."

MOST_TICKS = 200  # in a row; then the sweep continues

# Monotonic times of failures in this process since the last successful tick.
_failures_by_run: dict[uuid.UUID, list[float]] = {}


def advance(run_id: uuid.UUID) -> None:
    """Advance a run as far as possible. Several processes may do this at the same time.

    After MOST_FAILURES failures the run fails, so that nobody waits forever.
    """
    try:
        for _ in range(MOST_TICKS):
            record_answers(run_id)
            decision = decide(run_id)
            if decision is None or not _carry_out(decision):
                _failures_by_run.pop(run_id, None)
                return
        PlanRun.objects.filter(pk=run_id).update(advanced_at=None)
    except (Context.DoesNotExist, Task.DoesNotExist, PlanRun.DoesNotExist):
        _failures_by_run.pop(run_id, None)  # it was deleted
    except CONNECTION_ERRORS:
        _postpone(run_id)
        raise
    except Exception:
        failures, now = _failures_by_run.setdefault(run_id, []), time.monotonic()
        if not failures or now - failures[-1] >= settings.SWEEP_SECONDS:
            failures.append(now)
        if len(failures) < MOST_FAILURES:
            _postpone(run_id)
        else:
            _fail_run(run_id)
        raise


def _postpone(run_id: uuid.UUID) -> None:
    """Let the sweep handle other runs first. A run without `advanced_at` stays due."""
    PlanRun.objects.filter(pk=run_id, advanced_at__isnull=False).update(advanced_at=sql.database_time())


def _fail_run(run_id: uuid.UUID) -> None:
    task = reload_task(run_id)
    if task is not None:
        finish.record_outcome(task, Failed(GIVEN_UP, "engine_error"))  # the next tick finishes the run
    _failures_by_run.pop(run_id, None)


def _carry_out(decision: Decision | RunEnded) -> bool:
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
        if (child := reload_task(key)) is not None:
            with suppress(Refusal):  # the task has ended
                cancel.cancel_task(child)
    again = decision.is_out_of_time
    if run_state.plan.definition.answering:
        again |= forward_answers(run_state.run)
    if run_state.to_send:
        again |= send_steps(run_state.run, run_state.to_send)
    if decision.question_task is not None and _ask_on_task(run_state, decision.question_task):
        return True  # other questions may wait by then
    report_progress(run_state)
    return again


def _ask_on_task(run_state: RunState, question_task: uuid.UUID) -> bool:
    child, task = reload_task(question_task), run_state.run.task
    if child is None or not child.slot or not Step.objects.filter(run=task.pk, state=Step.State.ASKING).exists():
        return False
    if finish.record_outcome(task, with_waiting_questions(question_of(child), run_state), child):
        run = run_state.run
        PlanRun.objects.filter(pk=run.pk, told=run.told).update(told=_waiting_questions(run_state))
        delegation.resume_suspended(Q(task=task.pk))  # the child may have continued in the meantime
    return True


State, Phase = Step.State, Step.Phase
PERSON_HANDLER = "apps.plans.person:Person"


class AlreadyStarted(Exception):
    """Another tick started the step, or the step must no longer start."""


class NoAgentFound(Exception):
    """No agent can do the step; the text says why."""


def send_steps(run: PlanRun, steps: Sequence[Step]) -> bool:
    sender = Sender(run)
    refused = False
    for step in steps:
        try:
            sender.send(step)
        except (AlreadyStarted, NotAccepting):  # of the latter a later tick tries again
            continue
        except (NoAgentFound, Refusal) as refusal:
            # The step ends without a task; the next tick reads the reason.
            why = str(refusal)[:500]
            still = Step.objects.filter(pk=step.pk, state=State.STARTING, phase=step.phase, attempt=step.attempt)
            refused |= bool(still.update(state=State.ENDED, why=why))
    return refused


class Sender:
    """Sends the steps of a run as the task's owner, for the API key that started it."""

    def __init__(self, run: PlanRun) -> None:
        self._run = run
        self._plan = plan_at(run.version_id)
        self._agents: dict[str, Agent] = {}

    def send(self, step: Step) -> None:
        """Raises AlreadyStarted, NoAgentFound, NotAccepting, Refusal."""
        definition = self._plan.step(step.key)
        receipt = accept_and_publish(
            self._principal,
            self._agent(step),
            step.message or {},
            extra_writes=partial(_link_task, step, definition.time_limit),
            sender=f"task:{self._run.pk}",
            skill=(step.phase == Phase.WORK and definition.skill) or None,
            parent=self._run.pk,
            project=self._run.task.context.project,
            temporary=self._run.task.context.is_temporary,
            priority=self._priority,
            traceparent=self._run.traceparent,
        )
        if receipt.repeated:  # it was sent before
            _adopt_task(step, receipt.task, definition.time_limit)

    @cached_property
    def _priority(self) -> Run.Priority:
        """That of the plan itself. A turn that called the plan waits for its steps."""
        return Run.Priority.CONTINUED if self._run.task.parent_id else Run.Priority(self._last_turn.priority)

    @cached_property
    def _principal(self) -> Principal:
        return principal_of(self._run.task, self._last_turn.lane)

    @cached_property
    def _last_turn(self) -> Run:
        found = Run.objects.filter(task=self._run.pk).order_by("-turn").only("lane", "priority").first()
        return found or Run()

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
                raise NoAgentFound(f"The owner of this run may not use an agent `{slug}`, or it does not exist.")
            self._agents[slug] = agent
        return self._agents[slug]

    def _best_agent(self, step: Step) -> str:
        """The agent that ranks best; concurrent ticks agree on one. Raises NoAgentFound, NotAccepting."""
        wanted = self._plan.step(step.key).find
        ranked = asyncio.run(ranking.rank_agents(self._principal, WorkRequest(wanted)))
        fitting = [one.agent for one in ranked if one.accepted and one.agent.slug != PERSON]
        calling = _calling_plans(self._run.task)
        best = next((agent.slug for agent in fitting if not registry.call_path_to(agent, calling)), None)
        if best is None and any(one.agent.activity != Activity.ACTIVE for one in ranked):
            raise NotAccepting("An agent that might do it is paused or drained.")
        if best is None:
            why = " but plans that would call this one again" if fitting else ""
            raise NoAgentFound(f"No agent that the owner of this run may use fits “{wanted}”{why}.")
        Step.objects.filter(pk=step.pk, agent="").update(agent=best)
        return str(Step.objects.values_list("agent", flat=True).get(pk=step.pk))


def _calling_plans(task: Task) -> list[str]:
    found: list[str] = []
    at: Task | None = task
    while at is not None:
        found += [at.agent.slug] if at.agent.kind == Agent.Kind.PLAN else []
        at = Task.objects.select_related("agent").filter(pk=at.parent_id).first() if at.parent_id else None
    return found


def _link_task(step: Step, limit: float | None, log: Ledger, task: uuid.UUID) -> None:
    """Link the step to its task, and watch the task's context, in the transaction that creates the task."""
    still = {"id": step.pk, "state": State.STARTING, "phase": step.phase, "attempt": step.attempt}
    if not sql.update(Step, still, _running_fields(step, task, log.now, limit)):
        raise AlreadyStarted
    log.context.is_watched = True


def _adopt_task(step: Step, task: uuid.UUID, limit: float | None) -> None:
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
    """The platform's agent that asks people. Raises NoAgentFound if another agent has its slug."""
    found = Agent.objects.filter(slug=PERSON).first() or registration.register_hosted(PERSON, PERSON_HANDLER)
    if found.kind != Agent.Kind.HOSTED or found.handler != PERSON_HANDLER:
        raise NoAgentFound(f"The agent `{PERSON}` is not Parley's own. An operator has to give it another slug.")
    return found


def forward_answers(run: PlanRun) -> bool:
    """Pass the answering agent's answers to the tasks that asked; True if there was one."""
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
    key = f"{step.key}:{step.item}:{step.round}:{step.attempt}:answered:{step.answers}"
    message = compose([{"text": answer}], key=key, task=child.pk)
    try:
        accept_and_publish(principal_of(run.task), child.agent, message, sender=f"task:{run.pk}")
    except Refusal:
        return  # the question was answered, or its task ended, just now


def _resume_step(step: Step, limit: float | None) -> bool:
    """The step works again, with its full time limit."""
    answered = Step.objects.filter(pk=step.pk, phase=Phase.ANSWERING, state=State.ENDED)
    due_at = deadline(sql.database_time(), limit)
    if not answered.update(phase=Phase.WORK, state=State.RUNNING, asked_at=None, due_at=due_at):
        return False
    step.phase = Phase.WORK
    if step.task_id is not None:
        _mark_from_task(step, step.task_id)
    return True


def _mark_from_task(step: Step, task: uuid.UUID) -> None:
    """Mark the step by its task's state: events that came before the link did not mark it."""
    state = TaskState(Task.objects.values_list("state", flat=True).get(pk=task))
    if state.is_settled:
        seen = State.ENDED if state.is_terminal else State.ASKING
        Step.objects.filter(pk=step.pk, phase=step.phase, state=State.RUNNING).update(state=seen, asked_at=Now())


REPORT_INTERVAL = datetime.timedelta(seconds=1)
MOST_NAMED = 3  # steps in a sentence
REPORT_PENDING = ""  # in `told`: the next tick or the sweep reports
ALONE = "It asks one question."  # in `told`, not shown: no other questions wait


def failure_sentence(run_state: RunState, step: Step) -> str:
    number = f" ({step.item + 1})" if step.item >= 0 else ""
    return f"The step “{run_state.plan.title_of(step.key)}”{number} failed: {step.why or 'No reason was given.'}"


def completed_outcome(run_state: RunState) -> Completed:
    done = run_state.count(State.DONE)
    skipped = run_state.count(State.SKIPPED)
    text = f"{_steps_counted(done)} done" + (f", {skipped} skipped." if skipped else ".")
    return Completed(text, _output_artifacts(run_state))


def _output_artifacts(run_state: RunState) -> list[Artifact]:
    found = [pair for key in run_state.plan.outputs for pair in _delivered_by(run_state, key)]
    names = Counter(one.name for _, one in found)
    return [
        Artifact(
            one.parts,
            _artifact_name(step, one, names),
            one.description,
            metadata={**one.metadata, "step": step.key},
        )
        for step, one in found
    ]


def _delivered_by(run_state: RunState, key: str) -> list[tuple[Step, Delivered]]:
    last = {step.item: step for step in run_state.steps(key=key, state=State.DONE, task__isnull=False)}
    by_task = {step.task_id: step for step in last.values()}
    made = Delivered.objects.delivered().filter(task__in=by_task).order_by("first_event")
    ordered = sorted(made, key=lambda one: by_task[one.task_id].item)
    return [(by_task[one.task_id], one) for one in ordered]


def _artifact_name(step: Step, artifact: Delivered, names: Counter[str]) -> str:
    if names[artifact.name] == 1 and artifact.name:
        return artifact.name
    number = f" {step.item + 1}" if step.item >= 0 else ""
    return f"{step.key}{number}: {artifact.name}"[:250] if artifact.name else f"{step.key}{number}"


def with_waiting_questions(question: InputRequired | AuthRequired, run_state: RunState) -> InputRequired | AuthRequired:
    """The question of a step, with the number of other waiting questions."""
    others = _waiting_questions(run_state)
    if others == ALONE:
        return question
    parts = [*question.parts, text_part(others)]
    if isinstance(question, AuthRequired):  # its last part must stay the link to the credential page
        parts[-2:] = reversed(parts[-2:])
    return replace(question, message=parts)


def _waiting_questions(run_state: RunState) -> str:
    number = run_state.count(State.ASKING) - 1
    if number < 1:
        return ALONE
    many = "1 more question waits" if number == 1 else f"{number} more questions wait"
    return f"{many} besides this one. Answer them here one by one, or in any order in the inbox."


def report_progress(run_state: RunState) -> None:
    """Report progress on the task if it changed, at most once per REPORT_INTERVAL."""
    run = run_state.run
    if TaskState(run.task.state).is_interrupted:
        _report_questions(run_state)
        return
    done, total = run_state.count(State.DONE, State.SKIPPED), run_state.size
    titles = [run_state.plan.title_of(key) for key in run_state.plan.definition.steps if run_state.is_active(key)]
    named = ", ".join(titles[:MOST_NAMED]) + (f" and {len(titles) - MOST_NAMED} more" if titles[MOST_NAMED:] else "")
    details = (f": {named}" if named else "") + (" (paused)" if run.paused_at else "")
    text = f"{done} of {_steps_counted(total)} done{details}"[:300]
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
    run, text = run_state.run, _waiting_questions(run_state)
    own = (run.task.slot or {}).get("child")
    asking = Step.objects.asking().filter(run=run)
    if text == run.told or not asking.filter(Q(task=own) | Q(consulted=own)).exists():
        return  # unchanged, or the plan's question was answered
    is_soon = run.told_at is not None and run_state.now - run.told_at < REPORT_INTERVAL
    if is_soon and run_state.count(State.ASKING) > MOST_NAMED:
        PlanRun.objects.filter(pk=run.pk, told_at=run.told_at).update(told=REPORT_PENDING)
    elif PlanRun.objects.filter(pk=run.pk, told=run.told).update(told=text, told_at=run_state.now) and text != ALONE:
        finish.add_remark(run.task, text)


def _steps_counted(number: int) -> str:
    return f"{number} step" if number == 1 else f"{number} steps"
