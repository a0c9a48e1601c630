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
        ({"type": "number", "default": 1.5}, ["nan", ""], 1.5),
        ({"type": "object"}, ['{"n": NaN}', "[" * 100_000, '{"n": 1}'], {"n": 1}),
        ({"type": "boolean"}, ["maybe", "y"], True),
        ({"type": "array", "items": {"enum": ["a", "b", "c"]}}, ["a, c"], ["a", "c"]),
    ],
)
def test_a_value_is_asked_for_until_it_fits(monkeypatch, schema, typed, value):
    assert answer(monkeypatch, {"name": "it", "schema": schema}, *typed) == {"data": value}


def test_a_question_without_a_form_takes_words(monkeypatch):
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
def test_tool_calls_are_approved_edited_and_refused(monkeypatch, typed, decision):
    question = {"name": "tool_approval", "schema": {"type": "object", "properties": {}}}
    assert answer(monkeypatch, question, *typed) == {"data": decision}


def test_where_nobody_answers_it_ends(monkeypatch):
    with pytest.raises(EOFError):
        answer(monkeypatch, {"name": "city", "schema": {"type": "integer"}}, "x")
