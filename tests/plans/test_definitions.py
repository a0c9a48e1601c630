"""What a plan may contain; refusals name the path."""

import json

import pytest
from django.core.exceptions import ValidationError
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from apps.plans import definitions
from apps.plans.definitions import MOST_BYTES, Fallback, PlanDefinition, as_yaml, plan_schema
from apps.plans.running.runs import complete_inputs, schema_of_missing
from tests.plans.plans import plan, told

FULL = """
name: Screening
description: |-
  Screens molecules.
  People measure.
inputs:
  type: object
  properties:
    target: {type: string}
    doses: {type: array, items: {type: number}, default: [1, 5]}
  required: [target]
limit: 4
agent_limits: {echo: 2}
answering: clerk
skills:
- {name: Screen, description: Screens molecules.}
steps:
  review:
    agent: echo
    skill: talk
    message: Review {{ inputs.target }}.
    output:
      artifact: review
      media_type: application/json
      schema: {type: object, required: [hits]}
    retries: 2
    time_limit: 60
    on_failure: {agent: clerk}
    approve: after
  test_each:
    title: Test each hit
    find: whoever tests molecules
    message: Test {{ item }} ({{ index }}).
    for_each: steps.review.data.hits
    on_failure: skip
  upload:
    depends_on: [test_each]
    person:
      ask: Please measure.
      upload: true
      schema: {type: object, properties: {remark: {type: string}}}
    output: {media_type: text/csv, columns: [molecule, effect]}
  improve:
    agent: echo
    message: Better than {% if last %}{{ last.text }}{% endif %}?
    attach: [steps.upload.artifacts]
    when: steps.review.data.hits|length > 1
    repeat: {until: last.data.score > 0.9, max: 3}
    on_failure: ask
outputs: [improve]
"""


def problems(text: str) -> dict[str, str]:
    with pytest.raises(ValidationError) as caught:
        PlanDefinition.from_yaml(text)
    return told(caught.value)


def refused(steps=None, **fields) -> dict[str, str]:
    with pytest.raises(ValidationError) as caught:
        plan(steps, **fields)
    return told(caught.value)


def test_a_plan_may_say_everything():
    read = PlanDefinition.from_yaml(FULL)
    assert list(read.steps) == ["review", "test_each", "upload", "improve"]
    assert read.steps["review"].on_failure == Fallback(agent="clerk")
    assert read.steps["upload"].output.columns == ["molecule", "effect"]
    assert list(read.named_agents()) == [
        ("steps.review.agent", "echo"),
        ("steps.review.on_failure.agent", "clerk"),
        ("steps.improve.agent", "echo"),
        ("answering", "clerk"),
    ]
    stated = read.agent_fields
    assert (stated["kind"], stated["handler"], stated["name"]) == ("plan", "", "Screening")
    assert [skill["id"] for skill in stated["skills"]] == ["screen"]
    assert {"application/json", "*/*"} <= set(stated["input_modes"])
    [general] = plan().agent_fields["skills"]
    assert general == {"id": "look", "name": "Look", "description": "Looks at things.", "tags": ["plan"]}


def test_a_version_keeps_the_order():
    read = PlanDefinition.from_yaml(FULL)
    again = PlanDefinition.read(json.loads(json.dumps(read.content, sort_keys=True)))
    assert again == read
    assert list(again.steps) == list(read.steps)
    form = {"type": "object", "properties": {"zinc": {"type": "string"}, "age": {"type": "object", "properties": {}}}}
    form["properties"]["age"]["properties"] = {"years": {"type": "integer"}, "days": {"type": "integer"}}
    read = plan({"look": {}, "ask": {"agent": "", "message": "", "person": {"ask": "?", "schema": form}}}, inputs=form)
    again = PlanDefinition.read(json.loads(json.dumps(read.content, sort_keys=True)))
    for kept in (again.inputs, again.steps["ask"].person.json_schema):
        assert list(kept["properties"]) == ["zinc", "age"]
        assert list(kept["properties"]["age"]["properties"]) == ["years", "days"]
    assert again.as_json == read.as_json
    with pytest.raises(ValidationError):
        plan(inputs="{")  # a schema that is text, as in a version, and no JSON


