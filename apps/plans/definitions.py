"""Plan definitions: the Pydantic models, their JSON Schemas, and their YAML form.

A definition is the content of a plan agent's version. `graphs` checks how its steps fit together, `registry` whether
its agents exist. Docstrings of classes and fields are published as descriptions in the JSON Schema.
"""

from __future__ import annotations

import json
import mimetypes
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pydantic
import rfc8785
import yaml
from django.core.exceptions import ValidationError
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, best_match
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from apps.agents.definitions import Line, Name, SkillDefinition, StrictModel, Text, clean_text
from apps.agents.models import Agent
from apps.engine.turns.output import clean
from apps.record.content import json_schema
from apps.record.events import JSON


class BadSchema(ValueError):
    """A JSON Schema is invalid; `path` leads to the problem."""

    def __init__(self, sentence: str, path: Sequence[Any] = ()) -> None:
        super().__init__(sentence)
        self.path = path


def check_schema(schema: JSON) -> JSON:
    """Raises BadSchema if the schema is invalid or uses an unsupported feature."""
    try:
        wrong = best_match(Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema))
    except (SchemaError, RecursionError, TypeError) as error:
        raise BadSchema(f"This is not a valid JSON Schema: {error}") from None
    if wrong is not None:
        raise BadSchema(
            f"This is not a valid JSON Schema: {wrong.message[: json_schema.MAX_REASON_LENGTH]}",
            list(wrong.absolute_path),
        )
    if unbounded := sorted(set(json_schema.UNBOUNDED_KEYWORDS) & set(json_schema.keywords(schema))):
        raise BadSchema(f"`{unbounded[0]}` is not checked here. Leave it out.")
    references = (one["$ref"] for one in json_schema.objects(schema) if isinstance(one.get("$ref"), str))
    if (far := next((one for one in references if not one.startswith("#")), None)) is not None:
        raise BadSchema(f"`{far}` is not fetched. Refer to what stands in the schema itself (`#/$defs/…`).")
    return schema


def check_object_schema(schema: JSON) -> JSON:
    """The schema of an object, or {}. Raises BadSchema, also for an invalid default."""
    check_schema(schema)
    if schema and schema.get("type") != "object":
        raise BadSchema("Write `type: object`, and what there is as `properties`.", ["type"])
    for name, field in properties_of(schema).items():
        if isinstance(field, dict) and "default" in field:
            for _, sentence in json_schema.violations({**field, "$defs": schema.get("$defs", {})}, field["default"]):
                raise BadSchema(f"The default cannot be: {sentence}", ["properties", name, "default"])
    return schema


Schema = Annotated[JSON, AfterValidator(check_schema)]
ObjectSchema = Annotated[JSON, AfterValidator(check_object_schema)]


def properties_of(schema: Mapping[str, Any]) -> JSON:
    found = schema.get("properties", {})
    return found if isinstance(found, dict) else {}


def with_defaults(schema: Mapping[str, Any], given: JSON) -> JSON:
    """The object with defaults filled in, at every level."""
    made = dict(given)
    for name, field in properties_of(schema).items():
        if not isinstance(field, dict):
            continue
        if name not in made and "default" in field:
            made[name] = field["default"]
        if isinstance(made.get(name), dict):
            made[name] = with_defaults(field, made[name])
    return made


MOST_BYTES = 500_000  # of a definition as a file
MOST_STEPS = 2_000  # that a run may have, including those of fan-outs and repetitions
LONGEST_TEMPLATE = 50_000  # characters
LARGEST_SAMPLE = 100_000  # characters
INPUT_MODES = ("text/plain", "application/json", "*/*")
OUTPUT_MODES = ("text/plain", "application/json", "*/*")

Key = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
"""How steps are named: templates speak of them by it."""
TEMPLATE, EXPRESSION = "jinja-template", "jinja-expression"  # formats in the JSON Schema

Expression = Annotated[
    str, Field(min_length=1, max_length=2_000, json_schema_extra={"format": EXPRESSION}), BeforeValidator(clean_text)
]
"""A Jinja expression, such as `steps.review.data.count > 3` (see `templates`)."""
Template = Annotated[
    str,
    Field(min_length=1, max_length=LONGEST_TEMPLATE, json_schema_extra={"format": TEMPLATE}),
    BeforeValidator(clean_text),
]
OptionalTemplate = Annotated[
    str, Field(max_length=LONGEST_TEMPLATE, json_schema_extra={"format": TEMPLATE}), BeforeValidator(clean_text)
]
OptionalLine = Annotated[str, Field(max_length=200), BeforeValidator(clean_text)]
Seconds = Annotated[float, Field(gt=0, le=30 * 24 * 3600)]


