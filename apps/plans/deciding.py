"""Deciding, under the lock of a run, what its steps do next. What is to be sent or told is done after the commit."""

from __future__ import annotations

import datetime
import uuid
from dataclasses import dataclass

from apps.plans import answering
from apps.plans.beginning import begin_all
from apps.plans.board import Board
from apps.plans.models import PlanRun, Step
from apps.plans.settling import settle_all
from apps.record.leases import is_at_work
from apps.record.lifecycle import TaskState
from apps.record.models import Task
from db import statements
from db.selections import Selection
from db.transactions import transacting

State, Phase = Step.State, Step.Phase
RUN = Selection(
    lambda key: (
        PlanRun.objects.select_for_update(of=("self",)).select_related("task__owner", "task__agent").filter(pk=key)
    ),
    uuid.UUID(int=0),
)


@dataclass
class Decision:
    """What is to be done once it is committed: each of it may be done twice, and by whoever looks next.

    Attributes:
        board: the steps as they are now, with those to be sent, and tasks to be canceled.
        asking: a task that asks what the plan is to ask.
        is_spent: not all was looked at: there was too much to work out for one look.
        failed: the step whose failure ends the plan; is_done: all is done.
    """

    board: Board
    asking: uuid.UUID | None = None
    is_spent: bool = False
    failed: Step | None = None
    is_done: bool = False


@dataclass(frozen=True)
class Over:
    """The plan's task has ended, whoever ended it: what it had called for is to be canceled."""

    task: uuid.UUID


def decide(run_id: uuid.UUID) -> Decision | Over | None:
    """Move the steps of a run on; None for one that was over before."""
    with transacting():
        found = RUN.one_now(run_id)
        if found is None or found[0].finished_at is not None:
            return None
        run, now = found
        if TaskState(run.task.state).is_terminal:  # its plan need not be read for this, nor be readable
            return _close(run, now)
        decision = _decided(Board(run, now))
        # Who does not come to look again leaves a run that was not looked at to its end to the sweep.
        statements.update(PlanRun, {"task": run.pk}, {"advanced_at": None if decision.is_spent else now})
        return decision


def _close(run: PlanRun, now: datetime.datetime) -> Over:
    """What is left undone is canceled."""
    open_steps = Step.objects.open().filter(run=run)
    open_steps.update(state=State.CANCELED, ended_at=now, due_at=None, asked_at=None)
    statements.update(PlanRun, {"task": run.pk}, {"advanced_at": now, "finished_at": now})
    return Over(run.pk)


def _decided(board: Board) -> Decision:
    if board.count(State.FAILED):  # whoever saw it was lost before the plan's end was recorded
        board.failed = board.steps(1, state=State.FAILED)[0]
    elif board.count(State.ENDED):
        settle_all(board)
        if board.plan.definition.answering:
            answering.settle_all(board)
    if board.failed is None and board.run.paused_at is None:
        begin_all(board)
    if board.failed is not None:
        return Decision(board, failed=board.failed)
    if board.is_done:
        return Decision(board, is_done=True)
    answering.begin_all(board)
    board.take_over()
    board.unwanted += _overdue(board)
    return Decision(board, asking=_question(board), is_spent=board.is_spent)


def _overdue(board: Board) -> list[uuid.UUID]:
    """The tasks of steps whose time is up; that they are canceled ends the steps."""
    if not any(step.time_limit for step in board.plan.definition.steps.values()):
        return []
    late = board.steps(state=State.RUNNING, phase=Phase.WORK, due_at__lt=board.now)
    for step in late:
        limit = board.plan.step(step.key).time_limit or 0
        Step.objects.filter(pk=step.pk).update(why=f"It took longer than its limit of {limit:g} seconds.")
    return [step.task_id for step in late if step.task_id]


def _question(board: Board) -> uuid.UUID | None:
    """The task that has asked for longest, if the plan itself can ask now."""
    if board.run.task.state != TaskState.WORKING or not board.count(State.ASKING):
        return None
    if is_at_work(board.run.pk):
        return None
    step = Step.objects.asking().filter(run=board.run).order_by("asked_at", "key", "item").first()
    return step.worked_at_by if step else None


def reread(task: uuid.UUID) -> Task | None:
    """A task as it is now, with its context and agent."""
    return Task.objects.select_related("context", "agent", "owner").filter(pk=task).first()
