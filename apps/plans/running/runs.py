"""Runs of plans: starting, pausing, and rerunning from a step.

A run is a task of the plan's agent. Its first turn (`execute`) creates the run and its steps; after that the task
occupies no worker.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from django.db import IntegrityError
from django.db.models import Q, QuerySet
from django.utils import timezone

from agentkit import AgentFailure, Failed, HandlerError, InputRequired, Outcome, Progress, TaskContext
from agentkit.content.messages import is_file, kind_of
from agentkit.slots import from_text
from apps.accounts.errors import NotFound
from apps.accounts.principals import Principal
from apps.accounts.resources import Act, NotNeeded, Resource, pausing, resuming
from apps.agents.models import Agent, AgentVersion
from apps.engine import finish
from apps.engine.accept import ExtraWrites, Receipt
from apps.engine.cancel import cancel_task
from apps.engine.finish import Ongoing
from apps.engine.repeats import was_sent
from apps.engine.send import accept_and_publish
from apps.engine.turns import delegation, guarding
from apps.engine.turns.assignment import Assignment, ReleaseSlot
from apps.engine.turns.delegation import check_depth, principal_of
from apps.plans import graphs, jobs, registry
from apps.plans.definitions import OWN_INPUTS, PlanDefinition, StepDefinition, properties_of, with_defaults
from apps.plans.graphs import CompiledPlan, plan_at
from apps.plans.jobs import RUNS_TO_ADVANCE
from apps.plans.models import PlanRun, StartKey, Step
from apps.record.content import blobs, json_schema, strict_json
from apps.record.content.composing import compose
from apps.record.errors import InvalidFields, KeyUsed, UnsupportedOperation
from apps.record.events import JSON
from apps.record.ledger import Ledger
from apps.record.models import Context, Message, Task, TaskState
from apps.record.reading import lookup
from parley import db
from parley.db import sql
from parley.db.sql import Keys


def start_run(
    principal: Principal,
    plan: Agent,
    given: JSON,
    *,
    key: str,
    text: str = "",
    files: Sequence[JSON] = (),
    traceparent: str = "",
    temporary: bool = False,
    project: uuid.UUID | None = None,
) -> Receipt:
    """Start a run of a plan that the caller may use, once per `key` (its messageId). Synchronous.

    `temporary`, `project`: see `accept.Options`.

    Raises InvalidFields for wrong inputs and agents that the caller may not use, and errors.Refusal for a key that was
    used for something else. Then nothing was stored.
    """
    words = [{"text": text}] if text else []
    message = compose([*words, {"data": given}, *files], key=key)
    if not was_sent(principal.sender, plan, key):
        _check_start(principal, plan, {"text": text, **given, "files": list(files)})
    claim = claim_key(principal, plan, key)
    how: JSON = {"traceparent": traceparent, "temporary": temporary, "project": project}
    return accept_and_publish(principal, plan, message, extra_writes=claim, **how)


def claim_key(principal: Principal, plan: Agent, key: str) -> ExtraWrites:
    """Ties the key to this plan in the transaction that accepts its start.

    A messageId is unique per agent, but a key is unique for all plans. A concurrent caller with the same key waits, and
    gets KeyUsed for another plan.
    """

    def claim(log: Ledger, task: uuid.UUID) -> None:
        claimed, _ = StartKey.objects.get_or_create(sender=principal.sender, key=key, defaults={"plan": plan})
        if claimed.plan_id != plan.pk:
            raise KeyUsed("This {} was used for another plan. Use a new {}.")

    return claim


def _check_start(principal: Principal, plan: Agent, given: JSON) -> None:
    definition = registry.definition_of(plan)
    if definition is None:
        raise UnsupportedOperation("The plan's definition cannot be read. Its owner has to save it again.")
    if problems := [*input_problems(definition, given), *registry.agents_closed_to(definition, principal)]:
        raise InvalidFields(problems)


NO_VERSION = "The plan {} has no version. Save it again."
NOTHING_ASKED = (
    "The plan is not waiting for an answer, so this message has no effect. "
    "To use other inputs, stop this run and start the plan again."
)


async def execute(assignment: Assignment, task: TaskContext, _: ReleaseSlot) -> Outcome | Ongoing:
    """Begin the run, or continue it. Raises HandlerError if the plan has no version."""
    return await db.run(_begin_or_go_on, assignment)


def _begin_or_go_on(assignment: Assignment) -> Outcome | Ongoing:
    task, version = assignment.task, assignment.agent.current_version
    if not PlanRun.objects.filter(pk=task.pk).exists():
        if version is None:
            raise HandlerError(NO_VERSION.format(assignment.agent.slug))
        try:
            begin_run(task, version, assignment.span, told_to=assignment)
        except MissingInputs as missing:
            return InputRequired(str(missing), slot="inputs", schema=missing.schema)
        except AgentFailure as failure:
            return Failed(str(failure), failure.code)
        return Ongoing(partial(jobs.tick_soon, task.pk))
    goes_on = assignment.original is not None or assignment.resumed
    if not goes_on and delegation.ANSWERED_TASK not in assignment.message.metadata:
        return Ongoing(partial(finish.record_outcome, task, Progress(NOTHING_ASKED)))
    return Ongoing(partial(jobs.tick_soon, task.pk))


State = Step.State
RERUN = "planRun"  # in a message's metadata: {"continues": id of an earlier run's task, "from": key of a step}


class MissingInputs(Exception):
    """Inputs are missing or invalid. The text asks for them, `schema` describes them."""

    def __init__(self, sentence: str, schema: JSON) -> None:
        super().__init__(sentence)
        self.schema = schema


def begin_run(task: Task, version: AgentVersion, traceparent: str = "", *, told_to: Assignment | None = None) -> None:
    """Create the run of a task, once. `told_to`: the turn, by which guards let pass what the plan is told.

    Raises MissingInputs, AgentFailure.
    """
    plan = plan_at(version.pk)
    check_depth(task)
    messages = list(Message.objects.filter(task=task, role=Message.Role.USER).order_by("index"))
    if told_to is not None:
        messages = guarding.as_told(told_to, messages)
    if why := registry.why_not_startable(plan.definition, principal_of(task)):
        raise AgentFailure(why, "closed_agents")
    earlier, from_step = _run_to_continue(task, plan, messages[0].metadata.get(RERUN))
    given = _inputs_from(plan, messages, earlier.inputs if earlier else {})
    values = {"version": version, "inputs": given, "continues": earlier, "begun_at_step": from_step}
    run = PlanRun(pk=task.pk, traceparent=traceparent, **values)
    steps = _first_steps(run, plan, earlier, from_step)
    watch = sql.Update(Context, {"id": task.context_id}, {"is_watched": True})
    try:
        with sql.write_transaction():
            sql.write([run, *steps], [watch])
    except IntegrityError:
        if not PlanRun.objects.filter(pk=task.pk).exists():
            raise


def _run_to_continue(task: Task, plan: CompiledPlan, rerun: Any) -> tuple[PlanRun | None, str]:
    """The run that this one continues, and the step to start from. Raises AgentFailure."""
    if not isinstance(rerun, dict):
        return None, ""
    from_step = str(rerun.get("from", ""))
    with suppress(ValueError):
        own = PlanRun.objects.visible_to(principal_of(task)).filter(task__agent=task.agent_id).select_related("task")
        earlier = own.filter(pk=uuid.UUID(str(rerun.get("continues", "")))).exclude(pk=task.pk).first()
        if earlier is not None:
            check_rerun(plan, earlier, from_step)
            return earlier, from_step
    raise AgentFailure("There is no earlier run of this plan to continue.", "unknown_run")


def check_rerun(plan: CompiledPlan, earlier: PlanRun, from_step: str) -> None:
    """Raises AgentFailure if a run cannot continue an earlier one from this step."""
    if from_step not in plan.definition.steps:
        raise AgentFailure(f"The plan has no step `{from_step}` to start from.", "unknown_step")
    if not TaskState(earlier.task.state).is_terminal:
        raise AgentFailure("The earlier run has not ended. Stop it first, or wait until it ends.", "run_goes_on")


def _inputs_from(plan: CompiledPlan, messages: list[Message], earlier: JSON) -> JSON:
    """The inputs in a task's messages, merged over those of an earlier run. Raises MissingInputs."""
    given: JSON = {**earlier}
    files: list[JSON] = list(earlier.get("files", []))
    for number, message in enumerate(messages):
        text = []
        for part in message.parts:
            if kind_of(part) == "data":
                value = json.loads(blobs.content_of(part))
                given |= value if isinstance(value, dict) else {}
            elif is_file(part):
                files.append(part)
            else:
                text.append(blobs.content_of(part).decode())
        words = "\n".join(text).strip()
        if written := _inputs_in_text(words, plan.definition):
            given |= {"text": ""} | written if number == 0 else written
        elif number == 0:
            given = {"text": words, **given}
        else:
            asked = schema_of_missing(plan.definition, given)
            value = from_text(asked, words, strict_json.read) if words and asked else None
            given |= value if isinstance(value, dict) else {}
    given["files"] = files
    whole, problems = complete_inputs(plan.definition, given)
    if problems:
        sentence = f"The plan needs these inputs to start: {' '.join(problems)}"
        raise MissingInputs(sentence, schema_of_missing(plan.definition, given))
    return whole


