"""Runs of plans: how one is started, paused, and run again from a step.

A run is a task of the plan's agent. Callers start it by `start_run`, or by a message like any other task. Its first
turn (`execute`) makes the run and a row for each step; then the task goes on without a worker of its own.
"""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from django.db import IntegrityError
from django.db.models import Q, QuerySet
from django.utils import timezone

import db
from agentkit import AgentFailure, Failed, HandlerError, InputRequired, Outcome, Progress, TaskContext
from agentkit.messages import is_file, kind_of
from apps.accounts.principals import Principal
from apps.agents.models import Agent, AgentVersion
from apps.engine import finish
from apps.engine.accept import ExtraWrites, Receipt
from apps.engine.assignment import Assignment, ReleaseSlot
from apps.engine.delegation import check_depth, principal_of
from apps.engine.finish import Ongoing
from apps.engine.send import accept_and_publish
from apps.plans import graphs, jobs, registry
from apps.plans.definitions import OWN_INPUTS, PlanDefinition, StepDefinition, properties_of, with_defaults
from apps.plans.graphs import CompiledPlan, Problems, plan_at
from apps.plans.jobs import enqueue_tick
from apps.plans.models import PlanRun, StartKey, Step
from apps.record import lookup
from apps.record.content import blobs, json_schema, strict_json
from apps.record.errors import InvalidParams, UnsupportedOperation
from apps.record.events import JSON
from apps.record.ledger import Ledger
from apps.record.models import Accepted, Context, Message, Task, TaskState
from db.sql import Batch, write_transaction


class InvalidStart(InvalidParams):
    """A plan cannot be started so; `problems` says why, by paths such as `inputs.city` and `steps.review.agent`."""

    def __init__(self, problems: Problems) -> None:
        path, sentence = problems[0]
        super().__init__(f"{path}: {sentence}", path)
        self.problems = problems


def start_run(
    principal: Principal,
    plan: Agent,
    given: JSON,
    *,
    key: str,
    text: str = "",
    files: Sequence[JSON] = (),
    traceparent: str = "",
) -> Receipt:
    """Begin a run of a plan that the caller may use, once for each `key` (its messageId). Synchronous.

    Raises InvalidStart for inputs that are missing or cannot be and for agents that the caller may not use,
    errors.Refusal where the key was used for something else, be it another plan; then nothing was stored.
    """
    words = [{"text": text}] if text else []
    message = {"messageId": key, "role": "ROLE_USER", "parts": [*words, {"data": given}, *files]}
    if not Accepted.objects.filter(sender=principal.sender, agent=plan, message_id=key).exists():
        _check_start(principal, plan, {"text": text, **given, "files": list(files)})
    return accept_and_publish(principal, plan, message, claim_key(principal, plan, key), traceparent=traceparent)


def claim_key(principal: Principal, plan: Agent, key: str) -> ExtraWrites:
    """Ties the key to this plan alone, in the transaction that accepts its start.

    A messageId is unique for each agent, a key for all plans. A caller with the same key for another plan waits for
    the first, and is refused with InvalidParams.
    """

    def claim(log: Ledger, task: uuid.UUID) -> None:
        claimed, _ = StartKey.objects.get_or_create(sender=principal.sender, key=key, defaults={"plan": plan})
        if claimed.plan_id != plan.pk:
            raise InvalidParams("This messageId was used for another plan. Use a new messageId.", "messageId")

    return claim


def _check_start(principal: Principal, plan: Agent, given: JSON) -> None:
    definition = registry.definition_of(plan)
    if definition is None:
        raise UnsupportedOperation("The plan's definition cannot be read any more. Whoever wrote it has to save it.")
    if problems := [*input_problems(definition, given), *registry.agents_closed_to(definition, principal)]:
        raise InvalidStart(problems)


NO_VERSION = "The plan {} has no version: save it once more."
NOTHING_ASKED = "The plan asked nothing, so your message changes nothing. Cancel it to begin again with other inputs."


async def execute(assignment: Assignment, task: TaskContext, _: ReleaseSlot) -> Outcome | Ongoing:
    """Begin the run, unless a turn before this did so. Raises HandlerError where the plan has no version."""
    return await db.run(_begin_or_go_on, assignment)


