"""The answering agent of a plan: what a step asks becomes a task of that agent, and its words become the answer."""

from __future__ import annotations

import datetime
import json

from apps.plans.board import Board
from apps.plans.models import Step
from apps.plans.person import PERSON
from apps.record.events import JSON
from apps.record.lifecycle import TaskState
from apps.record.models import Task

State, Phase = Step.State, Step.Phase
MOST_ANSWERS = 3  # in one attempt of a step; then its plan's owner is asked


def begin_all(board: Board) -> None:
    """Have what steps ask answered, where the plan names who does."""
    if not board.plan.definition.answering or not board.count(State.ASKING):
        return
    for step in board.steps(state=State.ASKING, phase=Phase.WORK, answers__lt=MOST_ANSWERS):
        child = Task.objects.filter(plan_steps=step).first() if step.agent != PERSON else None
        if child is not None and child.state == TaskState.INPUT_REQUIRED:
            asked = _message(step, child)
            about = {"message": asked, "consulted": None, "answers": step.answers + 1}
            board.move(step, State.STARTING, phase=Phase.ANSWERING, **about)


def settle_all(board: Board) -> None:
    """What no answer came of, the plan's owner is asked; answers are passed on after the commit (see `engine`)."""
    for step in board.steps(state=State.ENDED, phase=Phase.ANSWERING):
        if answer_of(step) is None:
            limit = board.plan.step(step.key).time_limit
            due_at = board.now + datetime.timedelta(seconds=limit) if limit else None  # anew, once it is answered
            asks = {"answers": MOST_ANSWERS, "why": "", "asked_at": board.now, "due_at": due_at}
            board.move(step, State.ASKING, phase=Phase.WORK, **asks)
            if step.consulted_id is not None:
                board.unwanted.append(step.consulted_id)


def answer_of(step: Step) -> str | None:
    """What the answering agent said; None where it did not come to an answer."""
    task = Task.objects.filter(plan_consultations=step, state=TaskState.COMPLETED).first()
    if task is None:
        return None
    said: JSON = task.status_message or {}
    return "\n".join(part["text"] for part in said.get("parts", []) if part.get("text")).strip() or None


def _message(step: Step, child: Task) -> JSON:
    """The question of a child, as a piece of work."""
    said, slot = child.status_message or {}, child.slot or {}
    lines = "\n".join(part["text"] for part in said.get("parts", []) if part.get("text"))
    if schema := slot.get("schema"):
        lines += f"\n\nAnswer with JSON of this schema:\n{json.dumps(schema, ensure_ascii=False)}"
    message_id = f"{step.key}:{step.item}:{step.round}:{step.attempt}:answer:{step.answers + 1}"
    return {
        "messageId": message_id,
        "role": "ROLE_USER",
        "parts": [{"text": lines}],
        "referenceTaskIds": [str(child.pk)],
    }
