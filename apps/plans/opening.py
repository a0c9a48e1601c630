"""How a run begins: with the inputs that its task was given, and a row for each step, or those of an earlier run."""

from __future__ import annotations

import itertools
import json
import uuid
from contextlib import suppress
from typing import Any

from django.db import IntegrityError

from agentkit import AgentFailure
from agentkit.parts import is_file, kind_of
from apps.agents.models import AgentVersion
from apps.engine.delegation import check_depth, principal_of
from apps.plans import checks, graphs, inputs
from apps.plans.definitions import StepDefinition
from apps.plans.models import PlanRun, Step
from apps.plans.plans import Plan, plan_at
from apps.record import blobs, strict_json
from apps.record.events import JSON
from apps.record.lifecycle import TaskState
from apps.record.models import Context, Message, Task
from db.statements import Batch
from db.transactions import transacting

State = Step.State
AT_ONCE = 1_000  # rows by one statement
AGAIN = "planRun"  # in a message's metadata: {"continues": the id of an earlier run's task, "from": the key of a step}


class Missing(Exception):
    """Inputs are missing, or are not what they have to be; the text asks for them, `schema` is theirs."""

    def __init__(self, sentence: str, schema: JSON) -> None:
        super().__init__(sentence)
        self.schema = schema


def begin(task: Task, version: AgentVersion, traceparent: str = "") -> None:
    """Begin the run of a task, once. Raises Missing, AgentFailure."""
    plan = plan_at(version.pk)
    check_depth(task)
    said = list(Message.objects.filter(task=task, role=Message.Role.USER).order_by("index"))
    if why := checks.why_closed(plan.definition, principal_of(task)):
        raise AgentFailure(why, "closed_agents")
    earlier, at = _earlier(task, plan, said[0].metadata.get(AGAIN))
    given = _inputs(plan, said, earlier.inputs if earlier else {})
    values = {"version": version, "inputs": given, "continues": earlier, "begun_at_step": at}
    run = PlanRun(pk=task.pk, traceparent=traceparent, **values)
    rows = Batch()
    rows.insert([run])
    for some in itertools.batched(_steps(run, plan, earlier, at), AT_ONCE):
        rows.insert(some)
    rows.update(Context, {"id": task.context_id}, {"is_watched": True})
    try:
        with transacting():
            rows.write()
    except IntegrityError:
        if not PlanRun.objects.filter(pk=task.pk).exists():
            raise


def _earlier(task: Task, plan: Plan, again: Any) -> tuple[PlanRun | None, str]:
    """The run that this one continues, and from which step. Raises AgentFailure."""
    if not isinstance(again, dict):
        return None, ""
    at = str(again.get("from", ""))
    with suppress(ValueError):
        own = PlanRun.objects.visible_to(principal_of(task)).filter(task__agent=task.agent_id).select_related("task")
        earlier = own.filter(pk=uuid.UUID(str(again.get("continues", "")))).exclude(pk=task.pk).first()
        if earlier is not None:
            check_again(plan, earlier, at)
            return earlier, at
    raise AgentFailure("There is no earlier run of this plan to go on from.", "unknown_run")


def check_again(plan: Plan, earlier: PlanRun, at: str) -> None:
    """May a run go on from this step of an earlier one? Raises AgentFailure."""
    if at not in plan.definition.steps:
        raise AgentFailure(f"The plan has no step `{at}` to begin at.", "unknown_step")
    if not TaskState(earlier.task.state).is_terminal:
        raise AgentFailure("The earlier run is not over. Cancel it first, or wait for its end.", "run_goes_on")


def _inputs(plan: Plan, said: list[Message], known: JSON) -> JSON:
    """What the messages of a task give. Raises Missing."""
    given: JSON = {**known}
    files: list[JSON] = list(known.get("files", []))
    for number, message in enumerate(said):
        text = []
        for part in message.parts:
            if kind_of(part) == "data":
                value = json.loads(blobs.content_of(part))
                given |= value if isinstance(value, dict) else {}
            elif is_file(part):
                files.append(part)
            else:
                text.append(blobs.content_of(part).decode())
        if number == 0:
            given = {"text": "\n".join(text).strip(), **given}
        else:
            given |= _answer("\n".join(text).strip(), inputs.asked_for(plan.definition, given))
    given["files"] = files
    whole, problems = inputs.inputs_of(plan.definition, given)
    if problems:
        sentence = f"The plan needs its inputs to begin. {' '.join(problems)}"
        raise Missing(sentence, inputs.asked_for(plan.definition, given))
    return whole


def _answer(text: str, asked: JSON) -> JSON:
    """What a text says in answer to what was asked for, where that is one thing: of a number or a list, as JSON.

    What no database takes, such as NaN, stays a text, which the schema then refuses.
    """
    fields: JSON = asked.get("properties", {})
    if not text or len(fields) != 1:
        return {}
    ((name, schema),) = fields.items()
    if isinstance(schema, dict) and schema.get("type", "string") != "string":
        with suppress(strict_json.NotStrict, ValueError):
            return {name: strict_json.storable(strict_json.read(text.encode(errors="replace")))}
    return {name: text}


def _steps(run: PlanRun, plan: Plan, earlier: PlanRun | None, at: str) -> list[Step]:
    """The first rows: those of an earlier run as they ended, if they are not to be done again."""
    kept: dict[str, list[Step]] = {}
    if earlier is not None:
        for step in Step.objects.filter(run=earlier).order_by("item", "round"):
            kept.setdefault(step.key, []).append(step)
    usable = {key for key in plan.definition.steps if _are_usable(kept.get(key, []), plan.step(key))}
    anew = graphs.after(plan.definition, {at, *(plan.definition.steps.keys() - usable)}) if at else set(plan.needs)
    rows = []
    for key in plan.definition.steps:
        rows += [Step(run=run, key=key)] if key in anew else [_kept(run, step) for step in kept[key]]
    return rows


def _are_usable(steps: list[Step], definition: StepDefinition) -> bool:
    """Do these rows say what came of a step, as its plan defines it now?

    Not where it has become a fan-out since, or is none any more, nor where what it delivered was deleted.
    """
    is_list = definition.for_each is not None
    is_same = all(is_list or step.item < 0 for step in steps)
    return (
        bool(steps)
        and is_same
        and all(
            step.state == State.SKIPPED
            or (step.state == State.DONE and (step.task_id is None) == (is_list and step.item < 0))  # of an empty list
            for step in steps
        )
    )


def _kept(run: PlanRun, step: Step) -> Step:
    names = ("key", "item", "value", "round", "attempt", "state", "agent", "task_id", "why", "started_at", "ended_at")
    values = {name: getattr(step, name) for name in names}
    return Step(run=run, reused_id=step.reused_id or step.pk, **values)
