"""Runs one step of a definition alone, with sample data, in a session that is deleted when the step has answered."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pydantic
from django.core.exceptions import ValidationError

from apps.accounts.errors import NotFound
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.agents.negotiation import WorkRequest
from apps.conversations.sessions import deletion
from apps.engine import send
from apps.limits import current as limits
from apps.plans import graphs
from apps.plans.definitions import StepDefinition, properties_of
from apps.plans.editing import edits
from apps.plans.models import PlanRun
from apps.plans.person import PERSON
from apps.plans.running import runs
from apps.plans.running.run_state import ArtifactResult, Outputs, StepResult, artifact_result, message_text
from apps.plans.running.transitions import step_parts
from apps.record.content import strict_json
from apps.record.content.composing import check_taken, compose
from apps.record.content.schema_forms import label_of
from apps.record.errors import InvalidParams, Refusal
from apps.record.events import JSON
from apps.record.models import Artifact, Task, TaskState
from apps.routing import ranking
from parley import db
from parley.templating import TemplateProblem

TRY_SECONDS = 120  # that a step may take
LONGEST_SAMPLE = 20_000  # characters, of a result of the last run
FIELD = "sample-"  # the beginning of the fields' names
NOT_YET = "Correct this step first: {}"


@dataclass(frozen=True, slots=True)
class Sample:
    """A value that a step's templates use: `inputs.topic`, `steps.draft` or `item`."""

    name: str
    label: str
    text: str = ""

    @property
    def html_name(self) -> str:
        return f"{FIELD}{self.name}"


@dataclass(frozen=True, slots=True)
class Tried:
    """How the step ended: its state, what it said, and its files with the text in them."""

    state: str
    text: str
    files: list[tuple[str, str]]


def samples_of(content: JSON, key: str, principal: Principal, slug: str) -> list[Sample]:
    """What the step needs to be tried, with values of the caller's last run of the plan `slug` or of the schema."""
    try:
        step = StepDefinition.model_validate(content["steps"][key])
    except pydantic.ValidationError:
        return []
    inputs, steps, others = _used(step)
    known = _last_values(principal, slug, steps)
    schema = content.get("inputs")
    stated = properties_of(schema) if isinstance(schema, dict) else {}
    found = []
    for name in inputs:
        declared = stated[name] if isinstance(stated.get(name), dict) else {}
        examples = declared.get("examples") or [declared.get("default", "")]
        value = known.get(f"inputs.{name}", examples[0] if isinstance(examples, list) else "")
        found.append(Sample(f"inputs.{name}", f"Input: {label_of(name, declared)}", _written(value)))
    for other in steps:
        title = content["steps"].get(other, {}).get("title") or other.replace("_", " ")
        found.append(Sample(f"steps.{other}", f"Result of {title}", _written(known.get(f"steps.{other}", ""))))
    return found + [Sample(name, f"This {name}" if name == "item" else "Last result") for name in others]


def _used(step: StepDefinition) -> tuple[list[str], list[str], list[str]]:
    """The inputs, steps and other names that its message and attachments use."""
    inputs, steps, names = set[str](), set[str](), set[str]()
    for source in graphs.template_sources(step):
        if source.field in ("when", "for_each", "repeat.until"):
            continue
        with suppress(TemplateProblem):
            references = source.references
            inputs, steps = inputs | references.inputs, steps | references.steps
            names |= references.names & {"item", "last"}
    return sorted(inputs), sorted(steps), sorted(names)


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _last_values(principal: Principal, slug: str, steps: list[str]) -> dict[str, Any]:
    """Inputs and results of the caller's newest run of the plan, as far as its steps have ended."""
    newest = runs.visible_runs(principal).filter(agent__slug=slug).order_by("-created_at").values("pk")[:1]
    run = PlanRun.objects.filter(pk__in=list(newest.values_list("pk", flat=True))).first() if slug else None
    if run is None or not run.has_begun:
        return {}
    found = {f"inputs.{name}": value for name, value in run.inputs.items() if name != "files"}
    outputs = Outputs(run)
    for key in steps:
        if key in outputs and isinstance(result := outputs[key], StepResult):
            texts = [artifact.text for artifact in result.artifacts if artifact.text]
            found[f"steps.{key}"] = "\n".join(texts or [result.text])[:LONGEST_SAMPLE]
    return found


