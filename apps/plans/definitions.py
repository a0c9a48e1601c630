"""What a plan is made of: a graph of steps, each of which becomes a task. The same for a file, a form and a version.

A plan is an agent of the kind `plan`; its definition is the content of the agent's version (`apps.agents.versions`).
Here is what each part may be by itself; whether the steps work together is said by `graphs`, whether they can be
worked at here by `checks`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, Self

import pydantic
import rfc8785
from django.core.exceptions import ValidationError
from pydantic import BeforeValidator, ConfigDict, Field, ValidatorFunctionWrapHandler, WrapValidator, model_validator

from apps.agents.definitions import Exact, Line, Name, SkillDefinition, Text, plain
from apps.agents.models import Agent
from apps.plans import plain_yaml
from apps.plans.schemas import BadSchema, ObjectSchema, Schema

JSON = dict[str, Any]

MOST_BYTES = 500_000  # of a definition as a file
MOST_STEPS = 2_000  # that a run may have, those of fan-outs and repetitions included
LONGEST_TEMPLATE = 50_000  # characters
INPUT_MODES = ("text/plain", "application/json", "*/*")
OUTPUT_MODES = ("text/plain", "application/json", "*/*")

Key = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
"""How steps are named: templates speak of them by it."""
Expression = Annotated[str, Field(min_length=1, max_length=2_000), BeforeValidator(plain)]
"""A Jinja expression, such as `steps.review.data.count > 3` (see `templates`)."""
Template = Annotated[str, Field(min_length=1, max_length=LONGEST_TEMPLATE), BeforeValidator(plain)]
OptionalTemplate = Annotated[str, Field(max_length=LONGEST_TEMPLATE), BeforeValidator(plain)]
OptionalLine = Annotated[str, Field(max_length=200), BeforeValidator(plain)]
Seconds = Annotated[float, Field(gt=0, le=30 * 24 * 3600)]


class _Part(Exact):
    model_config = ConfigDict(use_attribute_docstrings=True)


class Check(_Part):
    """What a step has to deliver: else it has failed."""

    artifact: OptionalLine = ""
    """The name of an artifact that must be there; without one the first is looked at."""
    media_type: Annotated[str, Field(pattern=r"^$|^[\w.+-]+/[\w.+*-]+$|^\*/\*$")] = ""
    """The media type of the artifact or a part of it, such as `text/csv` or `image/*`."""
    json_schema: Schema | None = Field(None, alias="schema")
    """A JSON Schema for the artifact's JSON."""
    columns: list[Line] = []
    """Columns that a CSV file must have, in any order."""


class Person(_Part):
    """A step that a person does: days may pass."""

    ask: Template
    """What the person is asked; a template."""
    json_schema: Schema | None = Field(None, alias="schema")
    """A JSON Schema of the answer: the person is shown its form."""
    upload: bool = False
    """Is a file wanted? `output` says what it must be."""


class Repeat(_Part):
    """Cycles of improvement: the step is done again until that holds, with its last result at hand as `last`."""

    until: Expression
    """A condition, such as `last.data.score >= 0.9`."""
    max: int = Field(5, ge=1, le=50)
    """After so many rounds the last result is taken as it is."""


class Fallback(_Part):
    """Another agent, which takes a step over that failed."""

    agent: Line
    """Its slug."""


def _reaction(given: Any, read: ValidatorFunctionWrapHandler) -> Any:
    try:
        return read(given)
    except pydantic.ValidationError:
        raise ValueError("Write `fail`, `skip`, `ask` or `{agent: SLUG}`.") from None