def _inputs_in_text(text: str, definition: PlanDefinition) -> JSON:
    """The inputs that a text gives as a JSON object; empty if it names no input of the plan."""
    with suppress(ValueError):
        value = strict_json.read(text)
        if isinstance(value, dict) and value.keys() & definition.inputs.get("properties", {}).keys():
            return value
    return {}


def _first_steps(run: PlanRun, plan: CompiledPlan, earlier: PlanRun | None, from_step: str) -> list[Step]:
    """The first rows: new ones, and copies of those that an earlier run keeps."""
    kept: dict[str, list[Step]] = {}
    if earlier is not None:
        for step in Step.objects.filter(run=earlier).order_by("item", "round"):
            kept.setdefault(step.key, []).append(step)
    usable = {key for key in plan.definition.steps if _are_reusable(kept.get(key, []), plan.step(key))}
    repeated = set(plan.needs)
    if from_step:
        repeated = graphs.with_descendants(plan.definition, {from_step, *(repeated - usable)})
    rows = []
    for key in plan.definition.steps:
        rows += [Step(run=run, key=key)] if key in repeated else [_reused_step(run, step) for step in kept[key]]
    return rows


def _are_reusable(steps: list[Step], definition: StepDefinition) -> bool:
    """Do these rows have the full result of a step as it is defined now? Not if the result was deleted."""
    is_list = definition.for_each is not None
    return bool(steps) and all(_is_reusable(step, is_list) for step in steps)


