"""Questions as forms of MCP clients, which know flat fields of a few kinds (PrimitiveSchemaDefinition)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apps.record.content.json_schema import is_file
from apps.record.events import JSON

ANSWER = "answer"  # the key of what people answer, and the field of a question in words
IN_WORDS: JSON = {
    "type": "object",
    "properties": {ANSWER: {"type": "string", "title": "Answer"}},
    "required": [ANSWER],
}
WORDS = {"title", "description"}
KEYWORDS = {
    "string": {"default", "minLength", "maxLength"},
    "integer": {"default", "minimum", "maximum"},
    "number": {"default", "minimum", "maximum"},
    "boolean": {"default"},
}
"""What clients know of a kind of field, besides its words."""
FORMATS = {"date", "date-time", "email", "uri"}


@dataclass(frozen=True, slots=True)
class Form:
    """
    Attributes:
        schema: what clients can show; None if people cannot answer by it alone.
        takes_files: whether the question has fields for files, which no client's form has.
    """

    schema: JSON | None
    takes_files: bool = False


def schema_of(slot: JSON | None) -> JSON:
    """The JSON Schema of the question's answer as an object; clients may still not show it."""
    schema = (slot or {}).get("schema")
    if slot is None or not isinstance(schema, dict):
        return IN_WORDS
    if schema.get("type", "object") != "object":
        return {"type": "object", "properties": {slot["name"]: schema}, "required": [slot["name"]]}
    return schema


def form_of(slot: JSON | None) -> Form:
    """The form of a question, without the optional fields and the keywords that clients do not know."""
    schema = schema_of(slot)
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict):
        return Form(None)
    must = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    takes_files = any(map(is_file, properties.values()))
    fields = {name: field for name, one in properties.items() if (field := _field(one))}
    if not fields or not must <= fields.keys():
        return Form(None, takes_files)
    shown: JSON = {"type": "object", "properties": fields}
    return Form(shown | ({"required": sorted(must)} if must else {}), takes_files)


def has_field(slot: JSON | None, name: str) -> bool:
    return schema_of(slot) != IN_WORDS and name in schema_of(slot).get("properties", {})


def _field(schema: Any) -> JSON | None:
    """The field as clients know it; None if they do not."""
    if not isinstance(schema, dict) or is_file(schema):
        return None
    schema = _without_null(schema)
    words = {name: value for name, value in schema.items() if name in WORDS and isinstance(value, str)}
    kind = schema.get("type")
    if choices := _choices(schema, "oneOf"):
        return {"type": "string", **words, **choices, **_default(schema, str)}
    items = schema.get("items")
    if kind == "array" and isinstance(items, dict) and (choices := _choices(items, "anyOf")):
        listed = choices if "anyOf" in choices else {"type": "string", **choices}
        return {"type": "array", **words, "items": listed, **_default(schema, list)}
    if not isinstance(kind, str) or kind not in KEYWORDS or "enum" in schema or "const" in schema:
        return None
    known = {name: schema[name] for name in KEYWORDS[kind] if schema.get(name) is not None}
    if isinstance(schema.get("format"), str) and schema["format"] in FORMATS:
        known["format"] = schema["format"]
    return {"type": kind, **words, **known}


def _without_null(schema: JSON) -> JSON:
    """An optional field's only other kind, as Pydantic writes them."""
    if isinstance(kinds := schema.get("type"), list):
        known = [one for one in kinds if one != "null"]
        return {**schema, "type": known[0]} if len(known) == 1 else {}
    given = found if isinstance(found := schema.get("anyOf"), list) else []
    others = [one for one in given if isinstance(one, dict) and one.get("type") != "null"]
    if len(others) != 1:
        return schema
    return {**others[0], **{name: value for name, value in schema.items() if name != "anyOf" and value is not None}}


def _choices(schema: JSON, titled: str) -> JSON | None:
    """Texts to choose from, with their titles under the key `titled`; None if it has others."""
    if isinstance(given := schema.get("enum"), list) and given and all(isinstance(one, str) for one in given):
        return {"enum": given}
    options = schema.get("oneOf") or schema.get("anyOf")
    if not isinstance(options, list) or not all(isinstance(one, dict) for one in options):
        return None
    if not options or not all(isinstance(one.get("const"), str) for one in options):
        return None
    return {titled: [{"const": one["const"], "title": str(one.get("title") or one["const"])} for one in options]}


def _default(schema: JSON, kind: type) -> JSON:
    return {"default": schema["default"]} if isinstance(schema.get("default"), kind) else {}
