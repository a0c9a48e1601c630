"""Values that templates read in another process: JSON as it is, and results and lazy mappings by reference.

The caller's side (`Given`) numbers what is no JSON, and gives each of its fields when the template's process asks for
it. So a template costs what it reads, not what it could read. The template's side (`Received`) makes a `Result` or a
`LazyMapping` of each number. Only JSON comes back, in which a number stands for the caller's own object.
"""

from __future__ import annotations

import dataclasses
import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

TEXT = ""  # the field that is the text of a result
NAMES = 0  # the number of the mapping of all names


class Given:
    """What a caller gives to its templates: JSON, dataclasses, and mappings that may read on demand."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.mark = secrets.token_hex(16)  # the key of a reference: no data can hold it
        self._objects: list[Any] = [names]
        self._numbers = {id(names): NAMES}

    def field(self, number: int, key: str) -> str:
        """The field as JSON. Raises LookupError for what was never given, and what the mapping raises."""
        owner = self._objects[number]
        if isinstance(owner, Mapping):
            return self._encoded(owner[key])
        if key == TEXT:
            return self._encoded(str(owner))
        if key not in _fields(owner):
            raise LookupError(key)
        return self._encoded(getattr(owner, key))

    def decode(self, text: str) -> Any:
        """JSON from the template's process, with the objects that it refers to."""
        return json.loads(text, object_hook=self._object)

    def _encoded(self, value: Any) -> str:
        return json.dumps(value, default=self._reference)

    def _reference(self, value: Any) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {self.mark: self._number(value), "fields": _fields(value)}
        if isinstance(value, Mapping):
            return {self.mark: self._number(value), "keys": list(value)}
        return list(value) if isinstance(value, Iterable) else str(value)

    def _number(self, value: Any) -> int:
        number = self._numbers.setdefault(id(value), len(self._objects))
        if number == len(self._objects):
            self._objects.append(value)  # which also keeps its id from being reused
        return number

    def _object(self, read: dict[str, Any]) -> Any:
        return self._objects[read[self.mark]] if self.mark in read else read


def _fields(value: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(value)]


Read = Callable[[int, str], str]
"""Asks for a field by number and key. Returns JSON; raises ValueError if the caller cannot read it."""


class Received:
    """The other side of `Given`: decodes what it gives, and asks for each field once."""

    def __init__(self, mark: str, names: list[str], read: Read) -> None:
        self._mark, self._read = mark, read
        self._known: dict[int, Result | LazyMapping] = {}
        self._fields: dict[tuple[int, str], Any] = {}
        self.names = LazyMapping(self, NAMES, names)

    def field(self, number: int, key: str) -> Any:
        """Raises ValueError if the caller cannot read it."""
        if (number, key) not in self._fields:
            self._fields[number, key] = json.loads(self._read(number, key), object_hook=self._object)
        return self._fields[number, key]

    def reference(self, result: Result) -> dict[str, int]:
        """What `Given.decode` reads as the caller's object."""
        return {self._mark: result.number}

    def _object(self, read: dict[str, Any]) -> Any:
        if self._mark not in read:
            return read
        number = read[self._mark]
        if number not in self._known:
            made = Result(self, number, read["fields"]) if "fields" in read else LazyMapping(self, number, read["keys"])
            self._known[number] = made
        return self._known[number]


class Result:
    """A caller's dataclass."""

    def __init__(self, received: Received, number: int, fields: list[str]) -> None:
        self._received, self.number, self.fields = received, number, tuple(fields)

    def read(self, name: str) -> Any:
        """One of `fields`. Raises ValueError if the caller cannot read it."""
        return self._received.field(self.number, name)

    def __str__(self) -> str:
        return str(self.read(TEXT))


class LazyMapping(Mapping[str, Any]):
    """A caller's mapping, whose values are read when they are used."""

    def __init__(self, received: Received, number: int, keys: list[str]) -> None:
        self._received, self._number, self._keys = received, number, dict.fromkeys(keys)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return self._received.field(self._number, key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
