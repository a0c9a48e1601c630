"""The shape of a card: its JSON against the protocol's own schema, with a sentence for every field that is wrong.

The SDK's message types are the schema (`a2a.proto`), so nothing of the protocol is written down here again.
"""

from __future__ import annotations

import math
import unicodedata
from typing import Any

from a2a.types import AgentCard
from google.api.field_behavior_pb2 import FieldBehavior, field_behavior
from google.protobuf.descriptor import Descriptor, FieldDescriptor

JSON = dict[str, Any]

LONGEST = 10_000  # characters of one text
MOST = 500  # entries of one list or map
KEPT = frozenset("\n\t")
UNFIT = frozenset({"Cc", "Cs", "Co"})  # control characters, lone surrogates, private use
TURNING = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")
"""What makes a text look like another one: marks that turn the direction of writing."""


def shaped(card: object) -> tuple[JSON, list[str]]:
    """What of this the protocol knows, with its texts cleaned, and a sentence for each field that is wrong.

    Names may be in camelCase or in snake_case, as ProtoJSON has it. Null is absent; an unknown field is left out. A
    list or an object that the protocol requires and that is not there is empty; a text has to be there.
    """
    reader = _Reader()
    return reader.message(card, AgentCard.DESCRIPTOR, ""), reader.problems


def tidied(value: JSON) -> tuple[JSON, list[str]]:
    """Any JSON object with its texts cleaned, and a sentence for each value that cannot be kept."""
    reader = _Reader()
    return reader.anything(value, ""), reader.problems


def clean(text: str) -> str:
    """A text without control characters and marks that would make it look like another; line breaks stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        one for one in text if one in KEPT or (unicodedata.category(one) not in UNFIT and one not in TURNING)
    )


class _Reader:
    def __init__(self) -> None:
        self.problems: list[str] = []

    def message(self, value: object, kind: Descriptor, at: str) -> JSON:
        if not isinstance(value, dict):
            return self._wrong(at, "must be an object", {})
        if kind.full_name == "google.protobuf.Struct":
            return self.anything(value, at)  # type: ignore[no-any-return]
        read: JSON = {}
        for field in kind.fields:
            place = f"{at}.{field.json_name}" if at else field.json_name
            given = value.get(field.json_name, value.get(field.name))
            if given is not None:
                read[field.json_name] = self._field(given, field, place)
            elif _is_required(field):
                self._missing(read, field, place)
        for choice in kind.oneofs:
            told = [field.json_name for field in choice.fields if field.json_name in read]
            if len(told) > 1:
                self._wrong(at, f"must have one of {' and '.join(told)}, not both", None)
        return read

    def _missing(self, read: JSON, field: FieldDescriptor, at: str) -> None:
        if field.is_repeated:
            read[field.json_name] = {} if _values_of(field) else []
        elif field.message_type is not None:
            read[field.json_name] = self.message({}, field.message_type, at)
        else:
            self._wrong(at, "is missing", None)

    def _field(self, given: object, field: FieldDescriptor, at: str) -> Any:
        if values := _values_of(field):
            if not isinstance(given, dict):
                return self._wrong(at, "must be an object", {})
            self._count(given, at)
            return {
                self._text(key, at): self._one(one, values, f"{at}.{clean(key)}") for key, one in _first(given.items())
            }
        if field.is_repeated:
            if not isinstance(given, list):
                return self._wrong(at, "must be a list", [])
            self._count(given, at)
            return [self._one(one, field, f"{at}[{index}]") for index, one in enumerate(_first(given))]
        return self._one(given, field, at)

    def _one(self, given: object, field: FieldDescriptor, at: str) -> Any:
        if field.message_type is not None:
            return self.message(given, field.message_type, at)
        if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
            return given if isinstance(given, bool) else self._wrong(at, "must be true or false", False)
        count = len(self.problems)
        text = self._text(given, at)
        if not text.strip() and _is_required(field) and count == len(self.problems):
            return self._wrong(at, "must not be empty", "")
        return text

    def anything(self, value: Any, at: str) -> Any:
        """Any JSON value: for fields whose meaning the protocol leaves open."""
        match value:
            case str():
                return self._text(value, at)
            case dict():
                return {self._text(key, at): self.anything(one, at) for key, one in value.items()}
            case list():
                return [self.anything(one, at) for one in value]
            case int() | float() if abs(value) >= 2**53 or not math.isfinite(value):
                return self._wrong(at, "has a number beyond 2^53", 0)
        return value

    def _text(self, given: object, at: str) -> str:
        if not isinstance(given, str):
            return self._wrong(at, "must be a text", "")
        if len(given) > LONGEST:
            return self._wrong(at, f"must have at most {LONGEST:,} characters", "")
        return clean(given)

    def _count(self, given: JSON | list[Any], at: str) -> None:
        if len(given) > MOST:
            self._wrong(at, f"must have at most {MOST} entries", None)

    def _wrong[T](self, at: str, what: str, instead: T) -> T:
        self.problems.append(f"{at or 'The card'} {what}.")
        return instead


def _first(given: Any) -> list[Any]:
    return list(given)[:MOST]


def _values_of(field: FieldDescriptor) -> FieldDescriptor | None:
    """Of a map, the field that is its values."""
    kind = field.message_type
    return kind.fields_by_name["value"] if kind is not None and kind.GetOptions().map_entry else None


def _is_required(field: FieldDescriptor) -> bool:
    return FieldBehavior.REQUIRED in field.GetOptions().Extensions[field_behavior]