def _is_reusable(step: Step, is_list: bool) -> bool:
    if step.item >= 0 and not is_list:
        return False
    is_empty_list = is_list and step.item < 0  # without a task
    return step.state == State.SKIPPED or (step.state == State.DONE and (step.task_id is None) == is_empty_list)


def _reused_step(run: PlanRun, step: Step) -> Step:
    names = ("key", "item", "value", "round", "attempt", "state", "agent", "task_id", "why", "started_at", "ended_at")
    values = {name: getattr(step, name) for name in names}
    return Step(run=run, reused_id=step.reused_id or step.pk, **values)


REQUIRED_ENDING = " is a required property."


def complete_inputs(definition: PlanDefinition, given: JSON) -> tuple[JSON, list[str]]:
    """The inputs with defaults, and a sentence for each problem."""
    inputs = with_defaults(definition.inputs, given)
    found = [_input_sentence(steps, sentence) for steps, sentence in _schema_problems(definition, inputs)]
    return {"text": "", "files": [], **inputs}, found


def input_problems(definition: PlanDefinition, given: JSON) -> list[tuple[str, str]]:
    found = _schema_problems(definition, with_defaults(definition.inputs, given))
    return [
        (
            ".".join(["inputs", *map(str, steps)]),
            "This is required." if sentence.endswith(REQUIRED_ENDING) else sentence,
        )
        for steps, sentence in found
    ]


