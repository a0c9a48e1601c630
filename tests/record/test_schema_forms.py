"""A question's JSON Schema becomes a form, and its input becomes typed values."""

from __future__ import annotations

from typing import Any

import pytest

from apps.record.content.json_schema import MAX_VIOLATIONS, answer_data, violations
from apps.record.content.schema_forms import answer_from, fields_of
from apps.record.errors import InvalidParams

TRIP = {
    "type": "object",
    "properties": {
        "class": {"type": "string", "enum": ["First", "Second"]},
        "back": {"type": "boolean", "title": "And back?"},
        "people": {"type": "integer", "minimum": 1, "maximum": 9},
        "budget": {"type": "number", "minimum": 0},
        "wish": {"type": "string", "maxLength": 10},
        "story": {"type": "string", "maxLength": 2000},
        "list": {"type": "string", "format": "binary"},
    },
    "required": ["class", "people"],
}


MORE = {
    "type": "object",
    "properties": {
        "toppings": {"type": "array", "items": {"enum": ["Ham", "Olives", "Corn"]}, "minItems": 1, "maxItems": 2},
        "size": {"oneOf": [{"const": 1, "title": "Small"}, {"const": 2, "title": "Large"}]},
        "day": {"type": "string", "format": "date"},
        "hour": {"type": "string", "format": "time"},
        "mail": {"type": "string", "format": "email"},
        "page": {"type": "string", "format": "uri"},
        "name": {"type": "string", "minLength": 3},
    },
    "required": ["toppings"],
}


def form(schema, name="trip"):
    return fields_of({"name": name, "schema": schema})


def answers(schema=TRIP, **given):
    return answer_from(
        form(schema), {f"answer-{name}": [value] if isinstance(value, str) else value for name, value in given.items()}
    )


def test_kinds_of_values_have_fields():
    kinds = {field.name: (field.kind, field.input_type) for field in [*form(TRIP), *form(MORE)]}
    assert kinds == {
        "class": ("choice", "text"), "back": ("boolean", "text"), "people": ("integer", "number"),
        "budget": ("number", "number"), "wish": ("text", "text"), "story": ("long-text", "text"),
        "list": ("file", "file"), "toppings": ("choices", "text"), "size": ("choice", "text"),
        "day": ("date", "date"), "hour": ("time", "time"), "mail": ("email", "email"), "page": ("url", "url"),
        "name": ("text", "text"),
    }  # fmt: skip
    slot = {"name": "trip", "schema": TRIP, "order": ["wish", "people", "gone"]}
    assert [field.name for field in fields_of(slot)][:3] == ["wish", "people", "class"]


def test_values_have_the_types_of_the_schema():
    given = {"class": "First", "back": "false", "people": "3", "budget": "9.5", "wish": " a view "}
    assert answers(**given) == {"class": "First", "back": False, "people": 3, "budget": 9.5, "wish": "a view"}
    assert answer_from(form({"type": "integer"}, "start"), {"answer-start": ["7"]}) == {"start": 7}
    given = {"size": "2", "day": "2026-05-31", "hour": "14:30", "mail": "ada@example.org", "page": "https://a.org/a"}
    assert answers(MORE, toppings=["Ham", "Corn"], **given) == {"toppings": ["Ham", "Corn"], **given, "size": 2}
    assert answer_from(form({"type": "array", "items": {"enum": [1, 2]}}, "n"), {"answer-n": []}) == {"n": []}


@pytest.mark.parametrize(
    ("schema", "given", "sentence"),
    [
        (TRIP, {"class": ""}, "Class: an answer is needed."),
        (TRIP, {"people": "0"}, "People: the number must be from 1 to 9."),
        (TRIP, {"people": "two"}, "People: “two” is not a whole number."),
        (TRIP, {"budget": "nan"}, "Budget: “nan” is not a number."),
        (TRIP, {"wish": "x" * 11}, "Wish: at most 10 characters, yours has 11."),
        (MORE, {"toppings": ["Ham", "Corn", "Olives"]}, "Toppings: choose at most 2."),
        (MORE, {"toppings": ["Cheese"]}, "Toppings: choose one of Ham, Olives, Corn."),
        (MORE, {"day": "31 May"}, "Day: “31 May” is not a date, such as 2026-05-31."),
        (MORE, {"mail": "ada"}, "Mail: “ada” is not an e-mail address."),
        (MORE, {"name": "ab"}, "Name: at least 3 characters, yours has 2."),
    ],
    ids=lambda value: str(value)[:20],
)
def test_refusals_name_the_field_in_a_sentence(schema, given, sentence):
    fit = {"class": "First", "people": "1"} if schema is TRIP else {"toppings": ["Ham"]}
    with pytest.raises(InvalidParams) as refused:
        answers(schema, **fit | given)
    assert (str(refused.value), refused.value.field) == (sentence, f"answer-{next(iter(given))}")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"type": "object", "properties": {"inner": {"type": "object"}}},
        {"type": "object", "properties": [1]},
        {"type": "object", "properties": {"a": True}, "required": "a"},
        {"type": "object", "properties": {str(number): {"type": "string"} for number in range(31)}},
        "not a schema",
    ],
    ids=range(6),
)
def test_unaskable_forms_are_answered_in_words(schema):
    assert form(schema) == []


