"""A form from a JSON Schema, for every edge that draws one: its fields, and the answer read from them.

Supported: one value, or an object of values, each a choice (`enum`, or `oneOf` with titles), several choices (an array
of such), a boolean, an integer, a number, a text, a date, a time, an address or a file (`format: binary`). People
answer other schemas in words, beside an outline. The arguments of a tool call are fields too; values of other kinds
are JSON there.
"""

from __future__ import annotations

import base64
import datetime
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from agentkit.llm.approvals import ARGUMENTS, DECISION, REFUSE
from agentkit.slots import SAMPLES, asks_value, choices_of, value_in
from apps.record.content import strict_json
from apps.record.content.json_schema import is_file
from apps.record.errors import InvalidParams
from apps.record.events import JSON

FIELD_KINDS = {"boolean": "boolean", "integer": "integer", "number": "number", "string": "text"}
FORMATS = {"date": "date", "time": "time", "email": "email", "uri": "url"}
INPUT_TYPES = {"integer": "number", "number": "number", "file": "file", "date": "date", "time": "time"}
LONG_TEXT = 200  # longer texts get a larger field
SHORT_TEXT = 60  # longer arguments of a tool call get a larger field
MOST_FIELDS = 30


@dataclass(frozen=True)
class Field:
    name: str
    kind: str  # choice, choices, boolean, integer, number, text, long-text, json, date, time, email, url, file
    label: str
    schema: JSON
    required: bool = True
    group: str = ""  # the object that has it, such as the arguments of a tool call

    @property
    def html_name(self) -> str:
        return f"answer-{self.group}.{self.name}" if self.group else f"answer-{self.name}"

    @property
    def input_type(self) -> str:
        return INPUT_TYPES.get(self.kind, self.kind if self.kind in FORMATS.values() else "text")

    @property
    def is_secret(self) -> bool:
        """True if browsers must not store the typed value."""
        return self.schema.get("format") == "password" or self.schema.get("writeOnly") is True

    @property
    def options(self) -> list[tuple[str, str]]:
        if self.kind == "boolean":
            return [("true", "Yes"), ("false", "No")]
        return [(str(value), label) for value, label in choices_of(self._chosen_from)]

    @property
    def _chosen_from(self) -> JSON:
        return self.schema["items"] if self.kind == "choices" else self.schema

    @property
    def minimum(self) -> float | None:
        return self._bound("minimum")

    @property
    def maximum(self) -> float | None:
        return self._bound("maximum")

    @property
    def default_text(self) -> str:
        default = self.schema.get("default", "")
        if self.kind == "json" and "default" in self.schema:
            return json.dumps(default, ensure_ascii=False, indent=1)
        return str(default).lower() if isinstance(default, bool) else str(default)

    @property
    def chosen(self) -> list[str]:
        default = self.schema.get("default")
        return [str(one) for one in default] if isinstance(default, list) else [self.default_text]

    @property
    def shortest(self) -> float | None:
        return self._bound("minLength")

    @property
    def longest(self) -> float | None:
        return self._bound("maxLength")

    def _bound(self, name: str) -> float | None:
        """A bound of the schema; None if it is not a finite number."""
        bound = self.schema.get(name)
        if not isinstance(bound, int | float) or isinstance(bound, bool):
            return None
        return bound if abs(bound) <= sys.float_info.max else None

    @property
    def hint(self) -> str:
        return str(self.schema.get("description", ""))

    @property
    def accept(self) -> str:
        return str(self.schema.get("contentMediaType", ""))

    @property
    def samples(self) -> list[JSON]:
        """The field's sample files as A2A parts; without those that cannot be read."""
        given = self.schema.get(SAMPLES) if self.kind == "file" else None
        return [one for one in given if _is_sample(one)] if isinstance(given, list) else []

    def value_of(self, given: Sequence[str]) -> Any:
        """The answer in the type of the schema; None if it was left out. Raises InvalidParams."""
        texts = [text for one in given if (text := one.strip())]
        if self.group and "default" in self.schema and _plain("".join(given)) == _plain(self.default_text):
            return self.schema["default"]  # unchanged, though browsers change line ends
        if self.kind == "choices":
            return self._several(texts)
        if not texts:
            if self.required:
                raise self._refuse("an answer is needed.")
            return None
        text = texts[-1]
        match self.kind:
            case "boolean":
                return text == "true"
            case "choice":
                return self._choice(text)
            case "integer" | "number":
                return self._number(text)
            case "json":
                return self._json(text)
            case _:
                return self._text(text)

    def _refuse(self, why: str) -> InvalidParams:
        return InvalidParams(f"{self.label}: {why}", self.html_name)

    def _choice(self, text: str) -> Any:
        for value, _ in choices_of(self._chosen_from):
            if str(value) == text:
                return value
        raise self._refuse(f"choose one of {', '.join(label for _, label in self.options)}.")

    def _several(self, texts: Sequence[str]) -> list[Any] | None:
        least, most = self._bound("minItems") or 0, self._bound("maxItems")
        if not texts and not self.required:
            return None
        if len(texts) < least:
            raise self._refuse("choose at least one." if least == 1 else f"choose at least {least:g}.")
        if most is not None and len(texts) > most:
            raise self._refuse(f"choose at most {most:g}.")
        return [self._choice(text) for text in texts]

    def _number(self, text: str) -> float:
        try:
            number = int(text) if self.kind == "integer" else float(text)
        except ValueError:
            wanted = "a whole number" if self.kind == "integer" else "a number"
            raise self._refuse(f"“{text[:40]}” is not {wanted}.") from None
        low, high = self.minimum, self.maximum
        if not abs(number) <= sys.float_info.max:  # infinite, NaN, or too large for a float
            raise self._refuse(f"“{text[:40]}” is not a number.")
        if (low is not None and number < low) or (high is not None and number > high):
            raise self._refuse(f"the number must be {_range(low, high)}.")
        return number

    def _json(self, text: str) -> Any:
        try:
            return strict_json.read(text)
        except ValueError:
            raise self._refuse("write JSON.") from None

    def _text(self, text: str) -> str:
        if self.longest is not None and len(text) > self.longest:
            raise self._refuse(f"at most {self.longest} characters, yours has {len(text)}.")
        if self.shortest is not None and len(text) < self.shortest:
            raise self._refuse(f"at least {self.shortest} characters, yours has {len(text)}.")
        if self.kind in FORMAT_PARSERS:
            read, wanted = FORMAT_PARSERS[self.kind]
            try:
                read(text)
            except (ValueError, ValidationError):
                raise self._refuse(f"“{text[:40]}” is not {wanted}.") from None
        return text


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").strip()


