"""Checking values against agents' JSON Schemas.

Both may be hostile. Schemas that cannot be checked in bounded time are left to the agent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator, ValidationError, validators
from jsonschema.exceptions import SchemaError, UnknownType
from jsonschema.protocols import Validator
from pydantic_core import SchemaError as BadPattern
from pydantic_core import SchemaValidator, core_schema
from referencing import Registry
from referencing.exceptions import Unresolvable

from agentkit.slots import asks_value, value_in
from apps.record.errors import InvalidParams
from apps.record.events import JSON

MAX_REFERENCES = 1_000  # per check: a schema may refer to itself
MAX_REASON_LENGTH = 300  # characters
MAX_VIOLATIONS = 1_000  # per value
UNBOUNDED_KEYWORDS = ("patternProperties", "unevaluatedProperties", "unevaluatedItems", "uniqueItems", "$dynamicRef")
"""A schema with one of these is not checked: they use Python's regular expressions, or compare all with all."""


class SchemaTooComplex(Exception):
    """The schema cannot be checked in bounded time, or is invalid."""


UNCHECKABLE = (
    SchemaTooComplex,
    Unresolvable,
    SchemaError,
    UnknownType,
    RecursionError,
    ArithmeticError,
    TypeError,
    ValueError,
)
"""What validators raise for invalid schemas."""


def answer_data(slot: Mapping[str, Any] | None, given: Any) -> Any:
    """An answer's data for agents: an object of fields, or the single value that the slot asks for.

    Raises InvalidParams with the path of the first field that does not fit the slot's schema.
    """
    schema = (slot or {}).get("schema")
    if slot and isinstance(schema, dict) and asks_value(schema):
        value = value_in(slot, given)
        validate(schema, value, "data")
        return value
    if not isinstance(given, dict):
        raise InvalidParams("Send an object with a value for each requested field.", "data")
    if isinstance(schema, dict):
        validate(_without_files(schema), given, "data")
    return given


def validate(schema: Any, value: Any, path: str) -> None:
    """Raises InvalidParams, with the field's path below `path`, for an invalid value."""
    for steps, sentence in violations(schema, value):
        raise InvalidParams(sentence, ".".join([path, *map(str, steps)]))


def violations(schema: Any, value: Any) -> list[tuple[list[Any], str]]:
    """The value's violations of the schema, by field: the path of the field, and a sentence."""
    try:
        return strict_violations(schema, value)
    except SchemaTooComplex:
        return []


def strict_violations(schema: Any, value: Any) -> list[tuple[list[Any], str]]:
    """The value's violations, like `violations`. Raises SchemaTooComplex for a schema that cannot be checked."""
    if any(name in UNBOUNDED_KEYWORDS for name in keywords(schema)):
        raise SchemaTooComplex
    try:
        errors = list(islice(_validator(schema).iter_errors(value), MAX_VIOLATIONS))
    except UNCHECKABLE as error:
        raise SchemaTooComplex from error
    errors.sort(key=lambda error: [str(step) for step in error.absolute_path])
    return [(_steps(error), f"{error.message[:MAX_REASON_LENGTH].rstrip('.')}.") for error in errors]


def _steps(error: ValidationError) -> list[Any]:
    """The path of the invalid or missing field."""
    steps = list(error.absolute_path)
    if error.validator == "required":
        steps += [name for name in error.validator_value if name not in error.instance][:1]
    return steps


def _validator(schema: Any) -> Validator:
    """A validator that fetches nothing and takes bounded time."""
    followed = 0

    def reference(validator: Any, to: Any, value: Any, within: Any) -> Iterator[ValidationError]:
        nonlocal followed
        followed += 1
        if followed > MAX_REFERENCES:
            raise SchemaTooComplex
        yield from Draft202012Validator.VALIDATORS["$ref"](validator, to, value, within)

    bounded = validators.extend(Draft202012Validator, {"$ref": reference, "pattern": _pattern})
    return bounded(schema, registry=Registry())


def _pattern(validator: Any, pattern: Any, value: Any, _: Any) -> Iterator[ValidationError]:
    """Match in linear time, by Rust's engine; patterns that it does not support are left to the agent."""
    if not isinstance(value, str):
        return
    try:
        known = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except (BadPattern, TypeError):
        return
    if not known.isinstance_python(value):
        yield ValidationError(f"{value[:100]!r} does not match {pattern!r}.")


def objects(schema: Any) -> Iterator[JSON]:
    """All objects in a schema, at any depth."""
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)


def keywords(schema: Any) -> Iterator[str]:
    """All keys in a schema, at any depth."""
    return (key for one in objects(schema) for key in one)


def _without_files(schema: JSON) -> JSON:
    """The schema without file fields, whose answers are parts of their own."""
    fields = schema.get("properties")
    if not isinstance(fields, dict):
        return schema
    files = {name for name, field in fields.items() if is_file(field)}
    required = schema.get("required")
    must = [name for name in required if name not in files] if isinstance(required, list) else []
    return {**schema, "properties": {name: fields[name] for name in fields if name not in files}, "required": must}


def is_file(field: Any) -> bool:
    return isinstance(field, dict) and (field.get("format") == "binary" or field.get("contentEncoding") == "base64")
