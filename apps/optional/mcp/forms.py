"""Questions as forms of MCP clients, which know flat fields of a few kinds (PrimitiveSchemaDefinition)."""

from __future__ import annotations

from dataclasses import dataclass

from apps.record.content.schema_forms import Field, field_of
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
    fields = [field for name, one in properties.items() if (field := field_of(name, one, required=name in must))]
    shown = {field.name: known for field in fields if (known := _shown(field))}
    takes_files = any(field.kind == "file" for field in fields)
    if not shown or not must <= shown.keys():
        return Form(None, takes_files)
    return Form({"type": "object", "properties": shown} | ({"required": sorted(must)} if must else {}), takes_files)


def has_field(slot: JSON | None, name: str) -> bool:
    return schema_of(slot) != IN_WORDS and name in schema_of(slot).get("properties", {})


def _shown(field: Field) -> JSON | None:
    """The field as clients know it; None if they do not."""
    schema, kind = field.schema, field.schema.get("type")
    words = {name: value for name, value in schema.items() if name in WORDS and isinstance(value, str)}
    if field.kind == "choice" and (choices := _choices(schema, "oneOf")):
        return {"type": "string", **words, **choices, **_default(schema, str)}
    if field.kind == "choices" and (choices := _choices(schema["items"], "anyOf")):
        listed = choices if "anyOf" in choices else {"type": "string", **choices}
        return {"type": "array", **words, "items": listed, **_default(schema, list)}
    if field.kind in ("choice", "choices", "file") or "const" in schema:
        return None
    known = {name: schema[name] for name in KEYWORDS[str(kind)] if schema.get(name) is not None}
    if isinstance(schema.get("format"), str) and schema["format"] in FORMATS:
        known["format"] = schema["format"]
    return {"type": kind, **words, **known}


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