def test_a_written_file_is_read_the_same():
    read = PlanDefinition.from_yaml(FULL)
    written = as_yaml(read.content)
    assert PlanDefinition.from_yaml(written) == read
    assert "description: |-\n  Screens molecules.\n  People measure.\n" in written
    assert written.index("  review:\n    agent: echo\n") < written.index("  test_each:\n    title: Test each hit\n")
    assert PlanDefinition.from_yaml(json.dumps(read.as_json)) == read
    # An unreadable definition can still be written.
    assert as_yaml({"kind": "plan", "steps": []}) == "kind: plan\nsteps: []\n"


@pytest.mark.parametrize(
    ("step", "path", "sentence"),
    [
        ({"agent": ""}, "steps.a", "Set exactly one of `agent`, `find` and `person`."),
        ({"message": ""}, "steps.a", "Write the `message` to the agent."),
        ({"mesage": "x"}, "steps.a.mesage", "This field does not exist."),
        ({"person": {}}, "steps.a.person.ask", "This is required."),
        ({"depends_on": ["B"]}, "steps.a.depends_on.0", "should match pattern"),
        ({"depends_on": ["a"] * 2_001}, "steps.a.depends_on", ""),
        ({"message": "x" * 50_001}, "steps.a.message", "at most 50000 characters"),
        ({"message": "a\0b"}, "file", "without control characters"),
        ({"repeat": {"max": 3}}, "steps.a.repeat.until", "This is required."),
        ({"repeat": {"until": "last", "max": 51}}, "steps.a.repeat.max", "less than or equal to 50"),
        ({"time_limit": 0}, "steps.a.time_limit", "greater than 0"),
        ({"on_failure": "stop"}, "steps.a.on_failure", "Write `fail`, `skip`, `ask` or `{agent: SLUG}`."),
        ({"approve": "always"}, "steps.a.approve", "'before'"),
        ({"output": {"media_type": "csv"}}, "steps.a.output.media_type", "should match pattern"),
        ({"output": {"schema": {"required": "a"}}}, "steps.a.output.schema.required", "not a valid JSON Schema"),
        ({"output": {"schema": {"uniqueItems": True}}}, "steps.a.output.schema", "`uniqueItems` is not checked here."),
        ({"output": {"schema": {"$ref": "http://x.org/s"}}}, "steps.a.output.schema", "is not fetched"),
    ],
)
def test_an_impossible_step_is_refused_by_its_path(step, path, sentence):
    found = refused({"a": step})
    assert (list(found), sentence in found[path]) == ([path], True)


@pytest.mark.parametrize(
    ("fields", "path", "sentence"),
    [
        ({"name": ""}, "name", "This cannot be empty."),
        ({"limit": 0}, "limit", "greater than or equal to 1"),
        ({"inputs": {"properties": {}}}, "inputs.type", "Write `type: object`"),
        ({"inputs": {"type": "object", "properties": []}}, "inputs.properties", "This is not a valid JSON Schema"),
        (
            {"inputs": {"type": "object", "properties": {"n": {"type": "integer", "default": "x"}}}},
            "inputs.properties.n.default",
            "The default cannot be: 'x' is not of type 'integer'.",
        ),
        ({"inputs": {"type": "object", "maxProperties": 2**60}}, "file", "This is not valid JSON"),
        ({"colour": "red"}, "colour", "This field does not exist."),
        ({"outputs": ["look"] * 2_001}, "outputs", "at most 2000 items"),
        ({"skills": [{"name": "A"}]}, "skills.0.description", "This is required."),
        ({"steps": {f"s{number}": {} for number in range(2_001)}}, "steps", ""),
        *(({"steps": {key: {}}}, f"steps.{key}", "lowercase letters") for key in ("A", "a-b", "1a", "", "a" * 64)),
    ],
)
def test_an_impossible_plan_is_refused_by_its_path(fields, path, sentence):
    found = refused(**fields)
    assert (list(found), sentence in found[path]) == ([path], True)


