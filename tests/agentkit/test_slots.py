"""Answers for a slot: a name, an Enum member or a Pydantic model; credentials, whose value is never printed."""

import logging
from enum import Enum, StrEnum
from typing import Literal

import pytest
from pydantic import BaseModel, Field, field_validator

from agentkit import (
    AuthRequired,
    Completed,
    Credential,
    HandlerError,
    InputRequired,
    NotAnswered,
    SkillHandler,
    file_schema,
    testing,
)
from agentkit.outcomes import as_outcome
from agentkit.slots import LARGEST_SAMPLE, SAMPLES, schema_of


class Ask(Enum):
    DATE = "date"
    SEATS = 2


class Word(StrEnum):
    YES = "yes"


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Trip(BaseModel):
    """What is needed."""

    to: str = Field(title="Destination")
    people: int = Field(ge=1)

    @field_validator("to")
    @classmethod
    def is_a_place(cls, to: str) -> str:
        if to == "nowhere":
            raise ValueError("nobody goes there")
        return to


class Seats(BaseModel):
    seats: int


class Flow(SkillHandler):
    def on_request(self, task):
        return InputRequired("Where to?", slot=Trip)

    async def on_input_received(self, task, slot: Ask | Seats | Trip):
        return repr(slot)


def answer(data):
    return {"messageId": "m", "role": "ROLE_USER", "parts": [{"data": data}]}


def test_slots_have_names_and_models_forms():
    for slot, name in ((Ask.DATE, "date"), (Ask.SEATS, "SEATS"), (Word.YES, "yes")):
        assert InputRequired("?", slot=slot).slot == name
    asked = InputRequired("?", slot=Trip)
    assert (asked.slot, asked.schema["required"], asked.value) == ("Trip", ["to", "people"], None)
    held = InputRequired("?", slot=Seats(seats=7))
    assert (held.slot, held.schema, held.value) == ("Seats", None, {"seats": 7})
    assert AuthRequired("?").slot == "credential"
    for wrong in (3, None, ["date"], dict):
        with pytest.raises(TypeError, match="A slot is a str"):
            InputRequired("?", slot=wrong)
    with pytest.raises(TypeError, match="A question's schema is a dict"):
        InputRequired("?", schema="object")


async def test_the_slot_comes_back_as_its_annotation_says():
    rome = repr(Trip(to="Rome", people=2))
    for given, slot, taken in (
        ("x", Ask.DATE, repr(Ask.DATE)),
        ("x", Ask.SEATS, repr(Ask.SEATS)),
        ("x", Seats(seats=7), "Seats(seats=7)"),
        (answer({"to": "Rome", "people": "2"}), Trip, rome),
        ('{"to": "Rome", "people": 2}', Trip, rome),
    ):
        assert (await testing.run(Flow, given, slot=slot)).said == taken
    with pytest.raises(HandlerError, match="'other' is none of"):
        await testing.run(Flow, "x", slot="other")


async def test_an_unfit_answer_is_asked_for_again():
    for given, told in (
        (answer({"to": "Rome"}), "People: an answer is needed."),
        (answer({"to": "nowhere", "people": 1}), "Destination: nobody goes there."),
        ("to Rome", "Destination: an answer is needed. People: an answer is needed."),
        ("[1]", "Destination: an answer is needed. People: an answer is needed."),
    ):
        assert (await testing.run(Flow, given, slot=Trip)).outcome == InputRequired(told, slot=Trip)


YES_NO = {"type": "string", "enum": ["yes", "no"]}
SIZES = {"oneOf": [{"const": 1, "title": "Small"}, {"const": 2, "title": "Large"}]}
FORM = {"type": "object", "properties": {"dose": {"type": "number"}, "why": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "ways", "value"),
    [
        (YES_NO, ["Yes", answer("yes"), answer({"ask": "yes"})], "yes"),
        (SIZES, ["large", "2", answer(2), answer({"ask": 2})], 2),
        ({"type": "boolean"}, ["yes", "true", answer(True), answer({"ask": True})], True),
        ({"type": "integer"}, ["3", answer(3), answer({"ask": 3})], 3),
        ({"type": "array", "items": YES_NO}, ["yes, no", '["yes", "no"]', answer(["yes", "no"])], ["yes", "no"]),
        (FORM, ['{"dose": 1.5}', answer({"dose": 1.5})], {"dose": 1.5}),
        (None, ["so", answer("so")], "so"),
    ],
)
async def test_an_answer_has_its_schemas_type(schema, ways, value):
    async def reading(task):
        return repr(task.answer) if task.slot else InputRequired("?", slot="ask", schema=schema)

    for given in ways:
        assert (await (await testing.run(reading, "x")).answer(given)).said == repr(value)
    if schema is YES_NO:
        again = await (await testing.run(reading, "x")).answer("perhaps")
        assert again.outcome == InputRequired("Choose one of yes, no.", slot="ask", schema=YES_NO)


