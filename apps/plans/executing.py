"""Taking a turn of a plan's task: its run is begun, or looked at again; the task then goes on while nobody holds it."""

from __future__ import annotations

from functools import partial

import db
from agentkit import AgentFailure, Failed, HandlerError, InputRequired, Outcome, Progress, TaskContext
from apps.engine import finish
from apps.engine.assignments import Aside, Assignment
from apps.engine.finish import Ongoing
from apps.plans import looking, opening
from apps.plans.models import PlanRun
from apps.plans.opening import Missing

NO_VERSION = "The plan {} has no version: save it once more."
UNHEARD = "The plan asked nothing, so your message changes nothing. Cancel it to begin again with other inputs."


async def execute(assignment: Assignment, task: TaskContext, _: Aside) -> Outcome | Ongoing:
    """Begin the run, unless a turn before this did so. Raises HandlerError where the plan has no version."""
    return await db.run(_taken_up, assignment)


def _taken_up(assignment: Assignment) -> Outcome | Ongoing:
    task, version = assignment.task, assignment.agent.current_version
    if not PlanRun.objects.filter(pk=task.pk).exists():
        if version is None:
            raise HandlerError(NO_VERSION.format(assignment.agent.slug))
        try:
            opening.begin(task, version, assignment.span)
        except Missing as missing:
            return InputRequired(str(missing), slot="inputs", schema=missing.schema)
        except AgentFailure as failure:
            return Failed(str(failure), failure.code)
        return Ongoing(partial(looking.look_soon, task.pk))
    if assignment.asked_by is None and not assignment.resumed:
        return Ongoing(partial(finish.record, task, Progress(UNHEARD)))
    return Ongoing(partial(looking.look_soon, task.pk))