def _begin_or_go_on(assignment: Assignment) -> Outcome | Ongoing:
    task, version = assignment.task, assignment.agent.current_version
    if not PlanRun.objects.filter(pk=task.pk).exists():
        if version is None:
            raise HandlerError(NO_VERSION.format(assignment.agent.slug))
        try:
            begin_run(task, version, assignment.span)
        except MissingInputs as missing:
            return InputRequired(str(missing), slot="inputs", schema=missing.schema)
        except AgentFailure as failure:
            return Failed(str(failure), failure.code)
        return Ongoing(partial(jobs.tick_soon, task.pk))
    if assignment.asked_by is None and not assignment.resumed:
        return Ongoing(partial(finish.record_outcome, task, Progress(NOTHING_ASKED)))
    return Ongoing(partial(jobs.tick_soon, task.pk))


State = Step.State
ROWS_AT_ONCE = 1_000  # rows by one statement
RERUN = "planRun"  # in a message's metadata: {"continues": the id of an earlier run's task, "from": the key of a step}


class MissingInputs(Exception):
    """Inputs are missing or invalid; the text asks for them, `schema` is theirs."""

    def __init__(self, sentence: str, schema: JSON) -> None:
        super().__init__(sentence)
        self.schema = schema


def begin_run(task: Task, version: AgentVersion, traceparent: str = "") -> None:
    """Begin the run of a task, once. Raises MissingInputs, AgentFailure."""
    plan = plan_at(version.pk)
    check_depth(task)
    messages = list(Message.objects.filter(task=task, role=Message.Role.USER).order_by("index"))
    if why := registry.why_not_startable(plan.definition, principal_of(task)):
        raise AgentFailure(why, "closed_agents")
    earlier, from_step = _run_to_continue(task, plan, messages[0].metadata.get(RERUN))
    given = _inputs_from(plan, messages, earlier.inputs if earlier else {})
    values = {"version": version, "inputs": given, "continues": earlier, "begun_at_step": from_step}
    run = PlanRun(pk=task.pk, traceparent=traceparent, **values)
    rows = Batch()
    rows.insert(run)
    for some in itertools.batched(_first_steps(run, plan, earlier, from_step), ROWS_AT_ONCE):
        rows.insert(*some)
    rows.update(Context, {"id": task.context_id}, {"is_watched": True})
    try:
        with write_transaction():
            rows.write()
    except IntegrityError:
        if not PlanRun.objects.filter(pk=task.pk).exists():
            raise


def _run_to_continue(task: Task, plan: CompiledPlan, rerun: Any) -> tuple[PlanRun | None, str]:
    """The run that this one continues, and from which step. Raises AgentFailure."""
    if not isinstance(rerun, dict):
        return None, ""
    from_step = str(rerun.get("from", ""))
    with suppress(ValueError):
        own = PlanRun.objects.visible_to(principal_of(task)).filter(task__agent=task.agent_id).select_related("task")
        earlier = own.filter(pk=uuid.UUID(str(rerun.get("continues", "")))).exclude(pk=task.pk).first()
        if earlier is not None:
            check_rerun(plan, earlier, from_step)
            return earlier, from_step
    raise AgentFailure("There is no earlier run of this plan to go on from.", "unknown_run")


def check_rerun(plan: CompiledPlan, earlier: PlanRun, from_step: str) -> None:
    """May a run go on from this step of an earlier one? Raises AgentFailure."""
    if from_step not in plan.definition.steps:
        raise AgentFailure(f"The plan has no step `{from_step}` to begin at.", "unknown_step")
    if not TaskState(earlier.task.state).is_terminal:
        raise AgentFailure("The earlier run is not over. Cancel it first, or wait for its end.", "run_goes_on")


def _inputs_from(plan: CompiledPlan, messages: list[Message], earlier: JSON) -> JSON:
    """The inputs of an earlier run, with those in the messages of a task. Raises MissingInputs."""
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
        if number == 0:
            given = {"text": "\n".join(text).strip(), **given}
        else:
            given |= _input_from_text("\n".join(text).strip(), schema_of_missing(plan.definition, given))
    given["files"] = files
    whole, problems = complete_inputs(plan.definition, given)
    if problems:
        sentence = f"The plan needs its inputs to begin. {' '.join(problems)}"
        raise MissingInputs(sentence, schema_of_missing(plan.definition, given))
    return whole


def _input_from_text(text: str, asked: JSON) -> JSON:
    """The input that a text answers with, if one was asked for: numbers and lists as JSON.

    What a database cannot keep, such as NaN, stays a text, which the schema then refuses.
    """
    fields: JSON = asked.get("properties", {})
    if not text or len(fields) != 1:
        return {}
    ((name, schema),) = fields.items()
    if isinstance(schema, dict) and schema.get("type", "string") != "string":
        with suppress(strict_json.InvalidJSON, ValueError):
            return {name: strict_json.to_storable(strict_json.parse(text.encode(errors="replace")))}
    return {name: text}