def test_odd_schemas_are_read_kindly():
    for schema in ({"type": ["integer", "null"]}, {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}):
        fields = form({"properties": {"age": schema}})
        assert [(field.kind, field.default_text) for field in fields] == [("integer", "")], schema
    for bound in ("many", True, 10**400):
        schema = {"type": "integer", "minimum": bound, "maximum": bound}
        assert answer_from(form(schema, "n"), {"answer-n": ["-5"]}) == {"n": -5}, bound
    about = {"a": {"format": "password"}, "b": {"writeOnly": True}, "c": {}}
    schema = {"type": "object", "properties": {name: {"type": "string", **more} for name, more in about.items()}}
    assert [field.is_secret for field in form(schema)] == [True, True, False]


JOURNEY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "minLength": 2},
        "days": {"type": "integer", "minimum": 1},
        "code": {"type": "string", "pattern": "^[A-Z]{3}$"},
        "stops": {"type": "array", "items": {"type": "object", "properties": {"at": {"type": "string"}}}},
        "passport": {"type": "string", "format": "binary"},
    },
    "required": ["to", "days", "passport"],
}


def asked(schema: Any) -> dict[str, Any]:
    return {"name": "trip", "schema": schema}


def test_answers_must_fit_their_form():
    """Files come elsewhere."""
    given = {"to": "Rome", "days": 3, "code": "FCO", "stops": [{"at": "Pisa"}]}
    assert answer_data(asked(JOURNEY), given) == given
    for wrong, field in (
        ({"to": "Rome"}, "data.days"),
        (given | {"to": "R"}, "data.to"),
        (given | {"days": "3"}, "data.days"),
        (given | {"code": "rom"}, "data.code"),
        (given | {"stops": [{}, {"at": 7}]}, "data.stops.1.at"),
        (["Rome", 3], "data"),
    ):
        with pytest.raises(InvalidParams) as refused:
            answer_data(asked(JOURNEY), wrong)
        assert refused.value.field == field, wrong
    number = asked({"type": "integer", "maximum": 5})
    assert answer_data(number, 3) == answer_data(number, {"trip": 3}) == 3
    for slot in (None, {"name": "trip"}):  # where no form was asked for, any object will do
        assert answer_data(slot, {"anything": [1]}) == {"anything": [1]}
        with pytest.raises(InvalidParams):
            answer_data(slot, 1)


BRANCHING = {f"n{depth}": {"anyOf": [{"$ref": f"#/$defs/n{depth + 1}"}] * 2} for depth in range(40)}


HOSTILE: list[Any] = [
    {"$ref": "#"},
    {"$ref": "http://127.0.0.1:1/never-fetched"},
    {"$ref": "#/$defs/n0", "$defs": {**BRANCHING, "n40": {"type": "integer"}}},
    {"patternProperties": {"^(a+)+$": {"type": "integer"}}, "additionalProperties": False},
    {"type": "object", "properties": {"a": {"type": "no such type"}}},
    {"type": "object", "properties": {"a": {"pattern": "(?=unknown to the engine)"}}},
]


def test_hostile_forms_take_bounded_time():
    given = {"a": "a" * 40 + "!"}
    for schema in HOSTILE:
        assert answer_data(asked(schema), given) == given, schema  # it is left to the agent
    form = asked({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}})
    assert answer_data(form, {"a": "a" * 60}) == {"a": "a" * 60}
    with pytest.raises(InvalidParams):
        answer_data(form, {"a": "a" * 60 + "!"})
    found = violations({"type": "array", "items": {"type": "string"}}, list(range(3 * MAX_VIOLATIONS)))
    assert len(found) == MAX_VIOLATIONS