class StepDefinition(_Part):
    """One step. Exactly one of `agent`, `find` and `person` says who does it."""

    title: Annotated[str, Field(max_length=120), BeforeValidator(plain)] = ""
    """How people see the step; without one they see its key."""
    agent: OptionalLine = ""
    """The slug of the agent that does it."""
    find: OptionalLine = ""
    """What is to be done: whichever agent ranks best for it does it."""
    person: Person | None = None
    """A person does it."""
    skill: OptionalLine = ""
    """The id of the agent's skill that is meant."""
    message: OptionalTemplate = ""
    """What the agent is sent: a template over `inputs` and `steps`, `item` and `index`, and `last`."""
    attach: list[Expression] = Field([], max_length=100)
    """Expressions that give artifacts, or lists of them, which go along with the message."""
    depends_on: list[Key] = Field([], max_length=MOST_STEPS)
    """Steps that it waits for. Those that its templates and expressions speak of need not be named."""
    when: Expression | None = None
    """A condition: the step is skipped where it does not hold."""
    for_each: Expression | None = None
    """An expression that gives a list: the step is done for each `item` of it, at the same time."""
    repeat: Repeat | None = None
    """The step is done again until its result is good."""
    retries: int = Field(0, ge=0, le=10)
    """How often it is tried again after it failed."""
    time_limit: Seconds | None = None
    """How many seconds a try may take; waiting for people is not counted."""
    on_failure: Annotated[Literal["fail", "skip", "ask"] | Fallback, WrapValidator(_reaction)] = "fail"
    """What happens when it failed: `fail` ends the plan, `skip` goes on without it, `ask` asks a person, and
    `{agent: SLUG}` lets another agent do it."""
    output: Check | None = None
    """What it has to deliver."""
    approve: Literal["", "before", "after"] = ""
    """A person agrees before it begins, or to what it delivered."""

    @model_validator(mode="after")
    def _by_one(self) -> Self:
        if sum(map(bool, (self.agent, self.find, self.person))) != 1:
            raise ValueError("Say who does it by one of `agent`, `find` and `person`.")
        if self.person is None and not self.message:
            raise ValueError("Write the `message` that the agent is sent.")
        return self


def _with_schemas(step: JSON, change: Callable[[Any], Any]) -> JSON:
    """A step with its JSON Schemas as `change` makes them."""
    parts = {
        name: part for name in ("person", "output") if isinstance(part := step.get(name), dict) and "schema" in part
    }
    return {**step, **{name: {**part, "schema": change(part["schema"])} for name, part in parts.items()}}


def _from_text(given: Any) -> Any:
    """A JSON Schema as a version keeps it: a text, of which no database changes the order."""
    try:
        return json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        return given


def _restored(content: JSON) -> JSON:
    """The content of a version, or a file, with its schemas as JSON."""
    kept = {"inputs": _from_text(content["inputs"])} if "inputs" in content else {}
    steps = content.get("steps")
    if isinstance(steps, list):
        kept["steps"] = [_with_schemas(one, _from_text) if isinstance(one, dict) else one for one in steps]
    return {**content, **kept}


def _by_key(given: Any) -> Any:
    """Steps as a version keeps them, a list whose order no database changes, as a mapping."""
    if not isinstance(given, list) or not all(
        isinstance(one, dict) and isinstance(one.get("key"), str) for one in given
    ):
        return given
    steps = {one["key"]: {name: value for name, value in one.items() if name != "key"} for one in given}
    if len(steps) < len(given):
        raise ValueError("Two steps have the same key.")
    return steps