def _is_sample(part: Any) -> bool:
    name = part.get("filename") if isinstance(part, dict) else None
    return isinstance(name, str) and bool(name) and name.isprintable() and content_of_sample(part) is not None


def content_of_sample(part: JSON) -> bytes | None:
    """None if the part has no readable content."""
    if isinstance(part.get("text"), str):
        return str(part["text"]).encode(errors="replace")
    try:
        return base64.b64decode(part["raw"], validate=True)
    except (KeyError, TypeError, ValueError):
        return None


@dataclass(frozen=True)
class ChosenSample:
    """The sample file that answers a file field."""

    field: Field
    name: str
    content: bytes


def chosen_sample(fields: Sequence[Field], chosen: str) -> ChosenSample | None:
    """The sample that a form's button names: `answer-file:wells.csv`. Raises InvalidParams."""
    html_name, _, name = chosen.partition(":")
    for field in fields:
        for part in field.samples if field.html_name == html_name else []:
            if part["filename"] == name:
                return ChosenSample(field, name, content_of_sample(part) or b"")
    if chosen:
        raise InvalidParams("This sample is no longer offered. Load the page again, or choose a file.", html_name)
    return None


def _check_url(text: str) -> None:
    """Raises ValueError for what is no URL."""
    parts = urlsplit(text)
    if not parts.scheme or not (parts.netloc or parts.path) or any(mark.isspace() for mark in text):
        raise ValueError


FORMAT_PARSERS: dict[str, tuple[Callable[[str], object], str]] = {
    "date": (datetime.date.fromisoformat, "a date, such as 2026-05-31"),
    "time": (datetime.time.fromisoformat, "a time, such as 14:30"),
    "email": (validate_email, "an e-mail address"),
    "url": (_check_url, "an address, such as https://example.org"),
}
"""The parser of each format, and what such a text is called."""


