"""Serializers with camelCase names that refuse unknown fields.

They parse requests and declare responses. `Shape.json_of` makes a response, many times faster than DRF's own `data`.
The record's are made by hand (`shapes`), which is faster still. Tests compare all with their declarations.
"""

from __future__ import annotations

import datetime
import difflib
import re
import uuid
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.http import QueryDict
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field, extend_schema_serializer
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from apps.record import wire
from apps.record.content import strict_json

UNKNOWN = "Unknown field."
LONGEST_NAME = 100  # characters that are compared with known names
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@lru_cache(maxsize=1000)
def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def unknown_field(name: str, known: Iterable[str]) -> str:
    """Says that there is no such field, and which one may be meant."""
    alike = {one.replace("_", "").casefold(): one for one in known}
    near = difflib.get_close_matches(name[:LONGEST_NAME].replace("_", "").casefold(), alike, n=1)
    return f"{UNKNOWN} Did you mean `{alike[near[0]]}`?" if near else UNKNOWN


# A docstring of these base classes would be in the schema as the description of every shape.


class Shape(serializers.Serializer[Any]):
    # a JSON object: fields are declared in snake_case and appear in camelCase

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        said = {}
        for name, field in super().get_fields().items():
            if camel(name) != name and field.source is None:
                field.source = name
            said[camel(name)] = field
        return said

    @classmethod
    def json_of(cls, row: Any, **given: Any) -> dict[str, Any]:
        """The response about a row: each field is `given`, or the attribute of its name or `source`.

        A path such as `agent.slug` leads to null where there is no agent.
        """
        shown = {}
        for name, field in cls._declared_fields.items():
            value = given[name] if name in given else _value_at(row, field.source or name)
            if isinstance(value, datetime.datetime):
                value = wire.timestamp(value)
            shown[camel(name)] = str(value) if isinstance(value, uuid.UUID) else value
        return shown

    @classmethod
    def list_of(cls, rows: Iterable[Any]) -> list[dict[str, Any]]:
        return [cls.json_of(row) for row in rows]


def _value_at(row: Any, path: str) -> Any:
    for name in path.split("."):
        row = None if row is None else getattr(row, name)
    return row


class Strict(serializers.Serializer[Any]):
    # refuses unknown fields

    def to_internal_value(self, data: Any) -> Any:
        writable = {name for name, field in self.fields.items() if not field.read_only}
        if isinstance(data, Mapping) and (unknown := [name for name in data if name not in writable]):
            raise ValidationError({name: [unknown_field(str(name), writable)] for name in unknown[:20]})
        return super().to_internal_value(data)


JSON_KINDS: tuple[tuple[tuple[type, ...], tuple[type, ...], str], ...] = (
    ((serializers.BooleanField,), (bool,), "true or false"),
    ((serializers.IntegerField,), (int,), "an integer"),
    ((serializers.FloatField,), (int, float), "a number"),
    ((serializers.CharField, serializers.UUIDField, serializers.DateTimeField), (str,), "a string"),
)
"""Which JSON values fields are read from, which by themselves would take what can be made one."""


class Body(Strict, Shape):
    # the body of a request

    def to_internal_value(self, data: Any) -> Any:
        given = data.items() if isinstance(data, Mapping) else ()
        if wrong := {name: [words] for name, value in given if (words := self._unfit(name, value))}:
            raise ValidationError(wrong)
        return super().to_internal_value(data)

    def _unfit(self, name: str, value: Any) -> str:
        """The required kind; "" if the value is right or the field decides."""
        field = self.fields.get(name)
        if field is None or value is None:
            return ""
        for fields, kinds, words in JSON_KINDS:
            if isinstance(field, fields):
                fits = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
                return "" if fits else f"Must be {words}."
        return ""


class Query(Strict):
    """The query string; names stay in snake_case."""

    def __init__(self, *, data: QueryDict | None = None, **options: Any) -> None:
        given = data or QueryDict()  # none for the schema
        super().__init__(data={name: self._value(name, values) for name, values in given.lists()}, **options)

    def _value(self, name: str, values: list[str]) -> Any:
        """Lists may be repeated, comma-separated, or both."""
        if isinstance(self.fields.get(name), serializers.ListField):
            return [one for value in values for one in value.split(",") if one]
        return values[0] if len(values) == 1 else values


class Token(serializers.RegexField):
    """A token from a response; URL-safe."""

    default_error_messages = {"invalid": "This is not a valid token. Start again without one."}

    def __init__(self, **options: Any) -> None:
        usual: dict[str, Any] = {"max_length": 1000, "default": "", "allow_blank": True}
        super().__init__("^[A-Za-z0-9_.=-]*(:[A-Za-z0-9_.=-]*){0,2}$", **{**usual, **options})


class Choice(serializers.ChoiceField):
    """Its error message lists the options."""

    def __init__(self, choices: Any, **options: Any) -> None:
        super().__init__(choices, **options)
        self.error_messages["invalid_choice"] = f"Must be one of {', '.join(map(str, self.choices))}."


class Listing(Query):
    """For paginated lists."""

    limit = serializers.IntegerField(
        min_value=1, max_value=100, default=50, help_text="The maximum number of items on a page."
    )
    cursor = Token(help_text="The `nextCursor` of the previous page.")


@extend_schema_field(OpenApiTypes.ANY)
class AnyValue(serializers.JSONField):
    """JSON that the database can store."""

    def to_internal_value(self, data: Any) -> Any:
        try:
            return strict_json.received(data)
        except ValueError as error:
            raise ValidationError(str(error)) from None


@extend_schema_field(OpenApiTypes.OBJECT)
class Struct(AnyValue):
    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, dict):
            raise ValidationError("Must be an object.")
        return super().to_internal_value(data)


class Line(serializers.CharField):
    """One line without control characters, such as an id."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"max_length": settings.MAX_ID_LENGTH, "trim_whitespace": False, **options})

    def to_internal_value(self, data: Any) -> str:
        text: str = super().to_internal_value(data)
        if CONTROL.search(text):
            raise ValidationError("Must not contain control characters.")
        return text


class Text(serializers.CharField):
    """Text of any lines, as it was written."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"trim_whitespace": False, **options})


class Moment(serializers.DateTimeField):
    """A time, shown to the millisecond."""

    def to_representation(self, value: datetime.datetime) -> str:
        return wire.timestamp(value)


class LocalTime(Moment):
    """Without an offset, a time in a zone that the service knows: it is left without one."""

    def enforce_timezone(self, value: datetime.datetime) -> datetime.datetime:
        return value


def page_of(shape: type[Shape]) -> type[Shape]:
    fields = {
        "items": shape(many=True),
        "next_cursor": serializers.CharField(help_text="The `cursor` of the next page. Empty on the last page."),
        "__doc__": "",
    }
    made = type(f"{shape.__name__.removesuffix('Shape')}Page", (Shape,), fields)
    page: type[Shape] = extend_schema_serializer(many=False)(made)
    return page
