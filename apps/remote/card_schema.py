"""Validates cards by the SDK's message types (`a2a.proto`), with a sentence per problem, and converts cards of 0.3."""

from __future__ import annotations

import math
import unicodedata
from typing import Any

from a2a.compat.v0_3 import conversions, types
from a2a.types import AgentCard
from google.api.field_behavior_pb2 import FieldBehavior, field_behavior
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict
from pydantic import ValidationError

JSON = dict[str, Any]

LONGEST_TEXT = 10_000  # characters of one text
MOST_ENTRIES = 500  # entries of one list or map
KEPT_CONTROLS = frozenset("\n\t")
UNSAFE_CATEGORIES = frozenset({"Cc", "Cs", "Co"})  # control characters, lone surrogates, private use
BIDI_MARKS = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")

VERSION_03 = "0.3"
FLOWS = ("clientCredentials", "authorizationCode", "password", "implicit")  # 1.0 allows one; this is our preference
DEFAULTS_03: JSON = {"capabilities": {}, "skills": [], "defaultInputModes": [], "defaultOutputModes": []}


def validate_card(card: object) -> tuple[JSON, list[str]]:
    """The card's known fields with cleaned texts, and a sentence per problem.

    As in ProtoJSON, names are in camelCase or snake_case, and null means absent. A missing required list or object is
    empty; a required text must be there.
    """
    reader = _Reader()
    return reader.message(card, AgentCard.DESCRIPTOR, ""), reader.problems


def clean_json(value: JSON) -> tuple[JSON, list[str]]:
    reader = _Reader()
    return reader.anything(value, ""), reader.problems


def clean_text(text: str) -> str:
    """Removes control characters and marks that make a text look like another; keeps line breaks."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        one
        for one in text
        if one in KEPT_CONTROLS or (unicodedata.category(one) not in UNSAFE_CATEGORIES and one not in BIDI_MARKS)
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
            given_fields = [field.json_name for field in choice.fields if field.json_name in read]
            if len(given_fields) > 1:
                self._wrong(at, f"must have one of {' and '.join(given_fields)}, not both", None)
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
            entries = list(given.items())[:MOST_ENTRIES]
            return {self._text(key, at): self._one(one, values, f"{at}.{clean_text(key)}") for key, one in entries}
        if field.is_repeated:
            if not isinstance(given, list):
                return self._wrong(at, "must be a list", [])
            self._count(given, at)
            return [self._one(one, field, f"{at}[{index}]") for index, one in enumerate(given[:MOST_ENTRIES])]
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
        if len(given) > LONGEST_TEXT:
            return self._wrong(at, f"must have at most {LONGEST_TEXT:,} characters", "")
        return clean_text(given)

    def _count(self, given: JSON | list[Any], at: str) -> None:
        if len(given) > MOST_ENTRIES:
            self._wrong(at, f"must have at most {MOST_ENTRIES} entries", None)

    def _wrong[T](self, at: str, what: str, instead: T) -> T:
        self.problems.append(f"{at or 'The card'} {what}.")
        return instead


def _values_of(field: FieldDescriptor) -> FieldDescriptor | None:
    kind = field.message_type
    return kind.fields_by_name["value"] if kind is not None and kind.GetOptions().map_entry else None


def _is_required(field: FieldDescriptor) -> bool:
    return FieldBehavior.REQUIRED in field.GetOptions().Extensions[field_behavior]


def is_card_03(card: JSON) -> bool:
    return "url" in card and not (card.keys() & {"supportedInterfaces", "supported_interfaces"})


def convert_card_03(card: JSON) -> tuple[JSON, list[str]]:
    """The card as one of 1.0, and a sentence per problem (then the card is empty)."""
    card, problems = clean_json(card)
    if problems:
        return {}, problems
    try:
        read = types.AgentCard.model_validate({**DEFAULTS_03, **_with_one_flow(card)})
    except ValidationError as error:
        return {}, [f"{_field_path(one['loc'])}: {one['msg']}." for one in error.errors(include_url=False)]
    made: JSON = MessageToDict(conversions.to_core_agent_card(read))
    made["supportedInterfaces"] = _unique_interfaces(made["supportedInterfaces"])
    return made, []


def _unique_interfaces(interfaces: list[JSON]) -> list[JSON]:
    unique: dict[tuple[str, str], JSON] = {}
    for one in interfaces:
        version = one.get("protocolVersion", VERSION_03)
        if version.startswith(f"{VERSION_03}."):
            version = VERSION_03
        unique.setdefault((one.get("url", ""), one.get("protocolBinding", "")), {**one, "protocolVersion": version})
    return list(unique.values())


def _with_one_flow(card: JSON) -> JSON:
    """The card with one flow per OAuth2 scheme, as in 1.0: client credentials where possible."""
    schemes = card.get("securitySchemes")
    if not isinstance(schemes, dict):
        return card
    return {**card, "securitySchemes": {name: _one_flow(scheme) for name, scheme in schemes.items()}}


def _one_flow(scheme: Any) -> Any:
    flows = scheme.get("flows") if isinstance(scheme, dict) else None
    if not isinstance(flows, dict):
        return scheme
    given = [name for name in FLOWS if flows.get(name)]
    return {**scheme, "flows": {name: flows[name] for name in given[:1]}}


def _field_path(steps: tuple[int | str, ...]) -> str:
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    return path or "The card"
