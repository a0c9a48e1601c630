"""The transitions of steps, decided under the lock of their run. `engine` sends and reports after the commit.

`decide` settles steps whose tasks have ended, starts those that are ready, and gives questions to the answering agent.
Each message is stored before it is sent, with a fixed messageId, so that any tick can send it, and only once.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from django.conf import settings

from apps.engine.turns.output import clean
from apps.plans import person
from apps.plans.definitions import MOST_STEPS, Fallback, StepDefinition
from apps.plans.models import PlanRun, Step
from apps.plans.person import PERSON
from apps.plans.running.run_state import RunState, check_problem, deadline, message_text, result_parts
from apps.plans.sql import LOCKED_RUN
from apps.record.content.composing import compose
from apps.record.content.parts import size_of
from apps.record.events import JSON
from apps.record.models import Task, TaskState
from apps.record.runs import has_unfinished_run
from parley import templating
from parley.db import sql
from parley.db.sql import write_transaction
from parley.templating import TemplateProblem

State, Phase = Step.State, Step.Phase


@dataclass
class Decision:
    """What to do after the commit. All of it is idempotent.

    Attributes:
        question_task: a task whose question the plan is to ask.
        is_out_of_time: the tick did not get to all steps.
        failed: the step whose failure ends the plan.
    """

    run_state: RunState
    question_task: uuid.UUID | None = None
    is_out_of_time: bool = False
    failed: Step | None = None
    is_done: bool = False


@dataclass(frozen=True)
class RunEnded:
    """The plan's task has ended: its children must be canceled."""

    task: uuid.UUID


def decide(run_id: uuid.UUID) -> Decision | RunEnded | None:
    """Advance the steps of a run; None for a run that was over."""
    with write_transaction():
        found = LOCKED_RUN.one(run_id)
        if found is None or found[0].finished_at is not None:
            return None
        run, now = found
        if TaskState(run.task.state).is_terminal:  # the plan itself may no longer be readable
            open_steps = Step.objects.open().filter(run=run)
            open_steps.update(state=State.CANCELED, ended_at=now, due_at=None, asked_at=None)
            sql.update(PlanRun, {"task": run.pk}, {"advanced_at": now, "finished_at": now})
            return RunEnded(run.pk)
        decision = _decide_steps(RunState(run, now))
        # If no tick follows one that was out of time, the sweep finds the run.
        sql.update(PlanRun, {"task": run.pk}, {"advanced_at": None if decision.is_out_of_time else now})
        return decision


def _decide_steps(run_state: RunState) -> Decision:
    if run_state.count(State.FAILED):  # an earlier tick was lost before it recorded the plan's end
        run_state.failed = run_state.steps(state=State.FAILED)[0]
    elif run_state.count(State.ENDED):
        settle_steps(run_state)
        if run_state.plan.definition.answering:
            settle_unanswered(run_state)
    if run_state.failed is None and run_state.run.paused_at is None:
        start_ready_steps(run_state)
    if run_state.failed is not None:
        return Decision(run_state, failed=run_state.failed)
    if run_state.is_done:
        return Decision(run_state, is_done=True)
    ask_answering_agent(run_state)
    run_state.adopt_unsent()
    run_state.to_cancel += _overdue_tasks(run_state)
    return Decision(run_state, _task_to_ask_for(run_state), run_state.is_out_of_time)


def _overdue_tasks(run_state: RunState) -> list[uuid.UUID]:
    if not any(step.time_limit for step in run_state.plan.definition.steps.values()):
        return []
    late = list(run_state.steps(state=State.RUNNING, phase=Phase.WORK, due_at__lt=run_state.now))
    for step in late:
        limit = run_state.plan.step(step.key).time_limit or 0
        Step.objects.filter(pk=step.pk).update(why=f"It took longer than its limit of {limit:g} seconds.")
    return [step.task_id for step in late if step.task_id]


