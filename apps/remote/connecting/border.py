"""A2A's JSON on this side of the SDK's types: nothing that an agent says is lost or rounded on the way through them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

JSON = dict[str, Any]
FREE = ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue")  # any JSON


def to_json(message: Message, sent: Any = None) -> JSON:
    """The message as A2A 1.0 JSON.

    `sent` is the JSON that it was read from. What protobuf's types have no place for is taken over from there: fields
    and states that this version of the SDK does not know, and numbers, which are doubles in protobuf.
    """
    value: JSON = json_format.MessageToDict(message)
    if isinstance(sent, dict):
        _complete(value, sent, message.DESCRIPTOR)
    return value


def _complete(value: JSON, sent: JSON, kind: Descriptor) -> None:
    for name, given in sent.items():
        field = kind.fields_by_camelcase_name.get(name) or kind.fields_by_name.get(name)
        if field is None:
            value.setdefault(name, given)
        elif field.message_type is not None:
            _complete_inner(value, given, field)
        elif field.enum_type is not None and isinstance(given, str) and given not in field.enum_type.values_by_name:
            value[field.camelcase_name] = given


def _complete_inner(value: JSON, given: Any, field: FieldDescriptor) -> None:
    name, kind = field.camelcase_name, field.message_type
    if name not in value or kind is None:
        return
    if kind.full_name in FREE:
        value[name] = given
    elif isinstance(given, list):
        for one, one_given in zip(value[name], given, strict=False):
            if isinstance(one_given, dict):  # protobuf takes an empty list for an empty object, too
                _complete(one, one_given, kind)
    elif isinstance(given, dict) and not kind.full_name.startswith("google.protobuf."):
        _complete(value[name], given, kind)


def exactly(message: JSON) -> Callable[[JSON], JSON]:
    """For a request of 1.0: puts the message into its body as it was given."""

    def put(body: JSON) -> JSON:
        inner = body.get("params", body)
        if "message" in inner:
            inner["message"] = message
        return body

    return put


def whole_numbers(value: Any) -> Any:
    """For 0.3, whose messages are made anew from protobuf's: whole numbers are written as such."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: whole_numbers(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [whole_numbers(inner) for inner in value]
    return value