async def test_a_handler_may_read_slot_and_answer_itself():
    def reading(task):
        try:
            seats = task.answer_as(Seats).seats
        except NotAnswered as missing:
            return InputRequired(f"No: {missing}", slot=Ask.SEATS)
        return f"{seats} for {task.slot_as(Ask)}" if task.slot else f"{seats}"

    async def needing(task):
        return str(task.answer_as(Seats).seats)

    assert (await testing.run(reading, "3", slot=Ask.SEATS)).said == "3 for Ask.SEATS"
    assert (await testing.run(reading, "3")).said == "3"
    assert (await testing.run(reading, "many", slot=Ask.SEATS)).said.startswith("No: Seats: Input should be a valid")
    first = (await testing.run(needing, "")).outcome
    assert first == InputRequired("Seats: an answer is needed.", slot=Seats)
    bookmarked = (await testing.run(needing, "", slot=Ask.SEATS)).outcome
    assert (bookmarked.slot, bookmarked.schema) == ("SEATS", schema_of(Seats))


def test_a_form_is_in_one_piece():
    class Inner(BaseModel):
        size: Size

    class Tree(BaseModel):
        inner: Inner
        size: Size | None = Size.SMALL
        kind: Literal["a", "b"] = "a"
        either: int | str = 1
        children: list["Tree"] = []

    schema = schema_of(Tree)
    sizes = {"enum": ["small", "large"], "title": "Size", "type": "string"}
    assert schema["properties"]["inner"]["properties"]["size"] == sizes
    assert schema["properties"]["size"] == sizes | {"default": "small"}
    assert schema["properties"]["either"]["anyOf"] == [{"type": "integer"}, {"type": "string"}]


def test_a_file_field_names_samples_that_go_along(tmp_path):
    table, picture, large = (tmp_path / name for name in ("wells.csv", "dot.png", "large.csv"))
    table.write_text("well\na\n")
    picture.write_bytes(b"\x89PNG")
    large.write_bytes(b"x" * (LARGEST_SAMPLE + 1))
    field = file_schema("Wells", "text/csv", samples=[table, picture])
    assert (field["title"], field["format"], field["contentMediaType"]) == ("Wells", "binary", "text/csv")
    assert field[SAMPLES] == [
        {"filename": "wells.csv", "mediaType": "text/csv", "text": "well\na\n"},
        {"filename": "dot.png", "mediaType": "image/png", "raw": "iVBORw=="},
    ]
    with pytest.raises(ValueError, match=r"large\.csv has more than"):
        file_schema("Wells", samples=[large])


SECRET = "k-5f1d2a90-secret"


class Calendar(SkillHandler):
    async def on_request(self, task):
        credential = await task.credential("calendar")
        return Completed(credential.secret) if credential else AuthRequired("Your key?", service="calendar")


class InAThread(SkillHandler):
    def on_request(self, task):
        credential = task.credential("calendar")
        return Completed(credential.secret) if credential else AuthRequired("Your key?", service="calendar")


def test_no_way_of_showing_it_tells_the_secret(caplog):
    credential = Credential("calendar", "basic", SECRET, "the-user")
    logging.getLogger().warning("with %s", credential)
    shown = [repr, str, "{}".format, "%s".__mod__, lambda one: f"{one!r:>200}"]
    for text in (*(show(credential) for show in shown), caplog.text):
        assert "calendar" in text
        assert SECRET not in text
        assert "the-user" not in text


def test_bearer_and_basic_credentials_have_a_header():
    assert Credential("c", "bearer", "token").authorization == "Bearer token"
    assert Credential("c", "basic", "open sesame", "Aladdin").authorization == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
    with pytest.raises(ValueError, match=r"credential\.secret"):
        _ = Credential("c", "api_key", "key").authorization


@pytest.mark.parametrize("handler", [Calendar, InAThread])
async def test_a_handler_without_a_credential_asks_for_it(handler):
    asked = await testing.run(handler, "open", credentials={"mail": SECRET})
    assert asked.outcome == AuthRequired("Your key?", service="calendar")
    for given in (SECRET, Credential("calendar", "basic", SECRET, "a")):
        assert (await asked.answer(credentials={"calendar": given})).said == SECRET


def test_a_directive_asks_for_the_named_credential():
    said = {"state": "auth-required", "prompt": "Your token?", "service": "calendar", "auth_type": "bearer"}
    outcome = as_outcome(said)
    assert (outcome.service, outcome.auth_type, outcome.message) == ("calendar", "bearer", "Your token?")
    for unknown in ({"auth_type": "oauth2"}, {"service": ["calendar"]}, {"service": ""}):
        outcome = as_outcome(said | unknown)
        assert (outcome.service, outcome.message) == ("", "Your token?")