async def try_step(principal: Principal, text: str, key: str, given: Mapping[str, str]) -> Tried:
    """The answer of the step's agent. `given`: the samples' texts by their names.

    Raises Refusal, QuotaExceeded.
    """
    step, parts = await db.run(_message, text, key, given)
    agent = await _agent(principal, step)
    check_taken(agent, parts)
    close = limits.open_stream(principal, "")
    try:
        message = compose(parts, key=str(uuid.uuid4()))
        quiet = replace(principal, is_notified=False)  # whoever tries it looks at the answer
        sent = await send.send(quiet, agent, message, require_task=True, skill=step.skill or None)
        assert sent.task is not None
        try:
            async with asyncio.timeout(TRY_SECONDS):
                return await send.wait_until_settled(sent.context, sent.task, sent.index, _tried, sent.since)
        except TimeoutError:
            raise InvalidParams(f"{agent.name} did not answer within {TRY_SECONDS} seconds. It was stopped.") from None
        finally:
            await asyncio.shield(db.run(_throw_away, principal, sent.context))
    finally:
        close()


def _throw_away(principal: Principal, session: uuid.UUID) -> None:
    with suppress(Refusal, NotFound):  # it is kept for a legal hold, or gone
        deletion.delete_session(principal, session)


def _message(text: str, key: str, given: Mapping[str, str]) -> tuple[StepDefinition, list[JSON]]:
    content = edits.content_of(text)
    try:
        step = StepDefinition.model_validate(content["steps"].get(key))
    except pydantic.ValidationError as error:
        raise InvalidParams(NOT_YET.format(error.errors()[0]["msg"].removeprefix("Value error, "))) from None
    if step.person is not None:
        raise InvalidParams("A person does this step, so there is no agent to try.")
    names: JSON = {"inputs": {"text": "", "files": []}, "steps": {}, "index": 0, "last": None}
    for name, written in given.items():
        kind, _, one = name.partition(".")
        if kind == "inputs":
            names["inputs"][one] = [_file(written)] if one == "files" else _value(content, one, written)
        elif kind == "steps":
            result = _result(one, written)
            is_list = bool(content["steps"].get(one, {}).get("for_each"))
            names["steps"][one] = [result] if is_list else result
        else:
            names[kind] = _result(kind, written) if kind == "last" else _json(written, written)
    try:
        return step, step_parts(step, names)
    except (TemplateProblem, ValueError, ValidationError) as problem:
        raise InvalidParams(f"The message cannot be written: {problem}") from None


def _value(content: JSON, name: str, written: str) -> Any:
    schema = content.get("inputs")
    declared = properties_of(schema).get(name) if isinstance(schema, dict) else None
    is_text = not isinstance(declared, dict) or declared.get("type", "string") == "string"
    return written if is_text else _json(written, written)


def _json(text: str, otherwise: Any) -> Any:
    try:
        return strict_json.read(text)
    except ValueError:
        return otherwise


def _file(text: str) -> ArtifactResult:
    part = {"text": text, "filename": "sample.txt", "mediaType": "text/plain"}
    return ArtifactResult.of("sample.txt", [part])


def _result(key: str, text: str) -> StepResult:
    """A step's result: the text as its answer and as its file, and what it is as JSON."""
    data = _json(text, None)
    files = [_file(text)] if not isinstance(data, dict | list) else [ArtifactResult.of("sample", [{"data": data}])]
    return StepResult.of(key, TaskState.COMPLETED, text, files)


async def _agent(principal: Principal, step: StepDefinition) -> Agent:
    """Raises NotFound for an agent that the caller may not use, InvalidParams if none fits."""
    if step.agent:
        return await db.run(Agent.objects.find, principal, step.agent)
    ranked = await ranking.rank_agents(principal, WorkRequest(step.find))
    best = next((one.agent for one in ranked if one.accepted and one.agent.slug != PERSON), None)
    if best is None:
        raise InvalidParams(f"No agent that you may use fits “{step.find}”.")
    return best


def _tried(task: Task) -> Tried:
    made = Artifact.objects.delivered().filter(task=task).order_by("first_event")
    files = [(one.name or "Result", artifact_result(one.parts, one.name).text) for one in made]
    return Tried(task.state, message_text(task.status_message), files)
