"""Structured answers are validated against the form in bounded time."""

from __future__ import annotations

from typing import Any

import pytest

from apps.record.content.json_schema import MAX_VIOLATIONS, answer_data, violations
from apps.record.errors import InvalidParams

TRIP: dict[str, Any] = {
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


def test_what_fits_is_taken_as_it_is_and_files_come_elsewhere() -> None:
    given = {"to": "Rome", "days": 3, "code": "FCO", "stops": [{"at": "Pisa"}]}
    assert answer_data(asked(TRIP), given) == given


def test_what_does_not_fit_is_refused_and_its_field_named() -> None:
    wrong: list[tuple[Any, str]] = [
        ({"to": "Rome"}, "data.days"),
        ({"to": "R", "days": 3}, "data.to"),
        ({"to": "Rome", "days": 0}, "data.days"),
        ({"to": "Rome", "days": "3"}, "data.days"),
        ({"to": "Rome", "days": 3, "code": "rom"}, "data.code"),
        ({"to": "Rome", "days": 3, "stops": [{}, {"at": 7}]}, "data.stops.1.at"),
        (["Rome", 3], "data"),
        ("Rome", "data"),
    ]
    for given, field in wrong:
        with pytest.raises(InvalidParams) as refused:
            answer_data(asked(TRIP), given)
        assert refused.value.field == field, given
        assert str(refused.value)


def test_a_single_value_needs_no_name() -> None:
    number = asked({"type": "integer", "maximum": 5})
    assert answer_data(number, 3) == 3
    assert answer_data(number, {"trip": 3}) == 3
    with pytest.raises(InvalidParams) as refused:
        answer_data(number, 6)
    assert refused.value.field == "data"


def test_where_no_form_was_asked_for_any_object_will_do() -> None:
    for slot in (None, {"name": "trip"}):
        assert answer_data(slot, {"anything": [1]}) == {"anything": [1]}
        with pytest.raises(InvalidParams):
            answer_data(slot, 1)


BRANCHING = {f"n{depth}": {"anyOf": [{"$ref": f"#/$defs/n{depth + 1}"}] * 2} for depth in range(40)}
HOSTILE: list[Any] = [
    {"$ref": "#"},
    {"$ref": "http://127.0.0.1:1/never-fetched"},
    {"$ref": "#/$defs/n0", "$defs": {**BRANCHING, "n40": {"type": "integer"}}},
    {"patternProperties": {"^(a+)+$": {"type": "integer"}}, "additionalProperties": False},
    {"type": "object", "minProperties": "many"},
    {"type": "object", "properties": {"a": {"type": "no such type"}}},
    {"type": "object", "properties": {"a": {"pattern": "(?=unknown to the engine)"}}},
]


def test_a_form_that_cannot_be_checked_or_would_take_for_ever_is_left_to_the_agent() -> None:
    given = {"a": "a" * 40 + "!"}
    for schema in HOSTILE:
        assert answer_data(asked(schema), given) == given, schema


def test_a_pattern_that_takes_python_for_ever_is_matched_all_the_same() -> None:
    form = asked({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}})
    assert answer_data(form, {"a": "a" * 60}) == {"a": "a" * 60}
    with pytest.raises(InvalidParams):
        answer_data(form, {"a": "a" * 60 + "!"})


def test_of_many_problems_no_more_are_looked_for_than_anybody_reads() -> None:
    found = violations({"type": "array", "items": {"type": "string"}}, list(range(3 * MAX_VIOLATIONS)))
    assert len(found) == MAX_VIOLATIONS
