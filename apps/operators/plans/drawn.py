"""What pages with pictures of plans need: the same style sheets as people's pages, and links to operators' tasks."""

from __future__ import annotations

from typing import Any

from django.forms import Media

from apps.plans.models import Step
from apps.record.models import Task
from console import cells
from console.cells import Tone
from console.records import ReadOnlyAdmin

STYLES = ("css/timeline.css", "css/task.css", "css/plan.css")
TONES = {
    Step.State.WAITING: Tone.QUEUED,
    Step.State.STARTING: Tone.WORKING,
    Step.State.RUNNING: Tone.WORKING,
    Step.State.ASKING: Tone.WAITING,
    Step.State.ENDED: Tone.WORKING,
    Step.State.DONE: Tone.DONE,
    Step.State.FAILED: Tone.FAILED,
    Step.State.SKIPPED: Tone.STOPPED,
    Step.State.CANCELED: Tone.STOPPED,
}


class DrawnAdmin(ReadOnlyAdmin):
    """A read-only page with a picture at its head."""

    @property
    def media(self) -> Media:
        return super().media + Media(css={"all": list(STYLES)})


def address(task: Task) -> str:
    """Where operators see a task."""
    return cells.page_url(Task, task.pk)


def steps_table(steps: list[Step], titles: dict[str, str]) -> dict[str, Any]:
    """Steps of a run as a table; their tasks should be loaded."""
    headings = ("step", "state", "agent", "round", "attempt", "task", "asked", "began", "ended", "why")
    return {"headings": headings, "rows": [(f"step-{step.pk}", _cells(step, titles)) for step in steps]}


def _cells(step: Step, titles: dict[str, str]) -> tuple[Any, ...]:
    number = f" {step.item + 1}" if step.item >= 0 else ""
    kept = "kept from an earlier run" if step.reused_id else ""
    return (
        f"{titles.get(step.key, step.key)}{number}",
        cells.state(step.state, TONES[Step.State(step.state)]),
        step.agent or cells.NOTHING,
        step.round,
        step.attempt,
        cells.row_id(Task, step.task_id),
        cells.row_id(Task, step.consulted_id),
        cells.moment(step.started_at),
        cells.moment(step.ended_at),
        cells.shortened(step.why or kept) or cells.NOTHING,
    )
