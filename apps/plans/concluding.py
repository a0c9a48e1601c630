"""What a run of a plan says on its task: how far it is, and at the end what it delivers or why it failed."""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import replace

from django.db.models import Q

from agentkit import Artifact, AuthRequired, Completed, InputRequired, Progress, text_part
from apps.engine import finish
from apps.plans.board import Board
from apps.plans.models import PlanRun, Step
from apps.record.lifecycle import TaskState
from apps.record.models import Artifact as Delivered
from db import statements

State = Step.State
AT_MOST_EVERY = datetime.timedelta(seconds=1)
MOST_NAMED = 3
TO_BE_TOLD = ""  # who looks next, or the sweep, finds that
ALONE = "It asks one question."  # what is told where no others wait


def sentence_of_failure(board: Board, step: Step) -> str:
    """Which step failed, and why."""
    number = f" ({step.item + 1})" if step.item >= 0 else ""
    return f"The step “{board.plan.title_of(step.key)}”{number} failed: {step.why or 'It did not say why.'}"


def completed(board: Board) -> Completed:
    """All is done: the artifacts of the plan's outputs, each under a name of its own."""
    done = board.count(State.DONE)
    skipped = board.count(State.SKIPPED)
    said = f"{_steps(done)} done" + (f", {skipped} skipped." if skipped else ".")
    return Completed(said, _artifacts(board))


def _artifacts(board: Board) -> list[Artifact]:
    found = [(step, one) for key in board.plan.outputs for step, one in _made(board, key)]
    names = Counter(one.name for _, one in found)
    return [
        Artifact(one.parts, _name(step, one, names), one.description, metadata={**one.metadata, "step": step.key})
        for step, one in found
    ]


def _made(board: Board, key: str) -> list[tuple[Step, Delivered]]:
    """What the steps of a key delivered, of a repetition the last."""
    last = {step.item: step for step in board.steps(key=key, state=State.DONE, task__isnull=False)}
    by_task = {step.task_id: step for step in last.values()}
    made = Delivered.objects.delivered().filter(task__in=by_task).order_by("first_event")
    ordered = sorted(made, key=lambda one: by_task[one.task_id].item)
    return [(by_task[one.task_id], one) for one in ordered]


def _name(step: Step, artifact: Delivered, names: Counter[str]) -> str:
    """The artifact's name, with the step where several have the same."""
    if names[artifact.name] == 1 and artifact.name:
        return artifact.name
    number = f" {step.item + 1}" if step.item >= 0 else ""
    return f"{step.key}{number}: {artifact.name}"[:250] if artifact.name else f"{step.key}{number}"


def with_others(question: InputRequired | AuthRequired, board: Board) -> InputRequired | AuthRequired:
    """The question of a step as the plan's, which says how many others wait."""
    others = _others(board)
    if others == ALONE:
        return question
    *said, last = question.parts  # which is the link to where a credential is given
    told = text_part(others)
    parts = [*said, told, last] if isinstance(question, AuthRequired) else [*said, last, told]
    return replace(question, message=parts)


def told_others(board: Board) -> None:
    """The plan has asked, and said how many others wait."""
    PlanRun.objects.filter(pk=board.run.pk, told=board.run.told).update(told=_others(board))


def _others(board: Board) -> str:
    """How many questions wait beside the one that the plan itself asks."""
    number = board.count(State.ASKING) - 1
    if number < 1:
        return ALONE
    many = "1 more question waits" if number == 1 else f"{number} more questions wait"
    return f"{many} beside this one: all are in the inbox to be answered in any order, and are asked here in turn."


def tell(board: Board) -> None:
    """How far the run is, on its task: what is new, and not more often than anybody reads it."""
    run = board.run
    if TaskState(run.task.state).is_interrupted:
        _tell_others(board)
        return
    done, total = board.count(State.DONE, State.SKIPPED), board.size
    titles = [board.plan.title_of(key) for key in board.plan.definition.steps if board.is_active(key)]
    named = ", ".join(titles[:MOST_NAMED]) + (f" and {len(titles) - MOST_NAMED} more" if titles[MOST_NAMED:] else "")
    text = f"{done} of {_steps(total)} done" + (f": {named}" if named else "") + (" (paused)" if run.paused_at else "")
    text = text[:300]
    if text == run.told:
        return
    if run.told_at and board.now - run.told_at < AT_MOST_EVERY:
        if run.told != TO_BE_TOLD:
            statements.update(PlanRun, {"task": run.pk, "told_at": run.told_at}, {"told": TO_BE_TOLD})
        return
    as_read = {"task": run.pk, "told": run.told} | ({"told_at": run.told_at} if run.told_at else {})
    if statements.update(PlanRun, as_read, {"told": text, "told_at": board.now}):
        finish.record(run.task, Progress(text, done, total))


def _tell_others(board: Board) -> None:
    """How many questions wait by now, where that has changed since the plan asked."""
    run, text = board.run, _others(board)
    own = (run.task.slot or {}).get("child")
    asking = Step.objects.asking().filter(run=run)
    if text == run.told or not asking.filter(Q(task=own) | Q(consulted=own)).exists():
        return  # nothing is new, or the plan is about to go on
    is_soon = run.told_at is not None and board.now - run.told_at < AT_MOST_EVERY
    if is_soon and board.count(State.ASKING) > MOST_NAMED:
        PlanRun.objects.filter(pk=run.pk, told_at=run.told_at).update(told=TO_BE_TOLD)
    elif PlanRun.objects.filter(pk=run.pk, told=run.told).update(told=text, told_at=board.now) and text != ALONE:
        finish.remark(run.task, text)


def _steps(number: int) -> str:
    return f"{number} step" if number == 1 else f"{number} steps"
