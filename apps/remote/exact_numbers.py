"""Whole numbers on their way through protobuf, whose values are doubles: beyond 2**53 these round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

LARGEST_EXACT = 2**53
NONE: Mapping[float, int] = {}


class Indistinct(ValueError):
    """Two numbers beyond 2**53 are the same double, or a number is beyond all doubles."""


def large_integers(value: Any) -> dict[float, int]:
    """The integers of a JSON value beyond 2**53, by the doubles that protobuf makes of them. Raises Indistinct."""
    found: dict[float, int | float] = {}
    for number in _large_numbers(value):
        try:
            is_known = found.setdefault(float(number), number) == number
        except OverflowError:
            raise Indistinct("A number is beyond 10^308") from None
        if not is_known:
            raise Indistinct("Numbers beyond 2^53 are too close to one another")
    return {double: number for double, number in found.items() if isinstance(number, int)}


def known_integers(value: Any) -> dict[float, int]:
    """As `large_integers`, without those that cannot be told apart: these stay doubles."""
    found: dict[float, set[int | float]] = {}
    for number in _large_numbers(value):
        with suppress(OverflowError):
            found.setdefault(float(number), set()).add(number)
    only = {double: next(iter(numbers)) for double, numbers in found.items() if len(numbers) == 1}
    return {double: number for double, number in only.items() if isinstance(number, int)}


def _large_numbers(value: Any) -> Iterator[int | float]:
    if isinstance(value, int | float) and abs(value) >= LARGEST_EXACT:
        yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        yield from _large_numbers(one)


def whole_numbers(value: Any, large: Mapping[float, int] = NONE) -> Any:
    """The JSON value with integers in the place of whole doubles. `large`: those beyond 2**53."""
    if isinstance(value, float):
        if value in large:
            return large[value]
        return int(value) if value.is_integer() and abs(value) < LARGEST_EXACT else value
    if isinstance(value, dict):
        return {name: whole_numbers(inner, large) for name, inner in value.items()}
    if isinstance(value, list):
        return [whole_numbers(inner, large) for inner in value]
    return value
