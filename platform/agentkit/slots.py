"""Slots say what a task waits for; this module also reads the answers.

`InputRequired("Where to?", slot=X)` accepts as X
- a str or an Enum member: a name for the question;
- a Pydantic model class: its fields become a form (JSON Schema), and the answer fills it in;
- a Pydantic model instance: the agent's own data, which returns with the answer.
"""

import base64
import inspect
import json
import mimetypes
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agentkit.errors import HandlerError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from agentkit.content.messages import Message


UNTYPED = (str, object, Any)
"""Annotations of a slot that stand for its name, whatever was asked."""

type Slot = str | Enum | type[BaseModel] | BaseModel
"""What a question waits for: a name, an Enum member, or a Pydantic model (class or instance)."""


class NotAnswered(ValueError):
    """The answer does not fit the question. The text tells the person what is wrong.

    If a handler lets it pass, the turn ends with `InputRequired`: this text and the same question. `model` is its form
    if the turn answers no question.
    """

    def __init__(self, message: str, model: type["BaseModel"] | None = None) -> None:
        super().__init__(message)
        self.model = model


def slot_name(slot: Slot) -> str:
    """A slot's name in the record and on the wire.

    Raises:
        TypeError: this cannot be a slot.
    """
    if isinstance(slot, Enum):
        return slot.value if isinstance(slot.value, str) else slot.name
    if isinstance(slot, str):
        return slot
    if is_model(slot) or is_instance(slot):
        return (slot if isinstance(slot, type) else type(slot)).__name__
    raise TypeError(f"A slot is a str, an Enum member or a Pydantic model, not {slot!r}.")


