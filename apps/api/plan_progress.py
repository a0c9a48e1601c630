"""Runs of plans for their owner: how far each is, its steps, what they ask and why it waits."""

from __future__ import annotations

import datetime
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import Count, Q

from apps.api.shapes.artifacts import id_of
from apps.api.shapes.events import asked
from apps.api.shapes.naming import parts_json, timestamp
from apps.api.tasks import tasks_json
from apps.plans.depicting import Progress, shown_task
from apps.plans.models import PlanRun, Step
from apps.plans.plans import plan_at
from apps.plans.reasons import reasons
from apps.record.models import Artifact, Task
from apps.record.parts import words_of

JSON = dict[str, Any]
MOST_REASONS = 50


def runs_json(tasks: Sequence[Task]) -> list[JSON]:
    """Runs by their tasks, whose agents should be loaded. Two queries."""
    keys = [task.pk for task in tasks]
    begun = PlanRun.objects.select_related("version").defer("inputs", "version__content").in_bulk(keys)
    total, open_ones = Count("pk", filter=Q(round=1)), Count("pk", filter=~Q(state__in=Step.SETTLED))
    counted = Step.objects.filter(run__in=keys).order_by().values_list("run").annotate(total=total, left=open_ones)
    counts = {run: (number, number - left) for run, number, left in counted}
    return [_run_json(task, begun.get(task.pk), *counts.get(task.pk, (0, 0))) for task in tasks]


def _run_json(task: Task, run: PlanRun | None, total: int, done: int) -> JSON:
    return {
        "id": str(task.pk),
        "plan": task.agent.slug,
        "planVersion": run.version.number if run else None,
        "sessionId": str(task.context_id),
        "state": str(task.state),
        "isPaused": run is not None and run.paused_at is not None and not task.is_finished,
        "stepsDone": done,
        "stepsTotal": total,
        "createdAt": timestamp(task.created_at),
        "updatedAt": timestamp(task.status_at),
        "beganAt": timestamp(run.created_at) if run else None,
        "finishedAt": timestamp(task.status_at) if task.is_finished else None,
        "continuesRun": _id(run.continues_id) if run else None,
        "continuesFrom": run.begun_at_step if run else "",
    }


def whole_run_json(task: Task) -> JSON:
    """One run; its task should have its agent loaded. A fixed number of queries, however many steps there are."""
    [told] = runs_json([task])
    told |= {"task": tasks_json([task])[0], "inputs": {}, "reasons": [], "steps": []}
    run = PlanRun.objects.select_related("version").filter(pk=task.pk).first()
    if run is None:
        return told
    progress = Progress.of(run)
    waits = [] if task.is_finished else reasons(progress)[:MOST_REASONS]
    return told | {
        "inputs": run.inputs | {"files": parts_json(run.inputs.get("files", []), task.context_id)},
        "reasons": [
            {
                "title": one.title,
                "message": one.sentence,
                "taskId": _id(one.task.pk) if one.task else None,
                "isYours": one.is_yours,
            }
            for one in waits
        ],
        "steps": steps_json(run, progress.steps),
    }


def steps_json(run: PlanRun, steps: Iterable[Step]) -> list[JSON]:
    """Steps of a run, with their tasks loaded. One query."""
    plan, made = plan_at(run.version_id), _delivered(run)
    return [
        {
            "key": step.key,
            "title": plan.title_of(step.key),
            "item": _item(step),
            "round": step.round,
            "attempt": step.attempt,
            "state": step.state,
            "phase": step.phase,
            "agent": step.agent,
            "dependsOn": sorted(plan.needs[step.key]),
            "taskId": _id(step.task_id),
            "sessionId": str(step.task.context_id) if step.task else None,
            "consultedTaskId": _id(step.consulted_id),
            "artifacts": made[step.task_id] if step.task_id else [],
            "why": step.why,
            "isKept": step.reused_id is not None,
            "startedAt": _time(step.started_at),
            "askedAt": _time(step.asked_at),
            "endedAt": _time(step.ended_at),
        }
        for step in steps
    ]


def _delivered(run: PlanRun) -> dict[uuid.UUID, list[str]]:
    """The ids of what the tasks of a run's steps delivered."""
    rows = Artifact.objects.delivered().filter(task__in=Step.objects.filter(run=run).values("task"))
    found: dict[uuid.UUID, list[str]] = defaultdict(list)
    for row in rows.order_by("first_event").only("task_id", "artifact_id"):
        found[row.task_id].append(id_of(row))
    return found


def questions_json(steps: Sequence[Step]) -> list[JSON]:
    """What steps ask; their runs and tasks should be loaded (`finding.questions`)."""
    return [_question_json(step, task) for step in steps if (task := shown_task(step))]


def _question_json(step: Step, task: Task) -> JSON:
    parts = (task.status_message or {}).get("parts", [])
    return {
        "runId": str(step.run_id),
        "plan": step.run.task.agent.slug,
        "step": step.key,
        "title": plan_at(step.run.version_id).title_of(step.key),
        "item": _item(step),
        "phase": step.phase,
        "taskId": str(task.pk),
        "sessionId": str(task.context_id),
        "askedAt": _time(step.asked_at),
        "content": words_of(parts),
        "parts": parts_json(parts, task.context_id),
        "question": asked(task.slot) if task.slot else None,
    }


def _item(step: Step) -> int | None:
    return step.item if step.item >= 0 else None


def _time(at: datetime.datetime | None) -> str | None:
    return timestamp(at) if at else None


def _id(key: uuid.UUID | None) -> str | None:
    return str(key) if key else None