def schema_of_missing(definition: PlanDefinition, given: JSON) -> JSON:
    """The JSON Schema of the missing or invalid inputs; {} if there are none."""
    schema, inputs = definition.inputs, with_defaults(definition.inputs, given)
    found = _schema_problems(definition, inputs)
    names = dict.fromkeys(str(steps[0]) for steps, _ in found if steps)
    asked = {name: field for name, field in properties_of(schema).items() if name in names}
    if not found:
        return {}
    if len(asked) < len(names) or any(not steps for steps, _ in found):
        return schema  # the problem concerns several properties
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return {"type": "object", "properties": asked, "required": list(asked), **definitions}


def _schema_problems(definition: PlanDefinition, inputs: JSON) -> list[tuple[list[Any], str]]:
    stated = properties_of(definition.inputs)
    checked = {
        name: value
        for name, value in inputs.items()
        if name not in OWN_INPUTS or (name in stated and value)  # "" and [] mean absent
    }
    missing: list[tuple[list[Any], str]] = [
        ([name], f"{name!r}{REQUIRED_ENDING}") for name in definition.inputs.get("required", []) if name not in checked
    ]
    found = json_schema.violations(definition.inputs, checked)  # names only the first missing input
    sentences = {sentence for _, sentence in missing}
    return missing + [one for one in found if len(one[0]) > 1 or one[1] not in sentences]


def _input_sentence(steps: list[Any], sentence: str) -> str:
    name = ".".join(map(str, steps))
    if sentence.endswith(REQUIRED_ENDING):
        return f"`{name}` is required."
    return f"`{name}`: {sentence}" if name else sentence


class NotBegun(UnsupportedOperation):
    """The run has not begun yet. Cancel it, or wait."""


def first_unfinished_step(run: PlanRun) -> str:
    """The key of the first step that was not done, else of the first step."""
    plan = plan_at(run.version_id)
    left = set(Step.objects.filter(run=run).exclude(state__in=Step.SETTLED).values_list("key", flat=True))
    return next((key for key in plan.definition.steps if key in left), next(iter(plan.definition.steps)))


def restart_steps(run: PlanRun) -> list[tuple[str, str]]:
    """The steps of the plan's current version, from which a run of it can be repeated: key and title."""
    plan = plan_at(run.task.agent.current_version_id or run.version_id)
    return [(key, plan.title_of(key)) for key in plan.definition.steps]


def rerun(
    principal: Principal, run: PlanRun, from_step: str = "", *, key: str = "", version: AgentVersion | None = None
) -> Receipt:
    """Run the plan again from a step, as a new task that keeps the results of steps that do not need that one.

    Without a step, from the first that was not done. The message's metadata names the earlier run. `key` is the
    messageId (see `claim_key`). `version`: of the plan; by default the current one. Synchronous. Raises errors.Refusal.
    """
    if not run.has_begun:
        raise NotBegun
    earlier = PlanRun.objects.select_related("task__agent", "task__context").find_or_none(principal, run.pk)
    agent = Agent.objects.find_or_none(principal, earlier.task.agent.slug) if earlier else None
    if earlier is None or agent is None or agent.current_version_id is None:
        raise UnsupportedOperation("This run does not exist, or you may not run its plan.")
    plan = plan_at(version.pk if version else agent.current_version_id)
    from_step = from_step or first_unfinished_step(earlier)
    try:
        check_rerun(plan, earlier, from_step)
    except AgentFailure as failure:
        raise UnsupportedOperation(str(failure)) from None
    message = compose(
        [{"text": f"Run again from “{plan.title_of(from_step)}”."}],
        key=key,
        context=earlier.task.context.context_id if earlier.task.context.parent_task is None else "",
        references=[earlier.pk],
        metadata={RERUN: {"continues": str(earlier.pk), "from": from_step}},
    )
    claim = claim_key(principal, agent, message["messageId"])
    return accept_and_publish(principal, agent, message, extra_writes=claim, version=version, repeats=earlier.pk)