def _first_steps(run: PlanRun, plan: CompiledPlan, earlier: PlanRun | None, from_step: str) -> list[Step]:
    """The first rows: new ones, and those of an earlier run that are not to be done again."""
    kept: dict[str, list[Step]] = {}
    if earlier is not None:
        for step in Step.objects.filter(run=earlier).order_by("item", "round"):
            kept.setdefault(step.key, []).append(step)
    usable = {key for key in plan.definition.steps if _are_reusable(kept.get(key, []), plan.step(key))}
    anew = set(plan.needs)
    if from_step:
        anew = graphs.with_descendants(plan.definition, {from_step, *(anew - usable)})
    rows = []
    for key in plan.definition.steps:
        rows += [Step(run=run, key=key)] if key in anew else [_reused_step(run, step) for step in kept[key]]
    return rows


def _are_reusable(steps: list[Step], definition: StepDefinition) -> bool:
    """Do these rows hold the result of a step, as its plan defines it now?

    Not if it has become a fan-out since, or is none any more, nor if what it delivered was deleted.
    """
    is_list = definition.for_each is not None
    return bool(steps) and all(_is_reusable(step, is_list) for step in steps)


def _is_reusable(step: Step, is_list: bool) -> bool:
    if step.item >= 0 and not is_list:
        return False
    is_empty_list = is_list and step.item < 0  # which has no task
    return step.state == State.SKIPPED or (step.state == State.DONE and (step.task_id is None) == is_empty_list)


def _reused_step(run: PlanRun, step: Step) -> Step:
    names = ("key", "item", "value", "round", "attempt", "state", "agent", "task_id", "why", "started_at", "ended_at")
    values = {name: getattr(step, name) for name in names}
    return Step(run=run, reused_id=step.reused_id or step.pk, **values)


REQUIRED_ENDING = " is a required property."


def complete_inputs(definition: PlanDefinition, given: JSON) -> tuple[JSON, list[str]]:
    """The inputs, with defaults, and a sentence for each that is missing or cannot be."""
    inputs = with_defaults(definition.inputs, given)
    found = [_input_sentence(steps, sentence) for steps, sentence in _schema_problems(definition, inputs)]
    return {"text": "", "files": [], **inputs}, found


def input_problems(definition: PlanDefinition, given: JSON) -> list[tuple[str, str]]:
    """What is missing or cannot be: a sentence for each, by its path, such as `inputs.city`."""
    found = _schema_problems(definition, with_defaults(definition.inputs, given))
    return [
        (".".join(["inputs", *map(str, steps)]), "This is needed." if sentence.endswith(REQUIRED_ENDING) else sentence)
        for steps, sentence in found
    ]


def schema_of_missing(definition: PlanDefinition, given: JSON) -> JSON:
    """The JSON Schema of the inputs that are missing or cannot be; {} where nothing is to be asked for."""
    schema, inputs = definition.inputs, with_defaults(definition.inputs, given)
    found = _schema_problems(definition, inputs)
    names = dict.fromkeys(str(steps[0]) for steps, _ in found if steps)
    asked = {name: field for name, field in properties_of(schema).items() if name in names}
    if not found:
        return {}
    if len(asked) < len(names) or any(not steps for steps, _ in found):
        return schema  # something is wrong with them as a whole
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return {"type": "object", "properties": asked, "required": list(asked), **definitions}


def _schema_problems(definition: PlanDefinition, inputs: JSON) -> list[tuple[list[Any], str]]:
    stated = properties_of(definition.inputs)
    checked = {
        name: value
        for name, value in inputs.items()
        if name not in OWN_INPUTS or (name in stated and value)  # a message without text, or files, has none
    }
    missing: list[tuple[list[Any], str]] = [
        ([name], f"{name!r}{REQUIRED_ENDING}") for name in definition.inputs.get("required", []) if name not in checked
    ]
    found = json_schema.violations(definition.inputs, checked)  # it names only the first missing input
    sentences = {sentence for _, sentence in missing}
    return missing + [one for one in found if len(one[0]) > 1 or one[1] not in sentences]


def _input_sentence(steps: list[Any], sentence: str) -> str:
    name = ".".join(map(str, steps))
    if sentence.endswith(REQUIRED_ENDING):
        return f"`{name}` is needed."
    return f"`{name}`: {sentence}" if name else sentence


