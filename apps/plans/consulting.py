"""What people are asked about a step, and what they answer: approvals, and how to go on after a failure."""

from __future__ import annotations

from typing import Any

from apps.plans.board import Board
from apps.plans.definitions import StepDefinition
from apps.plans.models import Step
from apps.plans.person import ANSWER, REQUEST
from apps.record.events import JSON
from apps.record.lifecycle import TaskState
from apps.record.models import Artifact, Task

AGAIN, SKIP, END = "try again", "go on without it", "end the plan"

APPROVAL: JSON = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean", "title": "I approve"},
        "comment": {"type": "string", "title": "Comment"},
    },
    "required": ["approved"],
}
DECISION: JSON = {
    "type": "object",
    "properties": {"decision": {"type": "string", "title": "What now?", "enum": [AGAIN, SKIP, END]}},
    "required": ["decision"],
}


def parts_for_person(definition: StepDefinition, ask: str) -> list[Any]:
    """What a person is asked in a step that they do."""
    person = definition.person
    assert person is not None
    wanted: JSON = {"upload": person.upload}
    if person.json_schema is not None:
        wanted["schema"] = person.json_schema
    if definition.output is not None:
        wanted["output"] = definition.output.model_dump(by_alias=True, exclude_defaults=True)
    return [{"text": ask}, {"data": {REQUEST: wanted}}]


def approval_before(board: Board, step: Step, message: JSON) -> JSON:
    """What a person is asked before a step begins: they see the message that its agent is to be sent."""
    title = board.plan.title_of(step.key)
    text = f"May the step “{title}” begin? Its agent is to be sent the following."
    return _question(step, text, APPROVAL, message["parts"])


def approval_after(board: Board, step: Step, task: Task) -> JSON:
    """What a person is asked about what a step delivered, which goes along."""
    made = Artifact.objects.delivered().filter(task=task).order_by("first_event")
    parts = [part for artifact in made for part in artifact.parts]
    return _question(
        step, f"Do you approve what the step “{board.plan.title_of(step.key)}” delivered?", APPROVAL, parts
    )


def decision(board: Board, step: Step, why: str) -> JSON:
    """What a person is asked when a step has failed."""
    return _question(
        step, f"The step “{board.plan.title_of(step.key)}” failed: {why} How is the plan to go on?", DECISION
    )


def answer_of(task: Task | None) -> JSON:
    """What the person answered; nothing where the question ended otherwise."""
    if task is None or task.state != TaskState.COMPLETED:
        return {}
    given = Artifact.objects.delivered().filter(task=task, name=ANSWER).first()
    data: JSON = next((part["data"] for part in given.parts if isinstance(part.get("data"), dict)), {}) if given else {}
    return dict(data)


def is_approved(step: Step) -> bool:
    """Is what was asked about a step last an approval, which was given?"""
    return answer_of(Task.objects.filter(plan_consultations=step).first()).get("approved") is True


def _question(step: Step, text: str, schema: JSON, shown: list[Any] | None = None) -> JSON:
    kind = "decision" if schema is DECISION else "approval"
    number = f"{step.attempt}:{kind}:{step.consulted_id or ''}"  # after what was asked before: each is asked anew
    return {
        "messageId": f"{step.key}:{step.item}:{step.round}:{number}",
        "role": "ROLE_USER",
        "parts": [{"text": text}, {"data": {REQUEST: {"schema": schema}}}, *(shown or [])],
    }