def visible_runs(principal: Principal) -> QuerySet[Task]:
    """The tasks of the caller's runs, for lists."""
    tasks = Task.objects.of(principal).filter(agent__kind=Agent.Kind.PLAN).select_related("agent", "plan_run__version")
    return tasks.defer("status_message", "slot", "metadata", "plan_run__inputs", "plan_run__version__content")


def find_run(principal: Principal, key: uuid.UUID) -> PlanRun:
    """The caller's run with its task, even before a worker has begun it (`has_begun`). Raises NotFound.

    Its steps have sessions of their own, which are private even if the plan's session is shared.
    """
    found = lookup.find_task(principal, key, "agent__current_version", "plan_run__version")
    if found.owner_id != principal.user_id or found.agent.kind != Agent.Kind.PLAN:
        raise NotFound("There is no such plan run.")
    return PlanRun.of(found)


def step_of_task(principal: Principal, task: uuid.UUID) -> Step | None:
    steps = Step.objects.visible_to(principal).filter(Q(task=task) | Q(consulted=task))
    return steps.select_related("run__task__agent").order_by("run__created_at").first()


def archive_obstacle(context: Context) -> str:
    """See `cold_obstacles`."""
    is_plans = PlanRun.objects.filter(task__context=context).exists()
    is_steps = Step.objects.filter(Q(task__context=context) | Q(consulted__context=context)).exists()
    return "A run of a plan refers to it." if is_plans or is_steps else ""


def lock_runs(contexts: Keys) -> None:
    """Block ticks of the contexts' runs until this transaction ends (`before_erasure`).

    A tick locks the run before its steps. A deletion starts with the steps, so it must lock the runs first.
    """
    list(PlanRun.objects.select_for_update().filter(task__context__in=contexts).order_by("pk").values_list("pk"))


def _pause(run: PlanRun, principal: Principal) -> PlanRun:
    _check_goes_on(run)
    if not PlanRun.objects.unfinished().filter(pk=run.pk, paused_at=None).update(paused_at=timezone.now()):
        raise NotNeeded("It is paused already.")
    RUNS_TO_ADVANCE.publish(run.pk)
    return run


def _resume(run: PlanRun, principal: Principal) -> PlanRun:
    _check_goes_on(run)
    paused = PlanRun.objects.unfinished().filter(pk=run.pk, paused_at__isnull=False)
    if not paused.update(paused_at=None, advanced_at=None):
        raise NotNeeded("It is not paused.")
    RUNS_TO_ADVANCE.publish(run.pk)
    return run


def _check_goes_on(run: PlanRun) -> None:
    """Raises NotBegun, UnsupportedOperation."""
    if run.task.is_finished:
        raise UnsupportedOperation(f"The run is {run.task.state} and does not go on. Run it again.")
    if not run.has_begun:
        raise NotBegun


def _cancel(run: PlanRun, principal: Principal) -> PlanRun:
    if run.task.state == TaskState.CANCELED:
        raise NotNeeded("It is canceled already.")
    cancel_task(run.task)
    return run


def _goes_on(run: PlanRun) -> bool:
    return run.has_begun and not run.task.is_finished


PAUSE = replace(
    pausing(_pause, "a plan run", "No further steps start. Steps that are already running continue."),
    is_offered=lambda run: _goes_on(run) and run.paused_at is None,
)
RESUME = replace(
    resuming(_resume, "a paused plan run", "Steps that are ready start at once."),
    is_offered=lambda run: _goes_on(run) and run.paused_at is not None,
)
CANCEL = Act[PlanRun](
    "cancel",
    "Stop",
    _cancel,
    "Cancel a plan run and all tasks that it started",
    "The run ends, and all its steps are canceled.",
    lambda _: "Canceled.",
    lambda run: not run.task.is_finished,
    is_grave=True,
    icon="stop",
    note="Canceling a canceled run has no effect. A run that has ended in another state cannot be canceled.",
)
PLAN_RUNS = Resource("plan-runs", "plan_run", PlanRun, acts=(PAUSE, RESUME, CANCEL), order=("-created_at", "-task"))