class _Part(StrictModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


class Check(_Part):
    """What a step must deliver."""

    artifact: OptionalLine = Field("", title="File that must be there")
    """The name of an artifact that must be there; without one the first is looked at."""
    media_type: Annotated[str, Field(pattern=r"^$|^[\w.+-]+/[\w.+*-]+$|^\*/\*$")] = Field("", title="Its media type")
    """The media type of the artifact or a part of it, such as `text/csv` or `image/*`."""
    json_schema: Schema | None = Field(None, alias="schema", title="Schema of its data")
    """A JSON Schema for the artifact's JSON."""
    columns: list[Line] = Field([], title="Its columns")
    """Columns that a CSV file must have, in any order."""


class Sample(_Part):
    """A file that a person may look at, and may answer with."""

    filename: Annotated[str, Field(pattern=r"^\w[\w .()+-]{0,99}$")]
    """Its name, with an ending that says what it is, such as `wells.csv`."""
    text: Annotated[str, Field(max_length=LARGEST_SAMPLE)] = ""
    """Its content. `register_plan` reads what is left out from the file of this name."""

    @property
    def part(self) -> JSON:
        media_type = mimetypes.guess_type(self.filename)[0] or "text/plain"
        return {"filename": self.filename, "mediaType": media_type, "text": self.text}


class Person(_Part):
    """A step that a person does."""

    ask: Template = Field(title="What to ask")
    """What the person is asked; a template."""
    json_schema: Schema | None = Field(None, alias="schema", title="Schema of the answer")
    """A JSON Schema of the answer: the person gets a form made from it."""
    upload: bool = Field(False, title="Ask for a file")
    """Is a file wanted? `output` says what it must be."""
    samples: list[Sample] = Field([], max_length=10, title="Sample files")
    """Files that the person may upload instead of one of their own, to try the plan."""

    @model_validator(mode="after")
    def _samples_of_uploads(self) -> Self:
        if self.samples and not self.upload:
            raise ValueError("Samples are for uploads: write `upload: true`, or leave them out.")
        return self


class Repeat(_Part):
    """Repeats a step until a condition holds; `last` is its last result."""

    until: Expression = Field(title="Repeat until")
    """A condition, such as `last.data.score >= 0.9`."""
    max: int = Field(5, ge=1, le=50, title="Most rounds")
    """After so many rounds the last result is taken as it is."""


class Fallback(_Part):
    """Another agent that takes over a failed step."""

    agent: Line
    """Its slug."""


def _read_on_failure(given: Any, read: ValidatorFunctionWrapHandler) -> Any:
    try:
        return read(given)
    except pydantic.ValidationError:  # the errors of a union are hard to read
        raise ValueError("Write `fail`, `skip`, `ask` or `{agent: SLUG}`.") from None


class StepDefinition(_Part):
    """One step, done by exactly one of `agent`, `find` and `person`."""

    title: Annotated[str, Field(max_length=120), BeforeValidator(clean_text)] = ""
    """How people see the step; without one they see its key."""
    agent: OptionalLine = ""
    """The slug of the agent that does it."""
    find: OptionalLine = Field("", title="What is to be done")
    """What is to be done: the agent that ranks best for it does the step."""
    person: Person | None = None
    """A person does it."""
    skill: OptionalLine = ""
    """The id of the agent's skill that is meant."""
    message: OptionalTemplate = ""
    """The message to the agent: a template over `inputs` and `steps`, `item` and `index`, and `last`."""
    attach: list[Expression] = Field([], max_length=100, title="Files to send along")
    """Expressions that give artifacts, or lists of them, which go along with the message."""
    depends_on: list[Key] = Field([], max_length=MOST_STEPS, title="Runs after")
    """Steps that it waits for. Steps that its templates and expressions use need not be named."""
    when: Expression | None = Field(None, title="Only if")
    """A condition: the step is skipped if it does not hold."""
    for_each: Expression | None = Field(None, title="For each item of")
    """An expression that gives a list: the step is done for each `item` of it, at the same time."""
    repeat: Repeat | None = None
    """The step is done again until its result is good."""
    retries: int = Field(0, ge=0, le=10)
    """How often it is tried again after it failed."""
    time_limit: Seconds | None = None
    """How many seconds a try may take; waiting for people is not counted."""
    on_failure: Annotated[Literal["fail", "skip", "ask"] | Fallback, WrapValidator(_read_on_failure)] = Field(
        "fail", title="If it fails"
    )
    """What happens when it failed: `fail` ends the plan, `skip` goes on without it, `ask` asks a person, and
    `{agent: SLUG}` lets another agent do it."""
    output: Check | None = None
    """What it has to deliver."""
    approve: Literal["", "before", "after"] = Field("", title="Approval")
    """A person approves the step before it begins, or approves what it delivered."""

    @model_validator(mode="after")
    def _by_one(self) -> Self:
        if sum(map(bool, (self.agent, self.find, self.person))) != 1:
            raise ValueError("Set exactly one of `agent`, `find` and `person`.")
        if self.person is None and not self.message:
            raise ValueError("Write the `message` to the agent.")
        return self


def _map_schemas(step: JSON, change: Callable[[Any], Any]) -> JSON:
    parts = {
        name: part for name in ("person", "output") if isinstance(part := step.get(name), dict) and "schema" in part
    }
    return {**step, **{name: {**part, "schema": change(part["schema"])} for name, part in parts.items()}}


def _schema_from_text(given: Any) -> Any:
    """Parses a schema from a version, where it is text because jsonb does not keep key order."""
    try:
        return json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        return given


def _parse_schemas(content: JSON) -> JSON:
    kept = {"inputs": _schema_from_text(content["inputs"])} if "inputs" in content else {}
    steps = content.get("steps")
    if isinstance(steps, list):
        kept["steps"] = [_map_schemas(one, _schema_from_text) if isinstance(one, dict) else one for one in steps]
    return {**content, **kept}


def _steps_by_key(given: Any) -> Any:
    """A version has a list of steps, because jsonb does not keep key order; this gives a mapping."""
    if not isinstance(given, list) or not all(
        isinstance(one, dict) and isinstance(one.get("key"), str) for one in given
    ):
        return given
    steps = {one["key"]: {name: value for name, value in one.items() if name != "key"} for one in given}
    if len(steps) < len(given):
        raise ValueError("Two steps have the same key.")
    return steps


class PlanDefinition(_Part):
    """A plan: a graph of steps."""

    name: Name
    """How people see the plan."""
    description: Text
    """What it does; people and agents find it by that."""
    inputs: ObjectSchema = {}
    """A JSON Schema of type object: the inputs that a run starts with. A message's text is `inputs.text` and its
    files are `inputs.files`, without being stated."""
    limit: int = Field(10, ge=1, le=500)
    """How many steps may run at the same time."""
    agent_limits: dict[Line, Annotated[int, Field(ge=1, le=500)]] = {}
    """How many steps of single agents, by their slugs, may run at the same time."""
    answering: OptionalLine = ""
    """The slug of the agent that answers the questions of steps; without one, the plan's owner answers."""
    skills: list[SkillDefinition] = Field([], max_length=100)
    """The skills on the plan's card; by default one skill with the plan's name and description."""
    steps: Annotated[dict[Key, StepDefinition], BeforeValidator(_steps_by_key)] = Field(
        min_length=1, max_length=MOST_STEPS
    )
    """The steps by their keys."""
    outputs: list[Key] = Field([], max_length=MOST_STEPS)
    """The steps whose artifacts the plan delivers; by default those that no other step waits for."""

    @classmethod
    def read(cls, content: Any) -> Self:
        """From JSON. Raises ValidationError by path, such as `steps.review.agent`."""
        if not isinstance(content, dict):
            raise ValidationError({"file": "Write a mapping with name, description and steps."})
        content = {name: value for name, value in content.items() if (name, value) != ("kind", Agent.Kind.PLAN)}
        content = _parse_schemas(content)
        try:
            _check_json(content)
            return cls.model_validate(content)
        except pydantic.ValidationError as error:
            raise ValidationError(_error_sentences(error)) from None

    @classmethod
    def from_yaml(cls, text: str) -> Self:
        """From YAML or JSON text. Raises ValidationError."""
        check_size(text)
        try:
            return cls.read(read_yaml(text))
        except InvalidYaml as error:
            raise ValidationError({"file": str(error)}) from None

    def with_samples(self, folder: Path) -> Self:
        """A definition with the content of samples that only have a name. Raises ValidationError by path."""
        content = self.as_json
        for key, step in content["steps"].items():
            for number, sample in enumerate(step.get("person", {}).get("samples", [])):
                if "text" not in sample:
                    try:
                        sample["text"] = (folder / sample["filename"]).read_text(encoding="utf-8")
                    except (OSError, UnicodeDecodeError):
                        path = f"steps.{key}.person.samples.{number}.filename"
                        raise ValidationError({path: f"{folder} has no text file {sample['filename']}."}) from None
        check_size(write_yaml(content))
        return self.read(content)

    def title_of(self, key: str) -> str:
        return self.steps[key].title or key.replace("_", " ")

    @property
    def as_json(self) -> JSON:
        """In the order of the schema, without defaults."""
        return self.model_dump(by_alias=True, exclude_defaults=True)

    @property
    def content(self) -> JSON:
        written = self.as_json
        steps = [{"key": key, **_map_schemas(step, json.dumps)} for key, step in written["steps"].items()]
        inputs = {"inputs": json.dumps(written["inputs"])} if "inputs" in written else {}
        return {"kind": Agent.Kind.PLAN.value, **written, **inputs, "steps": steps}

    @property
    def agent_fields(self) -> JSON:
        """The fields of Agent that the definition sets."""
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

    def named_agents(self) -> Iterator[tuple[str, str]]:
        """The agents that it names: (path, slug)."""
        for key, step in self.steps.items():
            if step.agent:
                yield f"steps.{key}.agent", step.agent
            if isinstance(step.on_failure, Fallback):
                yield f"steps.{key}.on_failure.agent", step.on_failure.agent
        if self.answering:
            yield "answering", self.answering


def as_yaml(content: JSON) -> str:
    with suppress(ValidationError):  # a version in an older format is written unchanged
        content = PlanDefinition.read(content).as_json
    return write_yaml(content)


def plan_schema(address: str = "") -> JSON:
    """The JSON Schema of definitions; `address` is where it is published."""
    made = PlanDefinition.model_json_schema(by_alias=True)
    known = {"$id": address} if address else {}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **known, **made, "title": "Plan"}


