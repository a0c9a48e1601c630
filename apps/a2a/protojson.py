"""ProtoJSON (https://protobuf.dev/programming-guides/json/) in Pydantic models, and queries as ProtoJSON.

Names are camelCase or snake_case, null means absent, and unknown fields are ignored. Errors name the field's path.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Self
from urllib.parse import parse_qsl

from django.conf import settings
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel, to_snake
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from apps.a2a.errors import JSON
from apps.record.content.composing import callable_url, standard_base64
from apps.record.content.strict_json import received
from apps.record.errors import InvalidFields, InvalidParams

MAX_VIOLATIONS = 20
COMES_TWICE = PydanticCustomError("comes_twice", "Comes twice, in camelCase and in snake_case.")


class ProtoMessage(BaseModel):
    """A message of a .proto file, or of that style."""

    model_config = ConfigDict(alias_generator=to_camel, strict=True, frozen=True)
    nullable: ClassVar[frozenset[str]] = frozenset()  # fields that may be null
    one_of: ClassVar[tuple[str, ...]] = ()  # exactly one must be set
    spellings: ClassVar[dict[str, str]]  # other spelling -> JSON name

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        names = [field.alias or name for name, field in cls.model_fields.items()]
        cls.spellings = {other: name for name in names for other in (to_snake(name), to_camel(name)) if other != name}

    @model_validator(mode="before")
    @classmethod
    def use_json_names(cls, value: Any) -> Any:
        """Use JSON names, drop nulls, and check `one_of`."""
        if not isinstance(value, dict):
            return value
        named = [
            (cls.spellings.get(name, name), item)
            for name, item in value.items()
            if item is not None or name in cls.nullable
        ]
        fields = dict(named)
        if cls.one_of and sum(name in fields for name in cls.one_of) != 1:
            raise ValueError(f"Must have exactly one of {', '.join(cls.one_of[:-1])} and {cls.one_of[-1]}.")
        if len(fields) < len(named):
            twice = [name for other, name in cls.spellings.items() if other in value and name in value]
            details = [InitErrorDetails(type=COMES_TWICE, loc=(name,), input=None) for name in twice]
            raise ValidationError.from_exception_data(cls.__name__, details)
        return fields

    @classmethod
    def read(cls, params: Any, context: Any = None) -> Self:
        """Parse; `context` is for validators. Raises InvalidParams, InvalidFields."""
        if not isinstance(params, dict):
            raise InvalidParams("params must be an object.", "params")
        try:
            return cls.model_validate(params, context=context)
        except ValidationError as error:
            raise invalid_fields(error) from None


def invalid_fields(error: ValidationError) -> InvalidFields:
    details = error.errors(include_url=False, include_input=False)
    return InvalidFields([(_path(one["loc"]), _sentence(one)) for one in details[:MAX_VIOLATIONS]])


SENTENCES = {
    "missing": "Is required.",
    "string_too_short": "Is required.",
    "too_short": "At least one is required.",
    "string_type": "Must be a string.",
    "string_unicode": "Must not contain half of a surrogate pair.",
    "string_pattern_mismatch": "Contains a character that is not allowed here, or has another form than it must.",
    "string_too_long": "At most {max_length} characters.",
    "too_long": "At most {max_length}.",
    "list_type": "Must be a list.",
    "model_type": "Must be an object.",
    "dict_type": "Must be an object.",
    "bool_type": "Must be true or false.",
    "literal_error": "Must be {expected}.",
    "greater_than_equal": "Must be at least {ge}.",
    "extra_forbidden": "Is not supported here.",
    "less_than_equal": "Must be at most {le}.",
}
"""By the types of Pydantic's errors."""


def _sentence(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    if error["type"] == "value_error":
        return str(context["error"])
    known = SENTENCES.get(error["type"])
    return known.format(**context) if known else error["msg"]  # which may hold braces of the input


def _path(location: tuple[str | int, ...]) -> str:
    """`message.parts[0].text`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location).removeprefix(".")


def _integer(value: Any) -> Any:
    """An integer; ProtoJSON also allows a string or an empty fraction."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,10}", value, re.ASCII):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError("Must be an integer.")
    return value


def _number(value: Any) -> float:
    """A number; ProtoJSON also allows a string."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,20}(\.\d{1,20})?", value, re.ASCII):
        value = float(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError("Must be a number.")
    try:
        return float(value)
    except OverflowError:
        raise ValueError("Is too large.") from None


LINE_PATTERN = r"^[^\x00-\x1f\x7f-\x9f]*$"
_line = StringConstraints(pattern=LINE_PATTERN, max_length=settings.MAX_ID_LENGTH)
_required_line = StringConstraints(pattern=LINE_PATTERN, min_length=1, max_length=settings.MAX_ID_LENGTH)

Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
Line = Annotated[str, _line]
RequiredLine = Annotated[str, _required_line]
"""A text of one line, such as an id."""
Lines = Annotated[list[Line], Field(max_length=100)]
Integer = Annotated[int, BeforeValidator(_integer)]
Number = Annotated[float, BeforeValidator(_number)]
Url = Annotated[str, Field(min_length=1), AfterValidator(callable_url)]
Base64 = Annotated[str, AfterValidator(standard_base64)]
Struct = Annotated[dict[Any, Any], AfterValidator(received)]
"""A JSON object that the record can store."""
Value = Annotated[Any, AfterValidator(received)]
"""Any JSON value that the record can store."""


MAX_PARAMETERS = 100


def read_query(query: str) -> JSON:
    """The non-empty parameters of a query (A2A 1.0 §11.5); flags and enum numbers get JSON types.

    Raises InvalidParams if it is not UTF-8, has too many parameters, or repeats one.
    """
    try:
        pairs = parse_qsl(query, errors="strict", max_num_fields=MAX_PARAMETERS)
    except UnicodeDecodeError:
        raise InvalidParams("The query is not UTF-8.") from None
    except ValueError:
        raise InvalidParams(f"The query has more than {MAX_PARAMETERS} parameters.") from None
    given: JSON = {}
    for name, text in pairs:
        if name in given:
            raise InvalidFields([(name, "Comes twice.")])
        given[name] = QUERY_TYPES.get(name, str)(text)
    return given


def _query_flag(text: str) -> bool | str:
    return {"true": True, "false": False}.get(text, text)


def _query_enum(text: str) -> int | str:
    is_number = text.isascii() and text.isdecimal() and len(text) < 10
    return int(text) if is_number else text


QUERY_TYPES: dict[str, Callable[[str], Any]] = {
    "includeArtifacts": _query_flag,
    "include_artifacts": _query_flag,
    "status": _query_enum,
}
"""The parameters that are not strings in ProtoJSON. (Integers may be.)"""