class PlanDefinition(_Part):
    """A plan: steps that agents and people do, each when those that it waits for are done."""

    name: Name
    """How people see the plan."""
    description: Text
    """What it does; people and agents find it by that."""
    inputs: ObjectSchema = {}
    """A JSON Schema of type object: what whoever starts the plan gives. A message's text is `inputs.text` and its
    files are `inputs.files`, without being stated."""
    limit: int = Field(10, ge=1, le=500)
    """How many steps may be worked at at the same time."""
    agent_limits: dict[Line, Annotated[int, Field(ge=1, le=500)]] = {}
    """The same for single agents, by their slugs."""
    answering: OptionalLine = ""
    """The slug of the agent that answers what steps ask; without one the plan's owner does."""
    skills: list[SkillDefinition] = Field([], max_length=100)
    """What the plan's card says that it can do; without them a general skill of its name and description."""
    steps: Annotated[dict[Key, StepDefinition], BeforeValidator(_by_key)] = Field(min_length=1, max_length=MOST_STEPS)
    """The steps by their keys."""
    outputs: list[Key] = Field([], max_length=MOST_STEPS)
    """The steps whose artifacts the plan delivers; without them those that no other step waits for."""

    @classmethod
    def read(cls, content: Any) -> Self:
        """From JSON. Raises ValidationError with sentences by their paths, such as `steps.review.agent`."""
        if not isinstance(content, dict):
            raise ValidationError({"file": "Write a mapping with name, description and steps."})
        content = {name: value for name, value in content.items() if (name, value) != ("kind", Agent.Kind.PLAN)}
        content = _restored(content)
        try:
            _check_json(content)
            return cls.model_validate(content)
        except pydantic.ValidationError as error:
            raise ValidationError(_sentences(error)) from None

    @classmethod
    def from_yaml(cls, text: str) -> Self:
        """From a file's text, YAML or JSON. Raises ValidationError."""
        check_size(text)
        try:
            return cls.read(plain_yaml.read(text))
        except plain_yaml.NoYaml as error:
            raise ValidationError({"file": str(error)}) from None

    @property
    def as_json(self) -> JSON:
        """As a person would write it: in the order of the schema, without what goes without saying."""
        return self.model_dump(by_alias=True, exclude_defaults=True)

    @property
    def content(self) -> JSON:
        """The content of a version."""
        written = self.as_json
        steps = [{"key": key, **_with_schemas(step, json.dumps)} for key, step in written["steps"].items()]
        inputs = {"inputs": json.dumps(written["inputs"])} if "inputs" in written else {}
        return {"kind": Agent.Kind.PLAN.value, **written, **inputs, "steps": steps}

    @property
    def stated(self) -> JSON:
        """The fields of Agent that it decides."""
        general = SkillDefinition(name=self.name, description=self.description, tags=["plan"])
        return {
            "kind": Agent.Kind.PLAN,
            "handler": "",
            "name": self.name,
            "description": self.description,
            "skills": [skill.wire for skill in self.skills or [general]],
            "input_modes": list(INPUT_MODES),
            "output_modes": list(OUTPUT_MODES),
        }

    def agents(self) -> Iterator[tuple[str, str]]:
        """The agents that it names: (path, slug)."""
        for key, step in self.steps.items():
            if step.agent:
                yield f"steps.{key}.agent", step.agent
            if isinstance(step.on_failure, Fallback):
                yield f"steps.{key}.on_failure.agent", step.on_failure.agent
        if self.answering:
            yield "answering", self.answering


def as_yaml(content: JSON) -> str:
    """The content of a version as a file, in the order in which a person would write it."""
    try:
        return plain_yaml.write(PlanDefinition.read(content).as_json)
    except ValidationError:  # of a time when other things could be said
        return plain_yaml.write(content)


def schema(address: str = "") -> JSON:
    """The JSON Schema of definitions, for editors and for who writes plans; `address` is where it is published."""
    made = PlanDefinition.model_json_schema(by_alias=True)
    known = {"$id": address} if address else {}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **known, **made, "title": "Plan"}


def check_size(text: str) -> None:
    """Raises ValidationError for a definition that is too large, as YAML or as JSON."""
    try:
        is_large = len(text.encode()) > MOST_BYTES
    except UnicodeEncodeError:
        raise ValidationError({"file": "It is no text in Unicode."}) from None
    if is_large:
        raise ValidationError({"file": f"It is larger than {MOST_BYTES:,} bytes."})


def _check_json(content: JSON) -> None:
    """Raises ValidationError for what no database keeps, or that cannot be told apart by its digest."""
    try:
        text = rfc8785.dumps(content).decode()
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ValidationError({"file": f"It is no JSON: {reason}."}) from None
    if "\\u0000" in text.replace("\\\\", ""):
        raise ValidationError({"file": "Write text without control characters."})


SAID = {
    "missing": "This is needed.",
    "extra_forbidden": "There is no such field here.",
    "string_too_short": "This cannot be empty.",
    "dict_type": "Write a mapping.",
    "model_type": "Write a mapping.",
    "list_type": "Write a list.",
}


def _sentences(error: pydantic.ValidationError) -> dict[str, list[str]]:
    """By path: what is wrong."""
    found: dict[str, list[str]] = {}
    for problem in error.errors(include_url=False, include_input=False):
        path, cause = list(problem["loc"]), problem.get("ctx", {}).get("error")
        said = SAID.get(problem["type"]) or f"{problem['msg'].removeprefix('Value error, ').rstrip('.')}."
        if path and path[-1] == "[key]":
            path.pop()
            said = "Name it by small letters, digits and `_`, beginning with a letter; 63 characters at most."
        if isinstance(cause, BadSchema):
            path += cause.path
        found.setdefault(".".join(map(str, path)) or "file", []).append(said)
    return found