def stored_slot(slot: Slot, schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The slot as a host stores it: `{"name", "schema"?, "value"?}`. Raises TypeError."""
    kept: dict[str, Any] = {"name": slot_name(slot)}
    if not isinstance(schema, Mapping | None):
        raise TypeError(f"A question's schema is a dict, the JSON Schema of its answer, not {schema!r}.")
    if schema is None and is_model(slot):
        schema = schema_of(cast("type[BaseModel]", slot))
    if schema:
        kept["schema"] = dict(schema)
    if is_instance(slot):
        kept["value"] = cast("BaseModel", slot).model_dump(mode="json")
    return kept


SAMPLES = "x-samples"
"""The key of a file field's samples in a JSON Schema: file parts as in A2A, with `filename`, and `text` or `raw`."""
LARGEST_SAMPLE = 200_000  # bytes


def file_schema(title: str, media_type: str = "", *, samples: Iterable[Path] = ()) -> dict[str, Any]:
    """The JSON Schema of a question for a file. People may look at the samples, and answer with one of them.

    In a form, use it as `Field(json_schema_extra=file_schema(...))`.

    Args:
        media_type: of the files that a browser offers to choose, such as `text/csv`.
        samples: files that ship with the agent, of at most LARGEST_SAMPLE bytes each. They travel with the question.

    Raises:
        OSError: a sample cannot be read.
        ValueError: a sample is too large.
    """
    schema: dict[str, Any] = {"type": "string", "format": "binary", "title": title}
    schema |= {"contentMediaType": media_type} if media_type else {}
    parts = [_sample_part(path) for path in samples]
    return schema | ({SAMPLES: parts} if parts else {})


def _sample_part(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    if len(content) > LARGEST_SAMPLE:
        raise ValueError(f"The sample {path.name} has more than {LARGEST_SAMPLE:,} bytes.")
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    try:
        held = {"text": content.decode()}
    except UnicodeDecodeError:
        held = {"raw": base64.b64encode(content).decode()}
    return {"filename": path.name, "mediaType": media_type, **held}


def read_slot(kind: Any, slot: Mapping[str, Any], message: "Message") -> Any:
    """The slot as `kind`, which may be a union (see `Turn.slot_as`). Raises NotAnswered, LookupError."""
    members = _members(kind)
    for one in members:
        if isinstance(one, type) and issubclass(one, Enum):
            for member in one:
                if slot_name(member) == slot["name"]:
                    return member
        elif is_model(one) and slot_name(one) == slot["name"]:
            return one.model_validate(slot["value"]) if "value" in slot else answer_in(message, one)
    if any(one in members for one in UNTYPED):
        return slot["name"]
    raise LookupError(f"The slot {slot['name']!r} is none of {kind}.")


def answer_in[M: "BaseModel"](message: "Message", model: type[M]) -> M:
    """The message's answer as a model: from its data, from JSON in its text, or (one field) from the text itself.

    Raises:
        NotAnswered: it does not fit.
    """
    from pydantic import ValidationError

    try:
        given = answer_of({"name": slot_name(model), "schema": schema_of(model)}, message)
        return model.model_validate(given if isinstance(given, dict) else {})
    except ValidationError as error:
        raise NotAnswered(_sentences(error, model), model) from None


def answer_of(asked: Mapping[str, Any], message: "Message", parse: Callable[[str], Any] = json.loads) -> Any:
    """The answer to a question, in the type of its schema as far as it can be: from data, or from the text.

    Without a schema it is the text, or without one the first data; None if there is neither.

    Args:
        asked: the question's `{"name", "schema"?}`.
        parse: reads JSON in the text; raises ValueError.
    """
    schema, text = asked.get("schema"), message.text.strip()
    if not isinstance(schema, dict):
        return text or next(iter(message.data), None)
    for value in message.data:
        if asks_value(schema) or isinstance(value, dict):
            return value_in(asked, value)
    return from_text(schema, text, parse) if text else next(iter(message.data), None)


def value_in(asked: Mapping[str, Any], given: Any) -> Any:
    """The value in an answer's data: forms of one value send it under the question's name."""
    is_named = isinstance(given, dict) and set(given) == {asked["name"]}
    return given[asked["name"]] if is_named and asks_value(asked["schema"]) else given


def asks_value(schema: Mapping[str, Any]) -> bool:
    """Does the schema ask for one value, and not for an object of fields?"""
    kinds = _kinds(schema)
    return "object" not in kinds if kinds else bool(choices_of(schema))


def choices_of(schema: Any) -> list[tuple[Any, str]]:
    """The values of `enum`, or of `oneOf` or `anyOf` with constants, each with its title."""
    if not isinstance(schema, dict):
        return []
    if isinstance(listed := schema.get("enum"), list):
        return [(value, str(value)) for value in listed]
    titled = schema.get("oneOf", schema.get("anyOf"))
    if isinstance(titled, list) and all(isinstance(one, dict) and "const" in one for one in titled):
        return [(one["const"], str(one.get("title", one["const"]))) for one in titled]
    return []


def from_text(schema: Any, text: str, parse: Callable[[str], Any] = json.loads) -> Any:
    """A text in the type of the schema; the text itself if it is nothing of the kind.

    Choices may be named by their titles, and an object of one field by that field's value.
    """
    schema = schema if isinstance(schema, dict) else {"type": "string"}
    for value, title in choices_of(schema):
        if text.casefold() in (str(value).casefold(), title.casefold()):
            return value
    kinds = _kinds(schema)
    if "boolean" in kinds and text.casefold() in TRUTH:
        return TRUTH[text.casefold()]
    if "string" in kinds:
        return text
    try:
        value = parse(text)
    except (ValueError, RecursionError):
        value = text
    items, fields = schema.get("items"), schema.get("properties")
    if "array" in kinds and value is text and choices_of(items):
        return [from_text(items, one.strip(), parse) for one in text.split(",") if one.strip()]
    if not isinstance(value, dict) and isinstance(fields, dict) and len(fields) == 1:
        ((name, field),) = fields.items()
        return {name: from_text(field, text, parse)}
    return value


TRUTH = {"true": True, "yes": True, "y": True, "false": False, "no": False, "n": False}
JSON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def checked_answer(asked: Mapping[str, Any], message: "Message") -> Any:
    """The answer, like `answer_of`. Raises NotAnswered for a value of another type, or none of the choices."""
    value = answer_of(asked, message)
    schema = asked.get("schema")
    if value is None:
        raise NotAnswered("An answer is needed.")
    if not isinstance(schema, dict):
        return value
    choices = choices_of(schema)
    if choices and value not in [one for one, _ in choices]:
        raise NotAnswered(f"Choose one of {', '.join(title for _, title in choices)}.")
    known = [kind for kind in _kinds(schema) if kind in JSON_TYPES]
    if known and not any(_is_of(kind, value) for kind in known):
        raise NotAnswered(f"The answer must be of the type {' or '.join(known)}.")
    return value


def _is_of(kind: str, value: Any) -> bool:
    return isinstance(value, JSON_TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    kinds = schema.get("type", "object" if "properties" in schema else [])
    return [one for one in (kinds if isinstance(kinds, list) else [kinds]) if isinstance(one, str)]


def schema_of(model: type["BaseModel"]) -> dict[str, Any]:
    """The model's JSON Schema for forms: without references and without alternatives to null."""
    return without_references(model.model_json_schema())


def without_references(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema for forms, with `$defs` in their places."""
    named = dict(schema)
    return cast(dict[str, Any], _inlined(named, named.pop("$defs", {}), ()))


def is_model(value: object) -> bool:
    return isinstance(value, type) and hasattr(value, "model_json_schema")


def is_instance(value: object) -> bool:
    return not isinstance(value, type) and hasattr(value, "model_dump")


def slot_annotation(method: Callable[..., Any]) -> Any:
    """The slot's annotation in `on_input_received(self, task, slot)`; str without one.

    Raises:
        HandlerError: it cannot be resolved, or no slot is of this type.
    """
    slot = list(inspect.signature(method).parameters.values())[1]
    name = getattr(method, "__qualname__", "on_input_received")
    try:
        kind = typing.get_type_hints(getattr(method, "__func__", method)).get(slot.name, str)
    except NameError as error:
        raise HandlerError(f"The annotations of {name} cannot be read: {error}. Define it in the module.") from error
    if wrong := [one for one in _members(kind) if one not in UNTYPED and not _is_kind(one)]:
        raise HandlerError(
            f"{name} cannot take a slot as {getattr(wrong[0], '__name__', wrong[0])}. "
            "Annotate it as str, an Enum, a Pydantic model, or a union of them."
        )
    return kind


def _is_kind(value: object) -> bool:
    return is_model(value) or (isinstance(value, type) and issubclass(value, Enum))


def _members(kind: Any) -> tuple[Any, ...]:
    if isinstance(kind, typing.TypeAliasType):
        kind = kind.__value__
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return tuple(member for one in typing.get_args(kind) for member in _members(one))
    return (kind,)


def _sentences(error: Any, model: type["BaseModel"]) -> str:
    lines = []
    for problem in error.errors(include_url=False, include_context=False, include_input=False)[:10]:
        field = str(problem["loc"][0]) if problem["loc"] else ""
        known = model.model_fields.get(field)
        label = (known.title if known and known.title else field.replace("_", " ")).strip()
        said = "an answer is needed" if problem["type"] == "missing" else problem["msg"].removeprefix("Value error, ")
        lines.append(f"{label[:1].upper()}{label[1:]}: {said}." if label else f"{said}.")
    return " ".join(lines)


def _inlined(schema: Any, definitions: Mapping[str, Any], within: tuple[str, ...]) -> Any:
    if isinstance(schema, list):
        return [_inlined(one, definitions, within) for one in schema]
    if not isinstance(schema, dict):
        return schema
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    if name in definitions and name not in within:
        named = _inlined(definitions[name], definitions, (*within, name))
        return {**named, **{key: value for key, value in schema.items() if key != "$ref"}}
    schema = {key: _inlined(value, definitions, within) for key, value in schema.items()}
    others = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    if len(others) == 1:
        return {**{key: value for key, value in schema.items() if key != "anyOf"}, **others[0]}
    return schema
