"""Questions as prompts, by their schema."""

import io
from typing import Any

import pytest

from parley.terminal.client import Login, Parley
from parley.terminal.questions import Form
from parley.terminal.screen import Screen
from tests.terminal.fake import FakeParley

JSON = dict[str, Any]


def answer(monkeypatch: pytest.MonkeyPatch, question: JSON, *typed: str) -> JSON:
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in typed)))
    parley = Parley(Login("https://parley.example", "k"), FakeParley())
    return Form(parley, Screen(happened=io.StringIO())).answer(question)


@pytest.mark.parametrize(
    ("schema", "typed", "value"),
    [
        ({"type": "string"}, ["Ulm"], "Ulm"),
        ({"type": "string", "enum": ["red", "blue"]}, ["green", "BLUE"], "blue"),
        ({"type": "integer", "oneOf": [{"const": 1, "title": "One"}, {"const": 2, "title": "Two"}]}, ["two"], 2),
        ({"type": "integer"}, ["2.5", "", "2"], 2),
        ({"type": "number", "default": 1.5}, [""], 1.5),
        ({"type": "number"}, ["nan", "1e999", "2"], 2),
        ({"type": "object"}, ['{"n": NaN}', "[" * 100_000, '{"n": 1}'], {"n": 1}),
        ({"type": "string", "oneOf": 7, "enum": "ab"}, ["Ulm"], "Ulm"),
        ({"type": "boolean"}, ["maybe", "y"], True),
        ({"type": "array", "items": {"enum": ["a", "b", "c"]}}, ["a, c"], ["a", "c"]),
        ({"type": "array", "items": {"type": "object"}}, ['[{"n": 1}]'], [{"n": 1}]),
    ],
)
def test_a_value_is_asked_for_until_it_fits(
    monkeypatch: pytest.MonkeyPatch, schema: JSON, typed: list[str], value: Any
) -> None:
    assert answer(monkeypatch, {"name": "it", "schema": schema}, *typed) == {"data": value}


def test_forms_ask_in_the_agents_order(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"age": {"type": "integer"}, "name": {"type": "string"}, "note": {"type": "string"}}
    schema = {"type": "object", "properties": fields, "required": ["name", "age"]}
    question = {"name": "who", "schema": schema, "order": ["name", "age", "note"]}
    assert answer(monkeypatch, question, "Ada", "36", "") == {"data": {"name": "Ada", "age": 36}}


def test_wrong_forms_are_asked_as_far_as_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"type": "object", "properties": {"a": True, "b": {"anyOf": {"const": 1}}}, "required": 7}
    question = {"name": "who", "schema": schema, "order": [["a"], "b", "c"]}
    assert answer(monkeypatch, question, "1", "2") == {"data": {"b": "1", "a": "2"}}
    assert answer(monkeypatch, {"name": "who", "schema": {"properties": [1]}}, "Ada") == {"text": "Ada"}


def test_a_question_without_a_form_takes_words(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(monkeypatch, {"name": "city"}, "", "Ulm, please") == {"text": "Ulm, please"}
    assert answer(monkeypatch, {"name": "city", "schema": {"enum": ["Ulm", "Bonn"]}}, "2") == {"text": "Bonn"}


@pytest.mark.parametrize(
    ("typed", "decision"),
    [
        (["what", "a"], {"decision": "approve"}),
        (["s"], {"decision": "approve", "for_session": True}),
        (["e", "nonsense", '{"to": "b"}'], {"decision": "approve", "arguments": {"to": "b"}}),
        (["r", "too dear"], {"decision": "refuse", "reason": "too dear"}),
        (["no", ""], {"decision": "refuse"}),
    ],
)
def test_tool_calls_are_approved_edited_and_refused(
    monkeypatch: pytest.MonkeyPatch, typed: list[str], decision: JSON
) -> None:
    question = {"name": "tool_approval", "schema": {"type": "object", "properties": {}}}
    assert answer(monkeypatch, question, *typed) == {"data": decision}


def test_where_nobody_answers_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EOFError):
        answer(monkeypatch, {"name": "city", "schema": {"type": "integer"}}, "x")
