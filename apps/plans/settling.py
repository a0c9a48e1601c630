"""What an ended task means for its step: done, done again, failed, agreed to, decided."""

from __future__ import annotations

from apps.plans import consulting, templates
from apps.plans.board import Board
from apps.plans.failing import fail
from apps.plans.models import Step
from apps.plans.results import problem_with
from apps.plans.templates import TemplateProblem
from apps.record.events import JSON
from apps.record.lifecycle import TaskState
from apps.record.models import Task

State, Phase = Step.State, Step.Phase


def settle_all(board: Board) -> None:
    """Look at every step whose task has ended; those of which nothing is to be looked at are done at once."""
    ended = board.ended()
    board.end_all([step for step in ended if _is_plainly_done(board, step)])
    for step in ended:
        if board.failed is not None:
            return
        if step.state != State.ENDED:
            continue
        try:
            _settle(board, step)
        except (TemplateProblem, ValueError) as problem:
            fail(board, step, str(problem), again=False)
        if board.is_spent:
            return


def _is_plainly_done(board: Board, step: Step) -> bool:
    """Did it work, and does its plan say nothing of what it must be?"""
    definition = board.plan.step(step.key)
    if step.phase != Phase.WORK or definition.output or definition.repeat or definition.approve == "after":
        return False
    return step.task is not None and step.task.state == TaskState.COMPLETED


def _settle(board: Board, step: Step) -> None:
    """Raises TemplateProblem, ValueError."""
    match step.phase:
        case Phase.WORK:
            _settle_work(board, step, step.task)
        case Phase.BEFORE | Phase.AFTER:
            _settle_approval(board, step, step.consulted)
        case Phase.DECISION:
            _settle_decision(board, step, step.consulted)


def _settle_work(board: Board, step: Step, task: Task | None) -> None:
    definition = board.plan.step(step.key)
    if task is None or task.state != TaskState.COMPLETED:
        fail(board, step, _why(board, step, task))
        return
    if definition.output is not None:
        (result,) = board.outputs.of_steps([step])
        if problem := problem_with(definition.output, list(result.artifacts)):
            fail(board, step, problem)
            return
    if definition.approve == "after":
        asked = consulting.approval_after(board, step, task)
        board.move(step, State.STARTING, phase=Phase.AFTER, message=asked, consulted=None)
        return
    _done(board, step)


def _done(board: Board, step: Step) -> None:
    """The step is done; of a repetition, the next round begins unless this one was good."""
    repeat = board.plan.step(step.key).repeat
    again = False
    if repeat is not None and step.round < repeat.max:
        (last,) = board.outputs.of_steps([step])
        again = not templates.value(repeat.until, board.names(step, last=last))
    board.end(step, State.DONE)
    if again:
        board.add([Step(run=board.run, key=step.key, item=step.item, round=step.round + 1, value=step.value)])


def _settle_approval(board: Board, step: Step, task: Task | None) -> None:
    answer = consulting.answer_of(task)
    if answer.get("approved") is True:
        if step.phase == Phase.BEFORE:
            board.move(step, State.WAITING, phase=Phase.WORK, asked_at=None)
        else:
            _done(board, step)
        return
    comment = str(answer.get("comment") or "").strip()
    said = "It was not approved" if step.phase == Phase.BEFORE else "What it delivered was not approved"
    fail(board, step, f"{said}: {comment}" if comment else f"{said}.", again=step.phase == Phase.AFTER)


def _settle_decision(board: Board, step: Step, task: Task | None) -> None:
    match consulting.answer_of(task).get("decision"):
        case consulting.AGAIN:
            board.move(step, State.WAITING, phase=Phase.WORK, asked_at=None)
        case consulting.SKIP:
            board.end(step, State.SKIPPED, step.why)
        case _:
            board.end(step, State.FAILED, step.why)


def _why(board: Board, step: Step, task: Task | None) -> str:
    """Why the task of a step did not complete, as a sentence."""
    if step.why:  # the engine itself has ended it
        return step.why
    if task is None:
        return "Its conversation was deleted."
    if task.state == TaskState.CANCELED:
        return "It was canceled."
    said: JSON = task.status_message or {}
    return " ".join(part["text"] for part in said.get("parts", []) if part.get("text")) or "It failed."
