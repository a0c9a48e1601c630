"""People in plans: the agent `person`, its questions, and the tasks that wait for a person.

A step for a person, an approval, and a decision after a failure are each a task of that agent. Callers see each
question once, at the task where they can answer it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Q, QuerySet

from agentkit import Artifact, Completed, InputRequired, Outcome, Skill, SkillHandler, SyncTaskContext
from agentkit.content.messages import Message as Said
from agentkit.content.messages import Part
from agentkit.slots import SAMPLES, answer_of, asks_value
from apps.accounts.principals import Principal
from apps.engine import finish
from apps.engine.turns import delegation
from apps.plans.definitions import Check, StepDefinition
from apps.plans.models import GivenAnswer, PlanRun, Step
from apps.plans.running.run_state import RunState, artifact_result, check_problem
from apps.record.content import json_schema, strict_json
from apps.record.content.composing import compose
from apps.record.errors import InvalidParams
from apps.record.events import JSON, EventType
from apps.record.models import INTERRUPTED_STATES, Context, Event, Message, Task, TaskQuerySet, TaskState
from apps.record.models import Artifact as Delivered
from apps.record.reading import lookup

PERSON = "person"  # the slug of the agent
REQUEST = "parleyRequest"  # the key of the data part that says what is wanted
ANSWER = "answer"  # the artifact that a form becomes, and the slot
UPLOAD = "file"


class Person(SkillHandler):
    """Asks the task's owner for answers, approval, decisions and files.

    The message has text for the person and a data part `{"parleyRequest": …}` with `schema`, `upload`, `output` and
    `samples`. The agent asks again until the answer fits.
    """

    name = "Person"
    listed = False  # plans ask, people do not write to it
    version = "1.0.0"
    skills = (
        Skill(
            "ask",
            "Ask a person",
            "Asks the person who started the work, and waits for the answer.",
            ["person"],
        ),
    )
    input_modes = ("*/*",)
    output_modes = ("*/*",)
    retry_safe = True

    def on_request(self, task: SyncTaskContext) -> Outcome:
        wanted = _request_in(task.message.data)
        request = next(filter(_is_request, task.message.parts), None)  # later requests are data to show
        shown = [part for part in task.message.parts if part is not request]
        task.memory["wanted"] = wanted
        return InputRequired(shown or [{"text": "What is your answer?"}], slot=ANSWER, schema=_form_schema(wanted))

    def on_input_received(self, task: SyncTaskContext) -> Outcome:
        wanted = task.memory.get("wanted", {})
        try:
            return _outcome_of(task, wanted)
        except _InvalidAnswer as unfit:
            return InputRequired(str(unfit), slot=ANSWER, schema=_form_schema(wanted))


class _InvalidAnswer(Exception):
    """An answer does not fit; the text says why."""


def _outcome_of(task: SyncTaskContext, wanted: dict[str, Any]) -> Outcome:
    made: list[Artifact] = []
    if wanted.get("upload"):
        if not task.message.files:
            raise _InvalidAnswer("Please attach a file. A message without a file is not enough.")
        check = Check.model_validate(wanted.get("output") or {})
        name = check.artifact
        for number, file in enumerate(task.message.files):
            made.append(Artifact([file.part], name if name and not number else file.name or f"file {number + 1}"))
        results = [artifact_result([dict(part) for part in one.parts], one.name) for one in made]
        if problem := check_problem(check, results):
            raise _InvalidAnswer(f"{problem} Please send another file.")
    text = task.message.text.strip()
    if (schema := wanted.get("schema")) is not None:
        made.append(Artifact.json(ANSWER, _form_answer(task.message, schema)))
    elif not made:
        if not text and not task.message.files:
            raise _InvalidAnswer("Please answer in words.")
        made += [Artifact.text(ANSWER, text)] if text else []
        made += [Artifact([file.part], file.name) for file in task.message.files]
    said = text or ("Here is my answer." if made else "Done.")
    return Completed(said, made)


def _form_answer(message: Said, schema: dict[str, Any]) -> Any:
    """The answer, checked by its schema. Raises _InvalidAnswer."""
    value = answer_of({"name": ANSWER, "schema": schema}, message, strict_json.read)
    if value is None or (isinstance(value, str) and not asks_value(schema)):
        raise _InvalidAnswer("Please fill in the form.")
    try:
        json_schema.validate(schema, value, ANSWER)
    except InvalidParams as error:
        raise _InvalidAnswer(f"That does not fit: {error} Please answer again.") from None
    return value


def _request_in(data: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(
        (one[REQUEST] for one in data if isinstance(one, dict) and isinstance(one.get(REQUEST), dict)), {}
    )
    return {name: found[name] for name in ("schema", "upload", "output", "samples") if name in found}


def _is_request(part: Part) -> bool:
    data = part.get("data")
    return isinstance(data, dict) and REQUEST in data


def _form_schema(wanted: dict[str, Any]) -> dict[str, Any] | None:
    schema: dict[str, Any] | None = wanted.get("schema")
    if not wanted.get("upload"):
        return schema
    media_type = (wanted.get("output") or {}).get("media_type", "")
    file: dict[str, Any] = {"type": "string", "format": "binary", "title": "File"}
    file |= {"contentMediaType": media_type} if media_type else {}
    file |= {SAMPLES: wanted["samples"]} if wanted.get("samples") else {}
    schema = schema or {}
    if asks_value(schema):
        schema = {"properties": {ANSWER: schema}, "required": [ANSWER]}
    properties = {UPLOAD: file, **schema.get("properties", {})}
    return {**schema, "type": "object", "properties": properties, "required": [UPLOAD, *schema.get("required", [])]}


TRY_AGAIN, SKIP, END = "try again", "go on without it", "end the plan"

APPROVAL_SCHEMA: JSON = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean", "title": "I approve"},
        "comment": {"type": "string", "title": "Comment"},
    },
    "required": ["approved"],
}
DECISION_SCHEMA: JSON = {
    "type": "object",
    "properties": {"decision": {"type": "string", "title": "What now?", "enum": [TRY_AGAIN, SKIP, END]}},
    "required": ["decision"],
}


def parts_for_person(definition: StepDefinition, ask: str) -> list[Any]:
    person = definition.person
    assert person is not None
    wanted: JSON = {"upload": person.upload}
    if person.json_schema is not None:
        wanted["schema"] = person.json_schema
    if person.samples:
        wanted["samples"] = [sample.part for sample in person.samples]
    if definition.output is not None:
        wanted["output"] = definition.output.model_dump(by_alias=True, exclude_defaults=True)
    return [{"text": ask}, {"data": {REQUEST: wanted}}]


def approval_before(run_state: RunState, step: Step, message: JSON) -> JSON:
    """Asks whether a step may begin, and shows the message for its agent."""
    title = run_state.plan.title_of(step.key)
    text = f"May the step “{title}” start? Its agent would get this message:"
    return _question_message(step, text, APPROVAL_SCHEMA, message["parts"])


def approval_after(run_state: RunState, step: Step, task: Task) -> JSON:
    made = Delivered.objects.delivered().filter(task=task).order_by("first_event")
    parts = [part for artifact in made for part in artifact.parts]
    return _question_message(
        step, f"Do you approve what the step “{run_state.plan.title_of(step.key)}” delivered?", APPROVAL_SCHEMA, parts
    )


def decision_after_failure(run_state: RunState, step: Step, why: str) -> JSON:
    """Asks how to continue after a failure."""
    return _question_message(
        step,
        f"The step “{run_state.plan.title_of(step.key)}” failed: {why} How should the plan continue?",
        DECISION_SCHEMA,
    )


def answer_of_person(task: Task | None) -> JSON:
    """The person's answer; {} if there is none."""
    if task is None or task.state != TaskState.COMPLETED:
        return {}
    given = Delivered.objects.delivered().filter(task=task, name=ANSWER).first()
    data: JSON = next((part["data"] for part in given.parts if isinstance(part.get("data"), dict)), {}) if given else {}
    return dict(data)