def check_size(text: str) -> None:
    try:
        is_large = len(text.encode()) > MOST_BYTES
    except UnicodeEncodeError:
        raise ValidationError({"file": "This is not Unicode text."}) from None
    if is_large:
        raise ValidationError({"file": f"It is larger than {MOST_BYTES:,} bytes."})


def _check_json(content: JSON) -> None:
    """Raises ValidationError for JSON that cannot be stored or canonicalized."""
    try:
        text = rfc8785.dumps(content).decode()
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ValidationError({"file": f"This is not valid JSON: {reason}."}) from None
    if "\\u0000" in text.replace("\\\\", ""):
        raise ValidationError({"file": "Write text without control characters."})


ERROR_SENTENCES = {
    "missing": "This is required.",
    "extra_forbidden": "This field does not exist.",
    "string_too_short": "This cannot be empty.",
    "dict_type": "Write a mapping.",
    "model_type": "Write a mapping.",
    "list_type": "Write a list.",
}


def _error_sentences(error: pydantic.ValidationError) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for problem in error.errors(include_url=False, include_input=False):
        path, cause = list(problem["loc"]), problem.get("ctx", {}).get("error")
        said = ERROR_SENTENCES.get(problem["type"]) or f"{problem['msg'].removeprefix('Value error, ').rstrip('.')}."
        if path and path[-1] == "[key]":
            path.pop()
            said = "Use lowercase letters, digits and `_`, starting with a letter, at most 63 characters."
        if isinstance(cause, BadSchema):
            path += cause.path
        found.setdefault(".".join(map(str, path)) or "file", []).append(said)
    return found


