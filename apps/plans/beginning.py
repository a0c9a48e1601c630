"""Beginning steps whose needs are met: conditions, fan-outs, and the message that the agent is sent.

The message is kept before it is sent, so that it is sent once, whoever sends it and however often.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.conf import settings

from apps.engine.cleaning import clean
from apps.plans import consulting, templates
from apps.plans.board import Board
from apps.plans.definitions import MOST_STEPS, StepDefinition
from apps.plans.failing import fail
from apps.plans.models import Step
from apps.plans.person import PERSON
from apps.plans.templates import TemplateProblem
from apps.record.events import JSON
from apps.record.parts import size_of

State, Phase = Step.State, Step.Phase
MOST_PARTS = 5_000  # of a message


def begin_all(board: Board) -> None:
    """Begin what can be, within the plan's limits."""
    begun = True
    while begun and board.failed is None:
        begun = False
        for key in board.waiting():  # one after the other: what a step's end lets begin comes in the same round
            definition = board.plan.step(key)
            if definition.for_each is not None and board.is_whole(key):
                begun |= _spread_all(board, key)
            room = board.room(_agent_of(definition))
            steps = board.ready(key, room)
            with suppress(ValueError):  # together it may be too much; each step reads what is its own
                board.outputs.read_for(steps)
            for step in steps:
                if board.failed is None and board.room(step.agent or _agent_of(definition)):
                    _begin(board, step)
                    begun |= step.state in Step.SETTLED or step.state == State.WAITING
                if board.is_spent:
                    return


def _spread_all(board: Board, key: str) -> bool:
    """Make the steps of a fan-out, now that its list is known."""
    whole = board.steps(key=key, state=State.WAITING, item=-1)
    for step in whole:
        try:
            _spread(board, step)
        except (TemplateProblem, ValueError) as problem:
            fail(board, step, str(problem), again=False)
    return bool(whole)


def _spread(board: Board, step: Step) -> None:
    definition = board.plan.step(step.key)
    names = board.names(step)
    if definition.when and not templates.value(definition.when, names):
        board.end(step, State.SKIPPED, "Its condition does not hold.")
        return
    values = templates.value(definition.for_each or "", names)
    if not isinstance(values, list):
        raise ValueError(f"`for_each` has to give a list; `{definition.for_each}` gives something else.")
    if board.size - 1 + len(values) > MOST_STEPS:  # they take the place of one
        raise ValueError(f"A run has at most {MOST_STEPS:,} steps; its list has {len(values):,} elements.")
    if not values:
        board.end(step, State.DONE, "Its list is empty.")
        return
    stored = [board.outputs.stored(value) for value in values]
    board.remove(step)
    board.add([Step(run=board.run, key=step.key, item=item, value=value) for item, value in enumerate(stored)])


def _begin(board: Board, step: Step) -> None:
    """Let one step start, or ask whether it may; or it is skipped, or fails."""
    definition = board.plan.step(step.key)
    is_fresh = step.attempt == 0 and step.round == 1
    try:
        names = board.names(step)
        if (
            is_fresh
            and step.consulted_id is None
            and definition.when
            and step.item < 0
            and not templates.value(definition.when, names)
        ):
            board.end(step, State.SKIPPED, "Its condition does not hold.")
            return
        message = _message(board, step, definition, names)
    except (TemplateProblem, ValueError) as problem:
        fail(board, step, str(problem), again=False)
        return
    if is_fresh and definition.approve == "before" and not consulting.is_approved(step):
        asked = consulting.approval_before(board, step, message)
        board.move(step, State.STARTING, phase=Phase.BEFORE, message=asked, consulted=None)
        return
    agent = step.agent or _agent_of(definition)
    started = {
        "attempt": step.attempt + 1,
        "started_at": step.started_at or board.now,
        "task": None,
        "why": "",
        "answers": 0,
    }
    board.move(step, State.STARTING, phase=Phase.WORK, agent=agent, message=message, **started)


def _agent_of(definition: StepDefinition) -> str:
    """The slug of the agent that a step is for; empty where it is still to be found."""
    return PERSON if definition.person else definition.agent


def _message(board: Board, step: Step, definition: StepDefinition, names: JSON) -> JSON:
    """What the agent is sent (A2A), the same for every attempt but for its id. Raises TemplateProblem, ValueError."""
    parts: list[Any]
    if definition.person is not None:
        parts = consulting.parts_for_person(definition, clean(templates.render(definition.person.ask, names)))
    else:
        text = clean(templates.render(definition.message, names)).strip()
        if not text:
            raise ValueError("Its message is empty.")
        parts = [{"text": text}]
    for expression in definition.attach:
        parts += board.outputs.parts(templates.value(expression, names))
    _check_size(parts)
    message_id = f"{step.key}:{step.item}:{step.round}:{step.attempt + 1}"
    message: JSON = {"messageId": message_id, "role": "ROLE_USER", "parts": parts}
    if references := board.references(step):
        message["referenceTaskIds"] = references
    return message


def _check_size(parts: list[JSON]) -> None:
    """Raises ValueError for more than can be sent: the message is kept with each step that it is for."""
    size = sum(size_of(part) or 0 for part in parts if "stored" not in part)
    if size > settings.MAX_REQUEST_BYTES or len(parts) > MOST_PARTS:
        most = f"{MOST_PARTS:,} parts, or {settings.MAX_REQUEST_BYTES:,} bytes"
        raise ValueError(f"What goes along with its message is more than {most}.")