def pause_run(run: PlanRun) -> bool:
    """Start no further steps; those that work go on. False if the run is paused, or over. Synchronous."""
    paused = PlanRun.objects.going_on().filter(pk=run.pk, paused_at=None).update(paused_at=timezone.now())
    if paused:
        enqueue_tick(run.pk)
    return bool(paused)


def resume_run(run: PlanRun) -> bool:
    """Let a paused run go on; False if it is not paused. Synchronous."""
    resumed = PlanRun.objects.going_on().filter(pk=run.pk, paused_at__isnull=False)
    if went := resumed.update(paused_at=None, advanced_at=None):
        enqueue_tick(run.pk)
    return bool(went)


def first_unfinished_step(run: PlanRun) -> str:
    """The key of the first step that was not done, from which a run that failed goes on; else of the first of all."""
    plan = plan_at(run.version_id)
    left = set(Step.objects.filter(run=run).exclude(state__in=Step.SETTLED).values_list("key", flat=True))
    return next((key for key in plan.definition.steps if key in left), next(iter(plan.definition.steps)))


async def rerun_async(principal: Principal, run: PlanRun, from_step: str, *, key: str = "") -> Receipt:
    """`rerun`, from where there is an event loop."""
    return await db.run(rerun, principal, run, from_step, key=key or str(uuid.uuid4()))


def rerun(principal: Principal, run: PlanRun, from_step: str, *, key: str = "") -> Receipt:
    """Run the plan again from a step, as a new task that keeps the results of all steps that do not need that one.

    The message of the new task says what it continues, so the record has it. `key` is its messageId: whoever repeats
    it gets the same task, and it starts no other plan. Synchronous. Raises errors.Refusal.
    """
    agent, message = _rerun_message(principal, run.pk, from_step, key)
    return accept_and_publish(principal, agent, message, claim_key(principal, agent, message["messageId"]))


def _rerun_message(principal: Principal, run_id: uuid.UUID, from_step: str, key: str) -> tuple[Agent, JSON]:
    runs = PlanRun.objects.visible_to(principal).select_related("task__agent", "task__context")
    run = runs.filter(pk=run_id).first()
    agent = Agent.objects.visible_to(principal).filter(pk=run.task.agent_id).first() if run else None
    if run is None or agent is None or agent.current_version_id is None:
        raise UnsupportedOperation("There is no such run of a plan that you may run again.")
    plan = plan_at(agent.current_version_id)
    try:
        check_rerun(plan, run, from_step)
    except AgentFailure as failure:
        raise UnsupportedOperation(str(failure)) from None
    message: JSON = {
        "messageId": key or str(uuid.uuid4()),
        "role": "ROLE_USER",
        "parts": [{"text": f"Run again from “{plan.title_of(from_step)}”."}],
        "referenceTaskIds": [str(run.pk)],
        "metadata": {RERUN: {"continues": str(run.pk), "from": from_step}},
    }
    if run.task.context.parent_task is None:
        message["contextId"] = run.task.context.context_id
    return agent, message


def visible_runs(principal: Principal) -> QuerySet[Task]:
    """The tasks of plans that are somebody's."""
    tasks = Task.objects.visible_to(principal).filter(agent__kind=Agent.Kind.PLAN).select_related("agent")
    return tasks.defer("status_message", "slot", "metadata")


def task_of_run(principal: Principal, key: uuid.UUID) -> Task | None:
    """The task of somebody's run, with its agent and context, also before a worker has claimed it."""
    found = lookup.find_task(principal, key, "agent__current_version", "context")
    return found if found and found.agent.kind == Agent.Kind.PLAN else None


def step_of_task(principal: Principal, task: uuid.UUID) -> Step | None:
    """The step that a task was made for, of the run that it was made by."""
    steps = Step.objects.visible_to(principal).filter(Q(task=task) | Q(consulted=task))
    return steps.select_related("run__task__agent").order_by("run__created_at").first()


def archive_obstacle(context: Context) -> str:
    """Why the context has to stay in the tables (`COLD_OBSTACLES`)."""
    is_plans = PlanRun.objects.filter(task__context=context).exists()
    is_steps = Step.objects.filter(Q(task__context=context) | Q(consulted__context=context)).exists()
    return "A run of a plan refers to it." if is_plans or is_steps else ""


def lock_runs(context: Context) -> None:
    """Keep ticks from the context's runs until this transaction is over (`BEFORE_ERASURE`).

    A tick locks the run, and then steps; deleting a run begins with its steps.
    """
    list(PlanRun.objects.select_for_update().filter(task__context=context).order_by("pk").values_list("pk"))