def is_approved(step: Step) -> bool:
    """Was the last question about the step an approval, and was it given?"""
    return answer_of_person(Task.objects.filter(plan_consultations=step).first()).get("approved") is True


def _question_message(step: Step, text: str, schema: JSON, shown: list[Any] | None = None) -> JSON:
    kind = "decision" if schema is DECISION_SCHEMA else "approval"
    number = f"{step.attempt}:{kind}:{step.consulted_id or ''}"  # unique by the previous question's id
    parts = [{"text": text}, {"data": {REQUEST: {"schema": schema}}}, *(shown or [])]
    return compose(parts, key=f"{step.key}:{step.item}:{step.round}:{number}")


def record_answers(run: uuid.UUID) -> None:
    """Record in a plan's log what its steps were answered elsewhere: on the run's page, in the inbox, by a client.

    The answer to the plan's own question resumes the plan; other answers are recorded together with their questions.
    """
    for given in GivenAnswer.objects.filter(run=run).select_related("run__task").order_by("pk"):
        delegation.resume_suspended(Q(task=run))
        said = Message.objects.filter(task=given.task_id, index=given.index).first()
        question = _question_before(given)
        if said is not None and question is not None:
            with suppress(Context.DoesNotExist, Task.DoesNotExist):
                finish.record_exchange(given.run.task, question, delegation.copied_message(said))
        given.delete()