def _task_to_ask_for(run_state: RunState) -> uuid.UUID | None:
    """The task that has asked for longest, if the plan can ask now."""
    if run_state.run.task.state != TaskState.WORKING or not run_state.count(State.ASKING):
        return None
    if has_unfinished_run(run_state.run.pk):
        return None
    step = Step.objects.asking().filter(run=run_state.run).order_by("asked_at", "key", "item").first()
    return step.worked_at_by if step else None


def reload_task(task: uuid.UUID) -> Task | None:
    return Task.objects.select_related("context", "agent", "owner").filter(pk=task).first()


def settle_steps(run_state: RunState) -> None:
    ended = run_state.ended()
    run_state.finish_done([step for step in ended if _is_done_unchecked(run_state, step)])
    for step in ended:
        if run_state.failed is not None:
            return
        if step.state != State.ENDED:
            continue
        with _failing_on_problem(run_state, step):
            match step.phase:
                case Phase.WORK:
                    _settle_work(run_state, step, step.task)
                case Phase.BEFORE | Phase.AFTER:
                    _settle_approval(run_state, step, step.consulted)
                case Phase.DECISION:
                    _settle_decision(run_state, step, step.consulted)
        if run_state.is_out_of_time:
            return


@contextmanager
def _failing_on_problem(run_state: RunState, step: Step) -> Iterator[None]:
    """Fails the step, without a retry, if a template or value is bad."""
    try:
        yield
    except (TemplateProblem, ValueError) as problem:
        fail_step(run_state, step, str(problem), may_retry=False)


def _is_done_unchecked(run_state: RunState, step: Step) -> bool:
    definition = run_state.plan.step(step.key)
    if step.phase != Phase.WORK or definition.output or definition.repeat or definition.approve == "after":
        return False
    return step.task is not None and step.task.state == TaskState.COMPLETED


def _settle_work(run_state: RunState, step: Step, task: Task | None) -> None:
    definition = run_state.plan.step(step.key)
    if task is None or task.state != TaskState.COMPLETED:
        fail_step(run_state, step, _failure_reason(run_state, step, task))
        return
    if definition.output is not None:
        (result,) = run_state.outputs.of_steps([step])
        if problem := check_problem(definition.output, list(result.artifacts)):
            fail_step(run_state, step, problem)
            return
    if definition.approve == "after":
        asked = person.approval_after(run_state, step, task)
        run_state.transition(step, State.STARTING, phase=Phase.AFTER, message=asked, consulted=None)
        return
    _finish_step(run_state, step)


def _finish_step(run_state: RunState, step: Step) -> None:
    repeat = run_state.plan.step(step.key).repeat
    again = False
    if repeat is not None and step.round < repeat.max:
        (last,) = run_state.outputs.of_steps([step])
        again = not templating.evaluate(repeat.until, run_state.template_names(step, last=last))
    run_state.end(step, State.DONE)
    if again:
        run_state.add([Step(run=run_state.run, key=step.key, item=step.item, round=step.round + 1, value=step.value)])


def _settle_approval(run_state: RunState, step: Step, task: Task | None) -> None:
    if task is None and step.why:  # nobody could be asked
        fail_step(run_state, step, step.why, may_retry=False)
        return
    answer = person.answer_of_person(task)
    if answer.get("approved") is True:
        if step.phase == Phase.BEFORE:
            run_state.transition(step, State.WAITING, phase=Phase.WORK, asked_at=None)
        else:
            _finish_step(run_state, step)
        return
    comment = str(answer.get("comment") or "").strip()
    said = "It was not approved" if step.phase == Phase.BEFORE else "Its result was not approved"
    fail_step(run_state, step, f"{said}: {comment}" if comment else f"{said}.", may_retry=step.phase == Phase.AFTER)


def _settle_decision(run_state: RunState, step: Step, task: Task | None) -> None:
    match person.answer_of_person(task).get("decision"):
        case person.TRY_AGAIN:
            run_state.transition(step, State.WAITING, phase=Phase.WORK, asked_at=None)
        case person.SKIP:
            run_state.end(step, State.SKIPPED, step.why)
        case _:
            run_state.end(step, State.FAILED, step.why)


