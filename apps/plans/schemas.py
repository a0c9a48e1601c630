"""JSON Schemas that plans are written with: whether one can be checked here, and what an object lacks by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, best_match
from pydantic import AfterValidator

from apps.record import answers

JSON = dict[str, Any]


class BadSchema(ValueError):
    """A JSON Schema cannot be; `path` leads to what is wrong in it."""

    def __init__(self, sentence: str, path: Sequence[Any] = ()) -> None:
        super().__init__(sentence)
        self.path = path


def checked(schema: JSON) -> JSON:
    """The schema. Raises BadSchema for one that is none, or that says what nobody checks here."""
    try:
        wrong = best_match(Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema))
    except (SchemaError, RecursionError, TypeError) as error:
        raise BadSchema(f"It is no JSON Schema: {error}") from None
    if wrong is not None:
        raise BadSchema(f"It is no JSON Schema: {wrong.message[: answers.LONGEST_REASON]}", list(wrong.absolute_path))
    if unbounded := sorted(set(answers.UNBOUNDED) & set(answers.keywords(schema))):
        raise BadSchema(f"`{unbounded[0]}` is not checked here. Leave it out.")
    if far := [one for one in _references(schema) if not one.startswith("#")]:
        raise BadSchema(f"`{far[0]}` is not fetched. Refer to what stands in the schema itself (`#/$defs/…`).")
    return schema


def checked_object(schema: JSON) -> JSON:
    """The schema of an object, or {}. Raises BadSchema, for a default too that it does not allow."""
    checked(schema)
    if schema and schema.get("type") != "object":
        raise BadSchema("Write `type: object`, and what there is as `properties`.", ["type"])
    for name, field in properties_of(schema).items():
        if isinstance(field, dict) and "default" in field:
            for _, sentence in answers.problems({**field, "$defs": schema.get("$defs", {})}, field["default"]):
                raise BadSchema(f"The default cannot be: {sentence}", ["properties", name, "default"])
    return schema


Schema = Annotated[JSON, AfterValidator(checked)]
ObjectSchema = Annotated[JSON, AfterValidator(checked_object)]


def properties_of(schema: Mapping[str, Any]) -> JSON:
    found = schema.get("properties", {})
    return found if isinstance(found, dict) else {}


def with_defaults(schema: Mapping[str, Any], given: JSON) -> JSON:
    """The object with the defaults of what it lacks, those of objects in it too."""
    made = dict(given)
    for name, field in properties_of(schema).items():
        if not isinstance(field, dict):
            continue
        if name not in made and "default" in field:
            made[name] = field["default"]
        if isinstance(made.get(name), dict):
            made[name] = with_defaults(field, made[name])
    return made


def _references(schema: Any) -> list[str]:
    found, waiting = [], [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            found += [one["$ref"]] if isinstance(one.get("$ref"), str) else []
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return found