def _range(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f"from {low} to {high}"
    return f"{low} or more" if high is None else f"{high} or less"


def fields_of(slot: Mapping[str, Any] | None) -> list[Field]:
    """The fields of a task's slot; empty if it is answered in words."""
    schema = (slot or {}).get("schema")
    if not slot or not isinstance(schema, dict):
        return []
    if asks_value(schema):
        field = field_of(slot["name"], schema, required=True)
        return [field] if field else []
    required, properties = schema.get("required"), schema.get("properties")
    if not isinstance(properties, dict) or len(properties) > MOST_FIELDS:
        return []
    must = required if isinstance(required, list) else []
    if "approvers" in slot:
        return _approval_fields(properties)
    names = dict.fromkeys([name for name in slot.get("order", []) if name in properties] + list(properties))
    fields = [field_of(name, properties[name], required=name in must) for name in names]
    return [] if None in fields else [field for field in fields if field]


def _approval_fields(properties: Mapping[str, Any]) -> list[Field]:
    """The arguments of a tool call, each a field, and the fields of the decision."""
    arguments = properties[ARGUMENTS]
    required = arguments.get("required")
    must = required if isinstance(required, list) else []
    known = arguments["properties"]
    if len(known) > MOST_FIELDS:
        known = {}
    fields = [_argument(str(name), schema, required=name in must) for name, schema in known.items()]
    decision = [field_of(name, properties[name], required=name == DECISION) for name in properties if name != ARGUMENTS]
    return fields + [field for field in decision if field]


def _argument(name: str, schema: Any, *, required: bool) -> Field:
    described = schema if isinstance(schema, dict) else {}
    field = field_of(name, described, required=required)
    default = described.get("default")
    is_fit = field is not None and field.kind != "file" and not isinstance(default, dict | list)
    if field is None or not is_fit or (default is None and "default" in described):
        return Field(name, "json", label_of(name, described), described, required, ARGUMENTS)
    is_long = field.kind == "text" and (len(str(default or "")) > SHORT_TEXT or "\n" in str(default or ""))
    return replace(field, kind="long-text" if is_long else field.kind, group=ARGUMENTS)


def field_of(name: str, schema: Any, *, required: bool) -> Field | None:
    """The field for a schema; None if no edge draws it."""
    schema = _without_null(schema) if isinstance(schema, dict) else {}
    if not (kind := _kind(schema)):
        return None
    field = Field(name, kind, label_of(name, schema), schema, required)
    return replace(field, kind="long-text") if kind == "text" and (field.longest or 0) > LONG_TEXT else field


def _without_null(schema: JSON) -> JSON:
    """An optional field's only other kind, as Pydantic writes them."""
    if isinstance(kinds := schema.get("type"), list):
        known = [one for one in kinds if one != "null"]
        return {**schema, "type": known[0]} if len(known) == 1 else {}
    given = found if isinstance(found := schema.get("anyOf"), list) else []
    others = [one for one in given if isinstance(one, dict) and one.get("type") != "null"]
    if len(others) != 1 or len(given) == 1:
        return schema
    return {**others[0], **{name: value for name, value in schema.items() if name != "anyOf" and value is not None}}


def _kind(schema: JSON) -> str | None:
    if is_file(schema):
        return "file"
    if choices_of(schema):
        return "choice"
    if schema.get("type") == "array" and choices_of(schema.get("items")):
        return "choices"
    kind = FIELD_KINDS.get(str(schema.get("type")))
    return FORMATS.get(str(schema.get("format")), kind) if kind == "text" else kind


def label_of(name: str, schema: JSON) -> str:
    return str(schema.get("title") or name.replace("_", " ").replace("-", " ").capitalize())


def answer_from(fields: list[Field], given: Mapping[str, Sequence[str]]) -> JSON | None:
    """The values of a filled-in form by field name; None if it has only files. Raises InvalidParams.

    `given` has the texts by the fields' HTML names.
    """
    plain = [field for field in fields if field.kind != "file" and not field.group]
    values = {field.name: field.value_of(given.get(field.html_name, ())) for field in plain}
    filled = {name: value for name, value in values.items() if value is not None}
    if filled.get(DECISION) != REFUSE:  # nobody corrects what they refuse
        for field in (one for one in fields if one.group):
            if (value := field.value_of(given.get(field.html_name, ()))) is not None or _is_null(field):
                filled.setdefault(field.group, {})[field.name] = value
    return filled or None


def answer_data(slot: Mapping[str, Any] | None, fields: list[Field], given: Mapping[str, Sequence[str]]) -> Any:
    """The data of the message: what `answer_from` reads, or the one value that the slot asks for."""
    answer = answer_from(fields, given)
    return answer if answer is None or slot is None else value_in(slot, answer)


def _is_null(field: Field) -> bool:
    """Is the argument's proposed value null?"""
    return "default" in field.schema and field.schema["default"] is None


MOST_OUTLINE_LINES = 30
MOST_OUTLINE_DEPTH = 3


def outline_of(slot: Mapping[str, Any] | None) -> list[str]:
    """What an unsupported schema asks for, line by line."""
    schema = (slot or {}).get("schema")
    return list(_outline(schema, 0))[:MOST_OUTLINE_LINES] if isinstance(schema, dict) else []


def _outline(schema: JSON, depth: int) -> Iterator[str]:
    described = schema.get("items") if schema.get("type") == "array" else schema
    properties = described.get("properties") if isinstance(described, dict) else None
    if not isinstance(properties, dict) or depth == MOST_OUTLINE_DEPTH:
        return
    for name, inner in properties.items():
        if isinstance(inner, dict):
            about = inner.get("description")
            yield "\u2003" * depth + label_of(str(name), inner) + (f": {about}" if about else "")
            yield from _outline(inner, depth + 1)
