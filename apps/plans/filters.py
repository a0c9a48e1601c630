"""The filters of templates: those of Jinja whose effort is bounded, and our own for those whose is not."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any

from jinja2 import Undefined, pass_context
from jinja2.filters import FILTERS
from jinja2.runtime import Context, LoopContext

from apps.plans.budgets import check_size, check_sought, fits, look, take

LOOP = frozenset(("index", "index0", "revindex", "revindex0", "first", "last", "length", "previtem", "nextitem"))
BUILT_IN = (
    "abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "int", "items", "last", "length",
    "list", "lower", "map", "max", "min", "reject", "rejectattr", "reverse", "select", "selectattr", "sort", "title",
    "truncate", "unique", "upper", "wordcount",
)  # fmt: skip
"""Jinja's filters whose effort is that of reading what they are given."""


def fields_of(obj: Any) -> frozenset[str]:
    """What can be read of a thing: of a result (a dataclass) its fields."""
    if isinstance(obj, LoopContext):
        return LOOP
    if dataclasses.is_dataclass(obj) and not isinstance(obj, type):
        return frozenset(one.name for one in dataclasses.fields(obj))
    return frozenset()


def written(value: Any) -> str:
    """A value as text: numbers, lists and objects as JSON, nothing for null, a result as its text."""
    if isinstance(value, Undefined | str) or dataclasses.is_dataclass(value):
        return str(value)
    return "" if value is None else _as_json(value)


def _as_json(value: Any, indent: int | None = None) -> str:
    if indent is not None and not 0 <= indent <= 8:
        raise ValueError("indent by 0 to 8")
    if isinstance(value, int | float):
        return json.dumps(value)
    pieces, size = [], 0
    for piece in json.JSONEncoder(ensure_ascii=False, indent=indent, default=_plain).iterencode(value):
        look()
        size += len(piece)
        check_size(size)  # before the next: what is indented, or found in many places, grows far beyond what it is of
        pieces.append(piece)
    return "".join(pieces)


def _plain(value: Any) -> Any:
    if isinstance(value, Undefined):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: getattr(value, name) for name in sorted(fields_of(value))}
    return list(value)


def _each(values: Any) -> Iterator[Any]:
    """What a loop goes over, counted."""
    for one in values:
        take()
        yield one


def _joined(values: Iterable[Any], between: Any = "") -> str:
    pieces: list[str] = []
    separator, size = written(between), 0
    for one in _each(values):
        pieces.append(written(one))
        size += len(pieces[-1]) + len(separator)
        check_size(size)
    return separator.join(pieces)


@pass_context
def _join(context: Context, values: Any, d: Any = "", attribute: str | int | None = None) -> str:
    if attribute is not None:
        values = FILTERS["map"](context, values, attribute=attribute)
    return _joined(values, d)


@pass_context
def _sum(context: Context, values: Any, attribute: str | int | None = None, start: float = 0) -> float:
    if attribute is not None:
        values = FILTERS["map"](context, values, attribute=attribute)
    total = start
    for one in _each(values):
        if not isinstance(one, int | float) or not isinstance(total, int | float):
            raise TypeError("`sum` is for numbers")
        total = fits(total + one)
    return total


def _replace(value: Any, old: Any, new: Any, count: int = -1) -> str:
    text, gone, there = written(value), written(old), written(new)
    check_size(len(text) + text.count(gone) * max(len(there) - len(gone), 0))
    return text.replace(gone, there, count)


def _trim(value: Any, chars: str | None = None) -> str:
    check_sought("trim", chars)
    return str(FILTERS["trim"](value, chars))


def _round(value: float, precision: int = 0) -> float:
    if not -15 <= precision <= 15:
        raise ValueError("round to at most 15 digits")
    return round(float(value), precision)


def bounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter, or a test, that costs something each time. Jinja's marks of what it is given stay with it."""

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        take()
        return fits(function(*args, **kwargs))

    return called


OWN: dict[str, Callable[..., Any]] = {
    "join": _join,
    "replace": _replace,
    "round": _round,
    "string": written,
    "sum": _sum,
    "tojson": _as_json,
    "trim": _trim,
}
EACH, JOINED, MADE = "each", "joined", "made"
"""What loops, `~` and lists are turned into; harmless where a template names them."""


def filters() -> dict[str, Callable[..., Any]]:
    """All that there are, by their names."""
    hidden: dict[str, Callable[..., Any]] = {EACH: _each, JOINED: _joined, MADE: lambda made: made}
    built_in: dict[str, Callable[..., Any]] = {name: FILTERS[name] for name in BUILT_IN}
    return {name: bounded(one) for name, one in (built_in | OWN | hidden).items()}