OWN_INPUTS = ("text", "files")  # inputs of every plan, from its message

YAML_TAG = "tag:yaml.org,2002:"
YAML_PLAIN_SCALARS = {
    "null": ("~nN\0", r"~|null|Null|NULL|"),
    "bool": ("tTfF", r"true|True|TRUE|false|False|FALSE"),
    "int": ("-+0123456789", r"[-+]?(0|[1-9][0-9]*)"),
    "float": ("-+.0123456789", r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?"),
}
"""The first characters and the pattern of unquoted values that are not text."""
ODD_LINE_BREAKS = frozenset("\r\x85\u2028\u2029")  # a block scalar would change them


class InvalidYaml(ValueError):
    """A text is not YAML; `line` counts from 1, 0 means unknown."""

    def __init__(self, reason: str, line: int = 0) -> None:
        where = f" (line {line})" if line else ""
        super().__init__(f"This is not valid YAML{where}: {reason.strip().rstrip('.')}.")
        self.line = line


class _YamlRefused(yaml.MarkedYAMLError):
    pass


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}
    yaml_constructors = {}

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        if self.check_event(yaml.AliasEvent):
            at = self.get_event().start_mark  # type: ignore[no-untyped-call]
            raise _YamlRefused(problem="write it out, aliases (`*name`) are not read", problem_mark=at)
        return super().compose_node(parent, index)


