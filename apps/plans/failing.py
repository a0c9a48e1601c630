"""What becomes of a step that failed: another try, another agent, a person's decision, or the end of the plan."""

from __future__ import annotations

from apps.engine.cleaning import clean
from apps.plans import consulting
from apps.plans.board import Board
from apps.plans.definitions import Fallback
from apps.plans.models import Step

State, Phase = Step.State, Step.Phase


def fail(board: Board, step: Step, why: str, *, again: bool = True) -> None:
    """Let the step go on by the way that its plan has for it; `again`: another try may help."""
    definition = board.plan.step(step.key)
    why = clean(why)[:500]
    if again and step.attempt <= definition.retries:
        board.move(step, State.WAITING, phase=Phase.WORK, why=why, due_at=None, asked_at=None)
    elif again and isinstance(definition.on_failure, Fallback) and step.agent != definition.on_failure.agent:
        agent = definition.on_failure.agent
        board.move(step, State.WAITING, phase=Phase.WORK, agent=agent, why=why, due_at=None, asked_at=None)
    elif definition.on_failure == "skip":
        board.end(step, State.SKIPPED, why)
    elif definition.on_failure == "ask" and step.phase != Phase.DECISION:
        asked = consulting.decision(board, step, why)
        about = {"message": asked, "consulted": None, "why": why, "asked_at": None}
        board.move(step, State.STARTING, phase=Phase.DECISION, **about)
    else:
        board.end(step, State.FAILED, why)