def test_steps_may_be_a_list_with_keys():
    listed = "name: N\ndescription: D\nsteps: [{key: a, agent: b, message: c}, {key: %s, agent: b, message: c}]"
    assert list(PlanDefinition.from_yaml(listed % "d").steps) == ["a", "d"]
    assert problems(listed % "a") == {"steps": "Two steps have the same key."}
    assert problems(listed % "[a]") == {"steps": "Write a mapping."}
    assert problems("name: N\ndescription: D") == {"steps": "This is required."}
    assert "steps" in problems("name: N\ndescription: D\nsteps: {}")
    assert problems("name: N\ndescription: D\nsteps: {a: echo}") == {"steps.a": "Write a mapping."}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[1, 2]", "Write a mapping with name, description and steps."),
        ("name: N\ndescription: a: b", "This is not valid YAML (line 2): mapping values are not allowed here."),
        ("name: N\nname: M", "This is not valid YAML (line 2): `name` is there twice."),
        ('{"name": "N", "steps": {"a": {}, "a": {}}}', "`a` is there twice."),
        ("a: &a [1]\nb: *a", "This is not valid YAML (line 2): write it out, aliases (`*name`) are not read."),
        ("!!python/object/apply:os.system ['true']", "there are no tags such as `!!python/object/apply:os.system`"),
        ("name: !!timestamp now", "there are no tags such as `!!timestamp`"),
        ("name: !!int x", "a value is not of its tag"),
        ("limit: " + "9" * 5000, "a number is too long."),
        ("name: N\nsteps: !!map [1]", "This is not valid YAML (line 2): a mapping is expected here."),
        ("? [a]\n: b", "names are texts"),
        ("[" * 5000, "nested too deeply"),
        ("name: x\x00", "special characters are not allowed"),
        ("name: \ud800", "This is not Unicode text."),
        ("name: x" + " " * MOST_BYTES, "It is larger than 500,000 bytes."),
    ],
    ids=lambda value: value[:20].strip(),
)
def test_a_wrong_file_is_refused_with_its_line(text, sentence):
    assert sentence in problems(text)["file"]


def test_yaml_is_read_as_people_mean_it():
    text = "no: no\ntime: 12:30\nday: 2026-01-01\nzip: 010\nyes: true\nnothing: ~\nfew: 1e-3\n"
    said = {"no": "no", "time": "12:30", "day": "2026-01-01", "zip": "010", "yes": True, "nothing": None, "few": 0.001}
    assert definitions.read_yaml(text) == said


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_any_yaml_written_is_read_the_same(content):
    assert definitions.read_yaml(definitions.write_yaml(content)) == content


def test_the_published_schema_takes_what_is_taken():
    published = plan_schema()
    Draft202012Validator.check_schema(published)
    validator = Draft202012Validator(published)
    assert not list(validator.iter_errors(definitions.read_yaml(FULL)))
    assert list(validator.iter_errors({"name": "N", "description": "D", "steps": {"a": {"mesage": "x"}}}))


# Inputs of a plan: defaults are filled in, bad ones asked for

SCHEMA = {
    "type": "object",
    "properties": {
        "target": {"type": "string"},
        "dose": {"type": "number", "default": 5, "minimum": 0},
        "cell": {"type": "object", "properties": {"line": {"type": "string", "default": "HeLa"}}},
    },
    "required": ["target"],
}
ASSAY = plan(inputs=SCHEMA)


def test_inputs_have_their_defaults():
    inputs, problems = complete_inputs(ASSAY, {"target": "EGFR", "cell": {}, "text": "Go."})
    assert inputs == {"target": "EGFR", "dose": 5, "cell": {"line": "HeLa"}, "text": "Go.", "files": []}
    assert problems == []
    assert schema_of_missing(ASSAY, {"target": "EGFR"}) == {}
    given = {"target": "EGFR", "cell": {}}
    complete_inputs(ASSAY, given)
    assert given == {"target": "EGFR", "cell": {}}, "what is given is not changed"


def test_missing_and_wrong_inputs_are_asked_for():
    given = {"dose": -1}
    assert complete_inputs(ASSAY, given)[1] == ["`target` is required.", "`dose`: -1 is less than the minimum of 0."]
    asked = schema_of_missing(ASSAY, given)
    assert asked["required"] == ["target", "dose"]
    assert asked["properties"] == {name: SCHEMA["properties"][name] for name in ("target", "dose")}
    assert complete_inputs(ASSAY, {"target": "EGFR", "cell": {"line": 3}})[1] == [
        "`cell.line`: 3 is not of type 'string'."
    ]
