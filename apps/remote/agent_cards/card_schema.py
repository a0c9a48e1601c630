"""Reads the fields of cards by the SDK's message types (`a2a.proto`): what can be read, with notes on the rest."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from typing import Any

from a2a.types import AgentCard
from google.api.field_behavior_pb2 import FieldBehavior, field_behavior
from google.protobuf.descriptor import Descriptor, FieldDescriptor

JSON = dict[str, Any]

LONGEST_TEXT = 10_000  # characters of one text
MOST_ENTRIES = 500  # entries of one list or map
KEPT_CONTROLS = frozenset("\n\t")
UNSAFE_CATEGORIES = frozenset({"Cc", "Cs", "Co"})  # control characters, lone surrogates, private use
BIDI_MARKS = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")

MOST_NOTES = 20
LONGEST_NOTE = 300  # characters
LONGEST_NAME = 200  # characters of a field's or a scheme's name
INDEX = re.compile(r"\[\d+\]")

# Fields without which the object around them says nothing.
INDISPENSABLE = frozenset({"lf.a2a.v1.AgentInterface.url", "lf.a2a.v1.AgentExtension.uri"})
DEFAULTS = {"lf.a2a.v1.AgentCard.name": "Unnamed agent", "lf.a2a.v1.AgentCard.version": "1.0"}


def read_fields(card: JSON, notes: Notes) -> JSON:
    """The known fields of a card in the shape of A2A 1.0, with cleaned texts and defaults for what is missing.

    As in ProtoJSON, names are in camelCase or snake_case, and null means absent. What cannot be read is left out.
    """
    return _Reader(notes).message(card, AgentCard.DESCRIPTOR, "") or {}


def clean_text(text: str) -> str:
    """Removes control characters and marks that make a text look like another; keeps line breaks."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        one
        for one in text
        if one in KEPT_CONTROLS or (unicodedata.category(one) not in UNSAFE_CATEGORIES and one not in BIDI_MARKS)
    )


class Notes:
    """What was assumed or left out while a card was read: a sentence for each kind of field."""

    def __init__(self) -> None:
        self._count: Counter[str] = Counter()

    def add(self, at: str, what: str) -> None:
        """`at` names the field, such as `skills[2].tags`; its kind counts, not its place."""
        self._count[clean_text(INDEX.sub("[]", f"{at} {what}.")[:LONGEST_NOTE])] += 1

    @property
    def sentences(self) -> list[str]:
        told = [f"{one} ({count} times)" if count > 1 else one for one, count in self._count.items()]
        more = len(told) - MOST_NOTES
        return told if more <= 0 else [*told[:MOST_NOTES], f"And {more} more."]


class _Reader:
    """Reads what can be read. None is what cannot: then the field is left out, with a note."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def message(self, value: object, kind: Descriptor, at: str) -> JSON | None:
        if not isinstance(value, dict):
            self._leave_out(at, "must be an object")
            return None
        if kind.full_name == "google.protobuf.Struct":
            return self.anything(value, at)  # type: ignore[no-any-return]
        read: JSON = {}
        for field in kind.fields:
            place = f"{at}.{field.json_name}" if at else field.json_name
            given = value.get(field.json_name, value.get(field.name))
            found = None if given is None else self._field(given, field, place)
            if found is None and _is_required(field):
                found = self._default(field, place)
                if found is None:
                    self._leave_out(at, f"is useless without {field.json_name}")
                    return None
            if found is not None:
                read[field.json_name] = found
        for choice in kind.oneofs:
            for field in [one for one in choice.fields if one.json_name in read][1:]:
                del read[field.json_name]
                self._notes.add(f"{at}.{field.json_name}", "is one too many and was left out")
        return read

    def _default(self, field: FieldDescriptor, at: str) -> Any:
        """What a missing required field is taken for; None where nothing can be."""
        if field.full_name in INDISPENSABLE:
            return None
        default = DEFAULTS.get(field.full_name, "")
        self._notes.add("The card", f"does not say its {at}" + (f"; {default} is assumed" if default else ""))
        if field.is_repeated:
            return {} if _values_of(field) else []
        return default if field.message_type is None else self.message({}, field.message_type, at)

    def _field(self, given: object, field: FieldDescriptor, at: str) -> Any:
        if values := _values_of(field):
            if not isinstance(given, dict):
                return self._leave_out(at, "must be an object")
            entries = self._few(list(given.items()), at)
            read = {clean_text(key)[:LONGEST_NAME]: self._one(one, values, f"{at}.{key}") for key, one in entries}
            return {key: one for key, one in read.items() if one is not None}
        if field.is_repeated:
            items = given if isinstance(given, list) else [given]
            read_items = [self._one(one, field, f"{at}[{n}]") for n, one in enumerate(self._few(items, at))]
            return [one for one in read_items if one is not None]
        return self._one(given, field, at)

    def _one(self, given: object, field: FieldDescriptor, at: str) -> Any:
        if field.message_type is not None:
            return self.message(given, field.message_type, at)
        if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
            said = {"true": True, "false": False}.get(given.lower(), given) if isinstance(given, str) else given
            return said if isinstance(said, bool) else self._leave_out(at, "must be true or false")
        text = self._text(given, at)
        return None if text is not None and not text.strip() and _is_required(field) else text

    def anything(self, value: Any, at: str) -> Any:
        match value:
            case str():
                return self._text(value, at)
            case dict():
                read = {clean_text(key)[:LONGEST_TEXT]: self.anything(one, at) for key, one in value.items()}
                return {key: one for key, one in read.items() if one is not None or value.get(key) is None}
            case list():
                return [self.anything(one, at) for one in value]
            case int() | float() if abs(value) >= 2**53 or not math.isfinite(value):
                return self._leave_out(at, "has a number beyond 2^53, which")
        return value

    def _text(self, given: object, at: str) -> str | None:
        if isinstance(given, int | float) and not isinstance(given, bool):
            given = str(given)
        if not isinstance(given, str):
            self._leave_out(at, "must be a text")
            return None
        if len(given) > LONGEST_TEXT:
            self._notes.add(at, f"is cut after {LONGEST_TEXT:,} characters")
        return clean_text(given[:LONGEST_TEXT])

    def _few[T](self, given: list[T], at: str) -> list[T]:
        if len(given) > MOST_ENTRIES:
            self._notes.add(at, f"is cut after {MOST_ENTRIES} entries")
        return given[:MOST_ENTRIES]

    def _leave_out(self, at: str, why: str) -> Any:
        """None."""
        self._notes.add(at or "The card", f"{why} and was left out")
        return None


def _values_of(field: FieldDescriptor) -> FieldDescriptor | None:
    kind = field.message_type
    return kind.fields_by_name["value"] if kind is not None and kind.GetOptions().map_entry else None


def _is_required(field: FieldDescriptor) -> bool:
    return field.full_name in INDISPENSABLE or FieldBehavior.REQUIRED in field.GetOptions().Extensions[field_behavior]
