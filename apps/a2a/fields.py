"""Reading the fields of a ProtoJSON object by hand, and listing everything that is wrong with them.

Names come in camelCase or snake_case, null means absent, unknown fields are ignored
(https://protobuf.dev/programming-guides/json/).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from django.conf import settings

import outbound
from apps.a2a.errors import JSON, InvalidFields
from apps.record.strict_json import LARGEST_EXACT, UNSTORABLE, storable

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
MOST_VIOLATIONS = 20

Violations = list[tuple[str, str]]


class Fields:
    """The fields of one object. What cannot be used is noted, and a harmless value given in its place."""

    def __init__(self, value: JSON, path: str = "", violations: Violations | None = None) -> None:
        self._value = value
        self._path = path
        self._violations: Violations = [] if violations is None else violations

    def check(self) -> None:
        """Raises InvalidFields if anything was noted."""
        if self._violations:
            raise InvalidFields(self._violations[:MOST_VIOLATIONS])

    def refuse(self, name: str, description: str) -> None:
        """Note that the field `name` (or with an empty one the object itself) cannot be used."""
        self._violations.append((self._path_of(name), description))

    def has(self, name: str) -> bool:
        """Is the field there? A null is, for a field of any JSON value."""
        return name in self._value or snake(name) in self._value

    def names(self) -> set[str]:
        """The names of all that is there, as they came."""
        return set(self._value)

    def raw(self, name: str) -> Any:
        """The field as it came; None where it is absent."""
        other = snake(name)
        if other != name and other in self._value:
            if name in self._value:
                self.refuse(name, f"Comes twice, as {name} and as {other}.")
            return self._value[other]
        return self._value.get(name)

    def text(self, name: str, *, required: bool = False, single_line: bool = False) -> str:
        """A string; "" where it is absent. A single line has no control characters and at most MAX_ID_LENGTH."""
        value = self.raw(name)
        if value is None:
            value = ""
        if not isinstance(value, str):
            self.refuse(name, "Must be a string.")
            return ""
        if required and not value:
            self.refuse(name, "Is required.")
        elif UNSTORABLE.search(value):
            self.refuse(name, "Must not contain U+0000 or half of a surrogate pair.")
        elif single_line and (description := unfit_line(value)):
            self.refuse(name, description)
        return str(value)

    def url(self, name: str) -> str:
        """A URL that may be called, judged by what it says itself: its name is looked up by whoever calls it."""
        value = self.raw(name)
        if value is None or value == "":
            self.refuse(name, "Is required.")
        elif not isinstance(value, str):
            self.refuse(name, "Must be a string.")
        else:
            try:
                outbound.guard().check(value)
            except outbound.Forbidden as refusal:
                self.refuse(name, str(refusal))
            else:
                return value
        return ""

    def integer(self, name: str, least: int, most: int = 2**31 - 1) -> int | None:
        """An integer, which ProtoJSON also writes as a string or with an empty fraction."""
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, str) and re.fullmatch(r"-?\d{1,10}", value, re.ASCII):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            self.refuse(name, "Must be an integer.")
        elif not least <= value <= most:
            self.refuse(name, f"Must be from {least} to {most}.")
        else:
            return value
        return None

    def number(self, name: str, *, most: float = LARGEST_EXACT) -> float | None:
        """A number that is not negative, which ProtoJSON also writes as a string."""
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, str) and re.fullmatch(r"-?\d{1,20}(\.\d{1,20})?", value, re.ASCII):
            value = float(value)
        if not isinstance(value, int | float) or isinstance(value, bool):
            self.refuse(name, "Must be a number.")
        elif not 0 <= value <= most:
            self.refuse(name, f"Must be from 0 to {most:,}.")
        else:
            return float(value)
        return None

    def flag(self, name: str) -> bool:
        value = self.raw(name)
        if value is not None and not isinstance(value, bool):
            self.refuse(name, "Must be true or false.")
        return value is True

    def struct(self, name: str) -> JSON:
        """A JSON object; {} where it is absent."""
        value = self.raw(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.refuse(name, "Must be an object.")
            return {}
        plain: JSON = self.value(name)
        return plain

    def value(self, name: str) -> Any:
        """Any JSON value, fit for the record."""
        try:
            return storable(self.raw(name))
        except ValueError as error:
            self.refuse(name, str(error))
            return {}

    def message(self, name: str, *, required: bool = False) -> Fields | None:
        """The fields of an object within this one."""
        value = self.raw(name)
        if value is None:
            if required:
                self.refuse(name, "Is required.")
            return None
        if not isinstance(value, dict):
            self.refuse(name, "Must be an object.")
            return None
        return Fields(value, self._path_of(name), self._violations)

    def messages(self, name: str) -> Iterator[Fields]:
        """The fields of each object of a list."""
        for position, value in enumerate(self._list(name)):
            path = f"{self._path_of(name)}[{position}]"
            if isinstance(value, dict):
                yield Fields(value, path, self._violations)
            else:
                self._violations.append((path, "Must be an object."))

    def lines(self, name: str, most: int = 100) -> list[str]:
        """A list of strings of one line each."""
        values = self._list(name)
        if len(values) > most:
            self.refuse(name, f"At most {most}.")
            return []
        for position, value in enumerate(values):
            description = unfit_line(value) if isinstance(value, str) else "Must be a string."
            if description:
                self._violations.append((f"{self._path_of(name)}[{position}]", description))
        return values

    def _list(self, name: str) -> list[Any]:
        value = self.raw(name)
        if value is None:
            return []
        if not isinstance(value, list):
            self.refuse(name, "Must be a list.")
            return []
        return value

    def _path_of(self, name: str) -> str:
        return ".".join(filter(None, (self._path, name)))


@lru_cache(maxsize=1000)  # names come from callers, too
def snake(name: str) -> str:
    """The field's name in the .proto file."""
    return re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", name)


def unfit_line(text: str) -> str:
    """Why a text is none of a single line, such as an id; "" where it is."""
    if len(text) > settings.MAX_ID_LENGTH:
        return f"At most {settings.MAX_ID_LENGTH} characters."
    if CONTROL.search(text) or UNSTORABLE.search(text):
        return "Must not contain control characters or half of a surrogate pair."
    return ""
