"""An OpenAPI description of HTTP+JSON, with the protocol's messages as schemas.

`python -m tests.conformance.openapi` prints it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from a2a.types import a2a_pb2
from google.api import field_behavior_pb2
from google.protobuf import struct_pb2, timestamp_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor

from apps.a2a.bindings import ADDRESSES
from apps.a2a.http import A2A_TYPE
from apps.a2a.operations import STREAMING_OPERATIONS

JSON = dict[str, Any]

SERVICE = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]
WELL_KNOWN: dict[str, JSON] = {
    struct_pb2.Struct.DESCRIPTOR.full_name: {"type": "object"},
    struct_pb2.Value.DESCRIPTOR.full_name: {},
    timestamp_pb2.Timestamp.DESCRIPTOR.full_name: {"type": "string", "format": "date-time"},
    "google.protobuf.Empty": {"type": "object", "maxProperties": 0},
}
EVENT: JSON = {
    "type": "object",
    "required": ["id", "data"],
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9]+$"},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {"$ref": "#/components/schemas/StreamResponse"},
        },
    },
}
SCALARS: dict[int, JSON] = {
    FieldDescriptor.TYPE_STRING: {"type": "string"},
    FieldDescriptor.TYPE_BYTES: {"type": "string", "format": "byte"},
    FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.TYPE_INT32: {"type": "integer", "format": "int32"},
}
ERROR: JSON = {
    "type": "object",
    "required": ["error"],
    "additionalProperties": False,
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "status", "message", "details"],
            "additionalProperties": False,
            "properties": {
                "code": {"type": "integer", "minimum": 400, "maximum": 499},
                "status": {"type": "string", "pattern": "^[A-Z_]+$"},
                "message": {"type": "string", "minLength": 1},
                "details": {"type": "array", "items": {"type": "object", "required": ["@type"]}},
            },
        }
    },
}


def description() -> JSON:
    schemas: dict[str, JSON] = {"Status": ERROR}
    paths = {
        f"/{address}": {verb.lower(): _operation(verb, address, name, schemas) for verb, name in verbs.items()}
        for address, verbs in ADDRESSES.items()
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "A2A over HTTP+JSON", "version": "1.0"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _operation(verb: str, address: str, name: str, schemas: dict[str, JSON]) -> JSON:
    method: MethodDescriptor = SERVICE.methods_by_name[name]
    named = re.findall(r"\{(\w+)\}", address)
    operation: JSON = {
        "operationId": f"{verb.lower()}{name}",
        "parameters": [
            _parameter(field, "path", schemas) for field in method.input_type.fields if _name(field) in named
        ],
        "responses": {
            "200": {"description": "The answer.", "content": {_media_type(name): {"schema": _answer(method, schemas)}}},
            "4XX": {
                "description": "Why not.",
                "content": {A2A_TYPE: {"schema": {"$ref": "#/components/schemas/Status"}}},
            },
        },
    }
    if verb == "POST":
        content = {"application/json": {"schema": _message(method.input_type, schemas, without=named)}}
        operation["requestBody"] = {"content": content, "required": name != "SubscribeToTask"}
    else:
        others = [field for field in method.input_type.fields if _name(field) not in (*named, "tenant")]
        operation["parameters"] += [_parameter(field, "query", schemas) for field in others]
    return operation


def _media_type(name: str) -> str:
    return "text/event-stream" if name in STREAMING_OPERATIONS else A2A_TYPE


def _answer(method: MethodDescriptor, schemas: dict[str, JSON]) -> JSON:
    answer = _reference(method.output_type, schemas)
    return EVENT if method.name in STREAMING_OPERATIONS else answer


def _parameter(field: FieldDescriptor, where: str, schemas: dict[str, JSON]) -> JSON:
    return {"name": _name(field), "in": where, "required": where == "path", "schema": _schema(field, schemas)}


def _reference(message: Descriptor, schemas: dict[str, JSON]) -> JSON:
    if message.full_name in WELL_KNOWN:
        return WELL_KNOWN[message.full_name]
    if message.name not in schemas:
        schemas[message.name] = {}  # messages may be recursive
        schemas[message.name] = _message(message, schemas)
    return {"$ref": f"#/components/schemas/{message.name}"}


def _message(message: Descriptor, schemas: dict[str, JSON], without: list[str] | None = None) -> JSON:
    fields = [field for field in message.fields if _name(field) not in (without or ())]
    choices = [
        [{"required": [_name(field)]} for field in oneof.fields] for oneof in message.oneofs if len(oneof.fields) > 1
    ]
    return {
        "type": "object",
        "properties": {_name(field): _schema(field, schemas) for field in fields},
        "required": [_name(field) for field in fields if _is_required(field)],
        **({"oneOf": choices[0]} if choices else {}),
    }


def _schema(field: FieldDescriptor, schemas: dict[str, JSON]) -> JSON:
    if field.message_type and field.message_type.GetOptions().map_entry:
        return {"type": "object", "additionalProperties": _schema(field.message_type.fields_by_name["value"], schemas)}
    one = _single(field, schemas)
    if not field.is_repeated:
        return one
    return {"type": "array", "items": one} | ({"minItems": 1} if field.name == "parts" else {})


def _single(field: FieldDescriptor, schemas: dict[str, JSON]) -> JSON:
    if field.enum_type:
        return {"type": "string", "enum": [value.name for value in field.enum_type.values if value.number]}
    if field.message_type:
        return _reference(field.message_type, schemas)
    return SCALARS[field.type]


def _name(field: FieldDescriptor) -> str:
    return str(field.json_name)


def _is_required(field: FieldDescriptor) -> bool:
    return field_behavior_pb2.REQUIRED in field.GetOptions().Extensions[field_behavior_pb2.field_behavior]


if __name__ == "__main__":
    print(json.dumps(description(), indent=2))