def _failure_reason(run_state: RunState, step: Step, task: Task | None) -> str:
    if step.why:  # the engine itself ended it
        return step.why
    if task is None:
        return "Its session was deleted."
    if task.state == TaskState.CANCELED:
        return "It was canceled."
    return message_text(task.status_message, " ") or "It failed."


def fail_step(run_state: RunState, step: Step, why: str, *, may_retry: bool = True) -> None:
    """Handle a failure as the plan says; `may_retry`: another attempt may help."""
    definition = run_state.plan.step(step.key)
    why = clean(why)[:500]
    if may_retry and step.attempt <= definition.retries:
        run_state.transition(step, State.WAITING, phase=Phase.WORK, why=why, due_at=None, asked_at=None)
    elif may_retry and isinstance(definition.on_failure, Fallback) and step.agent != definition.on_failure.agent:
        agent = definition.on_failure.agent
        run_state.transition(step, State.WAITING, phase=Phase.WORK, agent=agent, why=why, due_at=None, asked_at=None)
    elif definition.on_failure == "skip":
        run_state.end(step, State.SKIPPED, why)
    elif definition.on_failure == "ask" and step.phase != Phase.DECISION:
        asked = person.decision_after_failure(run_state, step, why)
        fields = {"message": asked, "consulted": None, "why": why, "asked_at": None}
        run_state.transition(step, State.STARTING, phase=Phase.DECISION, **fields)
    else:
        run_state.end(step, State.FAILED, why)


MOST_PARTS = 5_000  # of a message


def start_ready_steps(run_state: RunState) -> None:
    """Start the steps that can start, within the plan's limits."""
    changed = True
    while changed and run_state.failed is None:
        changed = False
        for key in run_state.waiting():  # lazy: a step that ends at once lets later ones start
            definition = run_state.plan.step(key)
            if definition.for_each is not None and run_state.is_unexpanded(key):
                for step in run_state.steps(key=key, state=State.WAITING, item=-1):
                    with _failing_on_problem(run_state, step):
                        _expand_fan_out(run_state, step)
                    changed = True
            steps = run_state.ready(key, run_state.free_slots(_agent_of(definition)))
            with suppress(ValueError):  # if they are too large together, each step reads its own
                run_state.outputs.prefetch(steps)
            for step in steps:
                if run_state.failed is None and run_state.free_slots(step.agent or _agent_of(definition)):
                    _start_step(run_state, step)
                    changed |= step.state in Step.SETTLED or step.state == State.WAITING
                if run_state.is_out_of_time:
                    return


def _expand_fan_out(run_state: RunState, step: Step) -> None:
    """Make the steps of a fan-out. Raises TemplateProblem, ValueError."""
    definition = run_state.plan.step(step.key)
    names = run_state.template_names(step)
    if definition.when and not templating.evaluate(definition.when, names):
        run_state.end(step, State.SKIPPED, "Its condition is not met.")
        return
    values = templating.evaluate(definition.for_each or "", names)
    if not isinstance(values, list):
        raise ValueError(f"`for_each` has to give a list; `{definition.for_each}` gives something else.")
    if run_state.size - 1 + len(values) > MOST_STEPS:
        raise ValueError(f"A run has at most {MOST_STEPS:,} steps; its list has {len(values):,} elements.")
    if not values:
        run_state.end(step, State.DONE, "Its list is empty.")
        return
    stored = [run_state.outputs.serialize(value) for value in values]
    run_state.remove(step)
    run_state.add([Step(run=run_state.run, key=step.key, item=item, value=value) for item, value in enumerate(stored)])


def _start_step(run_state: RunState, step: Step) -> None:
    """Start a step, ask whether it may start, or skip or fail it."""
    definition = run_state.plan.step(step.key)
    is_fresh = step.attempt == 0 and step.round == 1
    with _failing_on_problem(run_state, step):
        names = run_state.template_names(step)
        may_skip = is_fresh and step.consulted_id is None and step.item < 0
        if may_skip and definition.when and not templating.evaluate(definition.when, names):
            run_state.end(step, State.SKIPPED, "Its condition is not met.")
            return
        message = _step_message(run_state, step, definition, names)
        if is_fresh and definition.approve == "before" and not person.is_approved(step):
            asked = person.approval_before(run_state, step, message)
            run_state.transition(step, State.STARTING, phase=Phase.BEFORE, message=asked, consulted=None)
            return
        run_state.transition(
            step,
            State.STARTING,
            phase=Phase.WORK,
            agent=step.agent or _agent_of(definition),
            message=message,
            attempt=step.attempt + 1,
            started_at=step.started_at or run_state.now,
            task=None,
            why="",
            answers=0,
        )


