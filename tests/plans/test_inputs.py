"""What a plan is started with: defaults are filled in, and what is missing or cannot be is told and asked for."""

from apps.plans.inputs import asked_for, inputs_of
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
    inputs, problems = inputs_of(ASSAY, {"target": "EGFR", "cell": {}, "text": "Go."})
    assert inputs == {"target": "EGFR", "dose": 5, "cell": {"line": "HeLa"}, "text": "Go.", "files": []}
    assert problems == []
    assert asked_for(ASSAY, {"target": "EGFR"}) == {}
    given = {"target": "EGFR", "cell": {}}
    inputs_of(ASSAY, given)
    assert given == {"target": "EGFR", "cell": {}}, "what is given is not changed"


def test_what_is_missing_or_cannot_be_is_told_and_asked_for():
    given = {"dose": -1}
    assert inputs_of(ASSAY, given)[1] == ["`target` is needed.", "`dose`: -1 is less than the minimum of 0."]
    asked = asked_for(ASSAY, given)
    assert asked["required"] == ["target", "dose"]
    assert asked["properties"] == {name: SCHEMA["properties"][name] for name in ("target", "dose")}
    assert inputs_of(ASSAY, {"target": "EGFR", "cell": {"line": 3}})[1] == ["`cell.line`: 3 is not of type 'string'."]


def test_what_is_wrong_as_a_whole_is_asked_for_as_a_whole():
    strict = plan(inputs={**SCHEMA, "additionalProperties": False})
    assert "Additional properties are not allowed" in inputs_of(strict, {"target": "EGFR", "oops": 1})[1][0]
    assert asked_for(strict, {"target": "EGFR", "oops": 1}) == strict.inputs


def test_text_and_files_are_there_without_being_stated():
    strict = plan(inputs={**SCHEMA, "additionalProperties": False})
    given = {"target": "EGFR", "text": "Go.", "files": [{"name": "a.csv"}]}
    assert inputs_of(strict, given)[1] == []
    assert inputs_of(plan(), {}) == ({"text": "", "files": []}, [])


def test_text_and_files_may_be_needed():
    needed = plan(
        inputs={"type": "object", "properties": {"files": {"type": "array"}, "text": {}}, "required": ["files"]}
    )
    assert inputs_of(needed, {"files": [], "text": "x"})[1] == ["`files` is needed."]
    assert list(asked_for(needed, {"files": []})["properties"]) == ["files"]
    assert inputs_of(needed, {"files": [{}]})[1] == []


def test_what_a_value_says_does_not_make_it_right():
    numbers = plan(inputs={"type": "object", "properties": {"count": {"type": "integer"}}})
    for length in range(200, 300, 9):
        (sentence,) = inputs_of(numbers, {"count": "x" * length + " is a required property" + "x" * 100})[1]
        assert sentence.startswith("`count`:") or sentence == "`count` is needed."


def test_what_is_needed_under_a_condition_is_told():
    either = plan(inputs={"type": "object", "allOf": [{"required": ["target"]}]})
    assert inputs_of(either, {})[1] == ["`target` is needed."]
