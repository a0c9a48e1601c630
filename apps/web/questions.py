"""An agent's question as a form: fields made from its JSON Schema, and the answer read back from what was filled in.

What is understood: one value, or an object of values, each a choice (`enum`), a boolean, an integer, a number, a text
or a file (`format: binary`). A schema beyond that is answered in words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

JSON = dict[str, Any]
KINDS = {"boolean": "boolean", "integer": "integer", "number": "number", "string": "text"}
LONG_TEXT = 200  # a text that may be longer gets a larger field
MOST_FIELDS = 30


class Unanswered(Exception):
    """A field cannot be taken as it was filled in; `str()` says what to do."""


@dataclass(frozen=True)
class Field:
    """One value that is asked for."""

    name: str
    kind: str  # choice, boolean, integer, number, text, long-text, file
    label: str
    schema: JSON
    required: bool = True

    @property
    def html_name(self) -> str:
        return f"answer-{self.name}"

    @property
    def input_type(self) -> str:
        """Of its HTML input."""
        return {"integer": "number", "number": "number", "file": "file"}.get(self.kind, "text")

    @property
    def options(self) -> list[tuple[str, str]]:
        """Values and labels to choose from."""
        if self.kind == "boolean":
            return [("true", "Yes"), ("false", "No")]
        return [(str(choice), str(choice)) for choice in self.schema.get("enum", [])]

    @property
    def minimum(self) -> float | None:
        return self._bound("minimum")

    @property
    def maximum(self) -> float | None:
        return self._bound("maximum")

    @property
    def default_text(self) -> str:
        default = self.schema.get("default", "")
        return str(default).lower() if isinstance(default, bool) else str(default)

    @property
    def longest(self) -> float | None:
        return self._bound("maxLength")

    def _bound(self, name: str) -> float | None:
        """A number that the schema names; what is none sets no bound."""
        bound = self.schema.get(name)
        return bound if isinstance(bound, int | float) and not isinstance(bound, bool) else None

    @property
    def hint(self) -> str:
        return str(self.schema.get("description", ""))

    @property
    def accept(self) -> str:
        return str(self.schema.get("contentMediaType", ""))

    def value_of(self, given: str | None) -> Any:
        """What was filled in, as the schema's type; None where it was left out. Raises Unanswered."""
        text = (given or "").strip()
        if self.kind == "boolean":
            return text == "true" if text else self._nothing()
        if not text:
            return self._nothing()
        match self.kind:
            case "choice":
                return self._choice(text)
            case "integer" | "number":
                return self._number(text)
            case _:
                return self._text(text)

    def _nothing(self) -> None:
        if self.required:
            raise Unanswered(f"{self.label}: an answer is needed.")

    def _choice(self, text: str) -> Any:
        for choice in self.schema["enum"]:
            if str(choice) == text:
                return choice
        raise Unanswered(f"{self.label}: choose one of {', '.join(label for _, label in self.options)}.")

    def _number(self, text: str) -> float:
        try:
            number = int(text) if self.kind == "integer" else float(text)
        except ValueError:
            wanted = "a whole number" if self.kind == "integer" else "a number"
            raise Unanswered(f"{self.label}: “{text[:40]}” is not {wanted}.") from None
        low, high = self.minimum, self.maximum
        if not math.isfinite(number):
            raise Unanswered(f"{self.label}: “{text[:40]}” is not a number.")
        if (low is not None and number < low) or (high is not None and number > high):
            raise Unanswered(f"{self.label}: the number must be {_range(low, high)}.")
        return number

    def _text(self, text: str) -> str:
        if self.longest is not None and len(text) > self.longest:
            raise Unanswered(f"{self.label}: at most {self.longest} characters, these are {len(text)}.")
        return text


def _range(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f"from {low} to {high}"
    return f"{low} or more" if high is None else f"{high} or less"


def fields_of(slot: Mapping[str, Any] | None) -> list[Field]:
    """The form of a task's slot; no fields where it is answered in words."""
    schema = (slot or {}).get("schema")
    if not slot or not isinstance(schema, dict):
        return []
    if schema.get("type") != "object":
        field = _field(slot["name"], schema, required=True)
        return [field] if field else []
    required, properties = schema.get("required"), schema.get("properties")
    if not isinstance(properties, dict) or len(properties) > MOST_FIELDS:
        return []
    must = required if isinstance(required, list) else []
    names = dict.fromkeys([name for name in slot.get("order", []) if name in properties] + list(properties))
    fields = [_field(name, properties[name], required=name in must) for name in names]
    return [] if None in fields else [field for field in fields if field]


def _field(name: str, schema: Any, *, required: bool) -> Field | None:
    """A field for one value; None for a schema that no field can stand for."""
    if not isinstance(schema, dict):
        return None
    if schema.get("format") == "binary" or schema.get("contentEncoding") == "base64":
        kind: str | None = "file"
    elif isinstance(schema.get("enum"), list) and schema["enum"]:
        kind = "choice"
    else:
        kind = KINDS.get(str(schema.get("type")))
    if not kind:
        return None
    label = schema.get("title") or name.replace("_", " ").replace("-", " ").capitalize()
    field = Field(name, kind, str(label), schema, required)
    return replace(field, kind="long-text") if kind == "text" and (field.longest or 0) > LONG_TEXT else field


def answer_from(fields: list[Field], given: Mapping[str, str]) -> JSON | None:
    """The values of a filled-in form by field name; None where it has files alone. Raises Unanswered."""
    values = {field.name: field.value_of(given.get(field.html_name)) for field in fields if field.kind != "file"}
    filled = {name: value for name, value in values.items() if value is not None}
    return filled or None