def _agent_of(definition: StepDefinition) -> str:
    return PERSON if definition.person else definition.agent


def _step_message(run_state: RunState, step: Step, definition: StepDefinition, names: JSON) -> JSON:
    """The message to the agent; attempts differ only in its id. Raises TemplateProblem, ValueError."""
    message_id = f"{step.key}:{step.item}:{step.round}:{step.attempt + 1}"
    return compose(step_parts(definition, names), key=message_id, references=run_state.references(step))


def step_parts(definition: StepDefinition, names: JSON) -> list[JSON]:
    """What the agent of a step gets, of the names of its templates. Raises TemplateProblem, ValueError."""
    parts: list[JSON]
    if definition.person is not None:
        parts = person.parts_for_person(definition, clean(templating.render(definition.person.ask, names)))
    else:
        text = clean(templating.render(definition.message, names)).strip()
        if not text:
            raise ValueError("Its message is empty.")
        parts = [{"text": text}]
    for expression in definition.attach:
        parts += result_parts(templating.evaluate(expression, names))
    size = sum(size_of(part) or 0 for part in parts if "stored" not in part)
    if size > settings.MAX_REQUEST_BYTES or len(parts) > MOST_PARTS:  # the step keeps a copy
        most = f"{MOST_PARTS:,} parts, or {settings.MAX_REQUEST_BYTES:,} bytes"
        raise ValueError(f"The message with its attachments has more than {most}.")
    return parts


MOST_ANSWERS = 3  # of the answering agent, per attempt; then the plan's owner is asked


def ask_answering_agent(run_state: RunState) -> None:
    """Give the questions of steps to the plan's answering agent."""
    if not run_state.plan.definition.answering or not run_state.count(State.ASKING):
        return
    asking = run_state.steps(state=State.ASKING, phase=Phase.WORK, answers__lt=MOST_ANSWERS)
    for step in asking.exclude(agent=PERSON).filter(task__state=TaskState.INPUT_REQUIRED).select_related("task"):
        assert step.task is not None
        question = _message_to_answering_agent(step, step.task)
        fields = {"message": question, "consulted": None, "answers": step.answers + 1}
        run_state.transition(step, State.STARTING, phase=Phase.ANSWERING, **fields)


def settle_unanswered(run_state: RunState) -> None:
    """Ask the plan's owner what the answering agent did not answer."""
    for step in run_state.steps(state=State.ENDED, phase=Phase.ANSWERING).select_related("consulted"):
        if answer_of_agent(step) is None:
            due_at = deadline(run_state.now, run_state.plan.step(step.key).time_limit)
            asks = {"answers": MOST_ANSWERS, "why": "", "asked_at": run_state.now, "due_at": due_at}
            run_state.transition(step, State.ASKING, phase=Phase.WORK, **asks)
            if step.consulted_id is not None:
                run_state.to_cancel.append(step.consulted_id)


def answer_of_agent(step: Step) -> str | None:
    """What the answering agent said, if anything. `step.consulted` should be loaded."""
    if step.consulted is None or step.consulted.state != TaskState.COMPLETED:
        return None
    return message_text(step.consulted.status_message).strip() or None


def _message_to_answering_agent(step: Step, child: Task) -> JSON:
    lines = message_text(child.status_message)
    if schema := (child.slot or {}).get("schema"):
        lines += f"\n\nAnswer with JSON of this schema:\n{json.dumps(schema, ensure_ascii=False)}"
    message_id = f"{step.key}:{step.item}:{step.round}:{step.attempt}:answer:{step.answers + 1}"
    return compose([{"text": lines}], key=message_id, references=[child.pk])
