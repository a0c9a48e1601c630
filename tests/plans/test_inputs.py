"""Inputs of a plan: defaults are filled in, bad ones asked for."""

from apps.plans.runs import complete_inputs, schema_of_missing
from tests.plans.plans import plan

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


def test_what_is_missing_or_cannot_be_is_told_and_asked_for():
    given = {"dose": -1}
    assert complete_inputs(ASSAY, given)[1] == ["`target` is required.", "`dose`: -1 is less than the minimum of 0."]
    asked = schema_of_missing(ASSAY, given)
    assert asked["required"] == ["target", "dose"]
    assert asked["properties"] == {name: SCHEMA["properties"][name] for name in ("target", "dose")}
    assert complete_inputs(ASSAY, {"target": "EGFR", "cell": {"line": 3}})[1] == [
        "`cell.line`: 3 is not of type 'string'."
    ]


def test_what_is_wrong_as_a_whole_is_asked_for_as_a_whole():
    strict = plan(inputs={**SCHEMA, "additionalProperties": False})
    assert "Additional properties are not allowed" in complete_inputs(strict, {"target": "EGFR", "oops": 1})[1][0]
    assert schema_of_missing(strict, {"target": "EGFR", "oops": 1}) == strict.inputs


def test_text_and_files_are_there_without_being_stated():
    strict = plan(inputs={**SCHEMA, "additionalProperties": False})
    given = {"target": "EGFR", "text": "Go.", "files": [{"name": "a.csv"}]}
    assert complete_inputs(strict, given)[1] == []
    assert complete_inputs(plan(), {}) == ({"text": "", "files": []}, [])


def test_text_and_files_may_be_needed():
    needed = plan(
        inputs={"type": "object", "properties": {"files": {"type": "array"}, "text": {}}, "required": ["files"]}
    )
    assert complete_inputs(needed, {"files": [], "text": "x"})[1] == ["`files` is required."]
    assert list(schema_of_missing(needed, {"files": []})["properties"]) == ["files"]
    assert complete_inputs(needed, {"files": [{}]})[1] == []


def test_what_a_value_says_does_not_make_it_right():
    numbers = plan(inputs={"type": "object", "properties": {"count": {"type": "integer"}}})
    for length in range(200, 300, 9):
        (sentence,) = complete_inputs(numbers, {"count": "x" * length + " is a required property" + "x" * 100})[1]
        assert sentence.startswith("`count`:") or sentence == "`count` is required."


def test_what_is_needed_under_a_condition_is_told():
    either = plan(inputs={"type": "object", "allOf": [{"required": ["target"]}]})
    assert complete_inputs(either, {})[1] == ["`target` is required."]
