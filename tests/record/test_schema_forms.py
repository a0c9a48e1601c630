"""A question's JSON Schema becomes a form, and its input becomes typed values."""

import pytest

from apps.record.content.schema_forms import answer_from, fields_of, outline_of
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


def form(schema, name="trip"):
    return fields_of({"name": name, "schema": schema})


def answers(schema=TRIP, **given):
    return answer_from(
        form(schema), {f"answer-{name}": [value] if isinstance(value, str) else value for name, value in given.items()}
    )


def test_every_kind_of_value_has_its_field():
    kinds = {field.name: field.kind for field in form(TRIP)}
    assert kinds == {
        "class": "choice", "back": "boolean", "people": "integer", "budget": "number", "wish": "text",
        "story": "long-text", "list": "file",
    }  # fmt: skip
    fields = {field.name: field for field in form(MORE)}
    assert {name: (field.kind, field.input_type) for name, field in fields.items()} == {
        "toppings": ("choices", "text"), "size": ("choice", "text"), "day": ("date", "date"), "hour": ("time", "time"),
        "mail": ("email", "email"), "page": ("url", "url"), "name": ("text", "text"),
    }  # fmt: skip
    assert fields["size"].options == [("1", "Small"), ("2", "Large")]
    slot = {"name": "trip", "schema": TRIP, "order": ["wish", "people", "gone"]}
    assert [field.name for field in fields_of(slot)][:3] == ["wish", "people", "class"]


def test_values_have_the_types_of_the_schema():
    given = {"class": "First", "back": "false", "people": "3", "budget": "9.5", "wish": " a view "}
    assert answers(**given) == {"class": "First", "back": False, "people": 3, "budget": 9.5, "wish": "a view"}
    assert answers(**{"class": "First", "people": "1"}) == {"class": "First", "people": 1}
    assert answer_from(form({"enum": [1, 2]}, "n"), {"answer-n": ["2"]}) == {"n": 2}
    assert answer_from(form({"type": "integer"}, "start"), {"answer-start": ["7"]}) == {"start": 7}
    given = {"size": "2", "day": "2026-05-31", "hour": "14:30", "mail": "ada@example.org", "page": "https://a.org/a"}
    assert answers(MORE, toppings=["Ham", "Corn"], **given) == {"toppings": ["Ham", "Corn"], **given, "size": 2}
    assert answer_from(form({"type": "array", "items": {"enum": [1, 2]}}, "n"), {"answer-n": []}) == {"n": []}


def test_what_cannot_be_taken_is_refused_in_a_sentence_at_its_field():
    for given, sentence in [
        ({"people": "1"}, "Class: an answer is needed."),
        ({"class": "Third", "people": "1"}, "Class: choose one of First, Second."),
        ({"class": "First", "people": "0"}, "People: the number must be from 1 to 9."),
        ({"class": "First", "people": "two"}, "People: “two” is not a whole number."),
        ({"class": "First", "people": "1.5"}, "People: “1.5” is not a whole number."),
        ({"class": "First", "people": "9" * 400}, f"People: “{'9' * 40}” is not a number."),
        ({"class": "First", "people": "1", "budget": "nan"}, "Budget: “nan” is not a number."),
        ({"class": "First", "people": "1", "budget": "-inf"}, "Budget: “-inf” is not a number."),
        ({"class": "First", "people": "1", "budget": "-1"}, "Budget: the number must be 0 or more."),
        ({"class": "First", "people": "1", "wish": "x" * 11}, "Wish: at most 10 characters, yours has 11."),
    ]:
        with pytest.raises(InvalidParams) as refused:
            answers(**given)
        assert str(refused.value) == sentence, given
    for given, sentence, field in [
        ({"toppings": []}, "Toppings: choose at least one.", "toppings"),
        ({"toppings": ["Ham", "Corn", "Olives"]}, "Toppings: choose at most 2.", "toppings"),
        ({"toppings": ["Cheese"]}, "Toppings: choose one of Ham, Olives, Corn.", "toppings"),
        ({"size": "3"}, "Size: choose one of Small, Large.", "size"),
        ({"day": "31 May"}, "Day: “31 May” is not a date, such as 2026-05-31.", "day"),
        ({"hour": "noon"}, "Hour: “noon” is not a time, such as 14:30.", "hour"),
        ({"mail": "ada"}, "Mail: “ada” is not an e-mail address.", "mail"),
        ({"page": "example"}, "Page: “example” is not an address, such as https://example.org.", "page"),
        ({"name": "ab"}, "Name: at least 3 characters, yours has 2.", "name"),
    ]:
        with pytest.raises(InvalidParams) as refused:
            answers(MORE, **{"toppings": ["Ham"], **given})
        assert (str(refused.value), refused.value.field) == (sentence, f"answer-{field}"), given


def test_what_no_form_can_ask_is_answered_in_words():
    for schema in [
        {},
        {"type": "array", "items": {"type": "string"}},
        {"type": "object"},
        {"type": "object", "properties": {"inner": {"type": "object"}}},
        {"type": "object", "properties": [1]},
        {"type": "object", "properties": {"a": True}, "required": "a"},
        {"type": "object", "properties": {str(number): {"type": "string"} for number in range(31)}},
        {"type": ["string", "integer"]},
        "not a schema",
    ]:
        assert form(schema) == [], schema
    inner = {"type": "object", "properties": {"street": {"type": "string", "description": "With the number."}}}
    schema = {"type": "object", "properties": {"home_address": inner, "age": {"type": "integer", "title": "Your age"}}}
    slot = {"name": "about", "schema": schema}
    assert fields_of(slot) == []
    assert outline_of(slot) == ["Home address", "\u2003Street: With the number.", "Your age"]
    assert outline_of({"name": "a", "schema": {"properties": {"a": schema, "b": 1}}})[0] == "A"
    assert [outline_of(one) for one in (None, {}, {"schema": "none"}, {"schema": {"type": "string"}})] == [[]] * 4


def test_null_beside_one_type_changes_no_field():
    for schema in ({"type": ["integer", "null"]}, {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}):
        fields = form({"properties": {"age": schema}})
        assert [(field.kind, field.default_text) for field in fields] == [("integer", "")], schema


def test_a_bound_that_is_none_is_none():
    for bound in ["many", None, True, [1], 10**400]:
        schema = {"type": "integer", "minimum": bound, "maximum": bound}
        assert answer_from(form(schema, "n"), {"answer-n": ["-5"]}) == {"n": -5}, bound


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


def test_what_is_secret_is_marked_so_that_no_browser_keeps_it():
    about = {"a": {"format": "password"}, "b": {"writeOnly": True}, "c": {}}
    schema = {"type": "object", "properties": {name: {"type": "string", **more} for name, more in about.items()}}
    assert [field.is_secret for field in form(schema)] == [True, True, False]