class _Dumper(yaml.SafeDumper):
    """Writes multi-line texts as blocks, and no aliases."""

    yaml_implicit_resolvers = {}

    def ignore_aliases(self, data: Any) -> bool:
        return True


def read_yaml(text: str) -> Any:
    """The JSON value of a YAML text. Raises InvalidYaml."""
    try:
        return clean(yaml.load(text, _Loader))  # noqa: S506 - it makes nothing but JSON
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise InvalidYaml(error.problem or "it cannot be read", mark.line + 1 if mark else 0) from None
    except RecursionError:
        raise InvalidYaml("it is nested too deeply") from None
    except yaml.YAMLError as error:  # a character that YAML does not have
        line = text.count("\n", 0, at) + 1 if isinstance(at := getattr(error, "position", None), int) else 0
        raise InvalidYaml(getattr(error, "reason", "") or str(error), line) from None
    except (LookupError, AttributeError, ValueError):  # of values such as `!!bool maybe` and `!!float .inf`
        raise InvalidYaml("a value is not of its tag, or a number is too long") from None


def yaml_node(text: str) -> Node | None:
    """The text as nodes with their places; None if it cannot be read."""
    try:
        found: Node | None = yaml.compose(text, _Loader)
    except (yaml.YAMLError, RecursionError):
        return None
    return found


def line_of(text: str, path: str) -> int:
    """The line, from 1, on which a problem's path such as `steps.review.agent` stands; 0 if the text cannot be read.

    For what is missing, it is the line of the nearest part around it.
    """
    node = yaml_node(text)
    line = node.start_mark.line + 1 if node else 0
    for name in path.split("."):
        if isinstance(node, MappingNode):
            key, node = next(((key, value) for key, value in node.value if key.value == name), (None, None))
            line = key.start_mark.line + 1 if key else line
        elif isinstance(node, SequenceNode) and name.isdigit() and int(name) < len(node.value):
            node = node.value[int(name)]
            line = node.start_mark.line + 1
        if node is None:
            break
    return line


def write_yaml(content: Any) -> str:
    written: str = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return written


def _construct_mapping(loader: _Loader, node: Node) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if not isinstance(node, MappingNode):
        raise _YamlRefused(problem="a mapping is expected here", problem_mark=node.start_mark)
    for key, value in node.value:
        if not isinstance(key, ScalarNode) or key.tag not in (f"{YAML_TAG}str", f"{YAML_TAG}int"):
            raise _YamlRefused(problem="names are texts", problem_mark=key.start_mark)
        if key.value in made:
            raise _YamlRefused(problem=f"`{key.value}` is there twice", problem_mark=key.start_mark)
        made[key.value] = loader.construct_object(value, deep=True)
    return made


def _refuse_tag(loader: _Loader, node: Node) -> Any:
    raise _YamlRefused(
        problem=f"there are no tags such as `{node.tag.replace(YAML_TAG, '!!')}` here", problem_mark=node.start_mark
    )


def _represent_text(dumper: _Dumper, text: str) -> ScalarNode:
    is_odd = not ODD_LINE_BREAKS.isdisjoint(text)
    return dumper.represent_scalar(f"{YAML_TAG}str", text, style='"' if is_odd else "|" if "\n" in text else None)


for _name in ("null", "bool", "int", "float", "str", "seq"):
    _Loader.add_constructor(f"{YAML_TAG}{_name}", yaml.SafeLoader.yaml_constructors[f"{YAML_TAG}{_name}"])


for _name, (_letters, _pattern) in YAML_PLAIN_SCALARS.items():
    for _cls in (_Loader, _Dumper):
        _first = ["" if letter == "\0" else letter for letter in _letters]
        _cls.add_implicit_resolver(f"{YAML_TAG}{_name}", re.compile(rf"^(?:{_pattern})$"), _first)


_Loader.add_constructor(f"{YAML_TAG}map", _construct_mapping)
_Loader.add_constructor(None, _refuse_tag)
_Dumper.add_representer(str, _represent_text)