def _question_before(given: GivenAnswer) -> JSON | None:
    """The payload of the event that asked what was answered."""
    earlier = Event.objects.filter(task=given.task_id, artifact_id="", index__lt=given.index).order_by("-index")
    newest = earlier.first()
    is_message = newest is not None and newest.type == EventType.AGENT_MESSAGE
    if newest and is_message and delegation.ANSWERED_TASK in newest.payload["message"].get("metadata", {}):
        return dict(newest.payload)
    asked = earlier.filter(type=EventType.AGENT_STATUS, payload__state__in=INTERRUPTED_STATES).first()
    return dict(asked.payload) if asked else None


@dataclass(frozen=True)
class OpenQuestions:
    """The open questions in a person's runs.

    Attributes:
        steps: by the task that asks, its run and the runs that called that one, innermost first.
        relayed: tasks that only repeat one of these questions.
    """

    steps: dict[uuid.UUID, list[uuid.UUID]] = field(default_factory=dict)
    relayed: set[uuid.UUID] = field(default_factory=set)

    @classmethod
    def of(cls, principal: Principal) -> OpenQuestions:
        """A few queries, however many questions there are; one if no run is unfinished."""
        runs = set(PlanRun.objects.visible_to(principal).unfinished().values_list("pk", flat=True))
        if not runs:
            return cls()
        suspended = Task.objects.of(principal).filter(state__in=INTERRUPTED_STATES, suspension__isnull=False)
        slots = suspended.values_list("pk", "slot")
        asks_for = {task: uuid.UUID(slot["child"]) for task, slot in slots if slot and "child" in slot}
        relayed = {task for task in asks_for if not runs.isdisjoint(_chain(task, asks_for))}
        asking = list(Step.objects.asking().filter(run__in=runs))
        callers = _callers({step.run_id for step in asking})
        steps = {
            step.worked_at_by: list(_chain(step.run_id, callers))
            for step in asking
            if step.worked_at_by is not None and step.worked_at_by not in relayed
        }
        return cls(steps, relayed)


def waiting_for(principal: Principal) -> TaskQuerySet:
    """All tasks that wait for the caller. For plans these are the steps that ask, not the plan."""
    own, asked = lookup.waiting_tasks(principal), OpenQuestions.of(principal)
    if asked.relayed:
        own = own.exclude(pk__in=asked.relayed)
    if not asked.steps:
        return own
    outermost = {path[-1] for path in asked.steps.values()}
    unarchived = Task.objects.filter(pk__in=outermost, context__in=lookup.unarchived_contexts(principal))
    shown = set(unarchived.values_list("pk", flat=True))
    askers = [task for task, path in asked.steps.items() if path[-1] in shown]
    return own | Task.objects.of(principal).filter(state__in=INTERRUPTED_STATES, pk__in=askers)


def waiting_in_run(principal: Principal, run: PlanRun) -> TaskQuerySet:
    """The tasks that wait for the caller in a run and the runs within it."""
    askers = [task for task, path in OpenQuestions.of(principal).steps.items() if run.pk in path]
    return Task.objects.of(principal).filter(state__in=INTERRUPTED_STATES, pk__in=askers)


def steps_asking_by(principal: Principal, tasks: Iterable[Task]) -> dict[uuid.UUID, Step]:
    """By task, the step that asks through it."""
    keys = [task.pk for task in tasks if task.parent_id is not None]
    if not keys:
        return {}
    asking = Step.objects.visible_to(principal).asking().select_related("run__task__agent", "run__task__context")
    found = [*asking.filter(task__in=keys), *asking.filter(consulted__in=keys)]
    return {step.worked_at_by: step for step in found if step.worked_at_by is not None}


def _chain(task: uuid.UUID, leads_to: Mapping[uuid.UUID, uuid.UUID | None]) -> Iterator[uuid.UUID]:
    at: uuid.UUID | None = task
    while at is not None:
        yield at
        at = leads_to.get(at)


def _callers(tasks: set[uuid.UUID]) -> dict[uuid.UUID, uuid.UUID | None]:
    found: dict[uuid.UUID, uuid.UUID | None] = {}
    while tasks:
        above = dict(Task.objects.filter(pk__in=tasks).values_list("pk", "parent"))
        found |= above
        tasks = {parent for parent in above.values() if parent is not None} - found.keys()
    return found


def steps_asking(principal: Principal) -> QuerySet[Step]:
    """The visible steps that ask."""
    return Step.objects.visible_to(principal).asking().select_related("run__task__agent", "task", "consulted")
