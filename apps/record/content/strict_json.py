"""Unambiguous JSON: strict parsing, what the database can store, and the canonical form (RFC 8785) with its SHA-256."""

from __future__ import annotations

import hashlib
import json
import math
import re
from decimal import Decimal
from typing import Any, NoReturn

import rfc8785
from django import forms
from django.conf import settings
from rfc8785 import IntegerDomainError

UNSTORABLE = re.compile("[\0\ud800-\udfff]")
LARGEST_EXACT = 2**53 - 1  # of a JSON number, which is a double (RFC 8259 §6)


class InvalidJSON(ValueError):
    """The text is not strict JSON; `str()` says why."""


def parse(body: bytes) -> Any:
    """The value of a body.

    Raises InvalidJSON for text that is not UTF-8, NaN, Infinity, duplicate keys, nesting deeper than `MAX_JSON_DEPTH`
    and numbers of more than `MAX_NUMBER_DIGITS` digits.
    """
    try:
        value = _decoder.decode(body.decode())
    except UnicodeDecodeError:
        raise InvalidJSON("The body is not UTF-8.") from None
    except json.JSONDecodeError as error:
        raise InvalidJSON(f"The body is not JSON: {error.msg} (line {error.lineno}, column {error.colno}).") from None
    except RecursionError:
        _refuse_depth()
    # Each level has a bracket, so few brackets need no deeper check.
    if body.count(b"{") + body.count(b"[") > settings.MAX_JSON_DEPTH:
        _check_depth(value)
    return value


def read(text: str | bytes) -> Any:
    """The value of a text, as the database can store it. Raises ValueError: see `parse` and `to_storable`."""
    return to_storable(parse(text.encode(errors="replace") if isinstance(text, str) else text))


def to_storable(value: Any, *, repair: bool = False) -> Any:
    """A JSON value that the database can store: an integer beyond 2**53 becomes the nearest double.

    With `repair`, U+FFFD takes the place of characters that it cannot store. Raises ValueError with a sentence for
    those, and for what JSON cannot hold: NaN, infinity, and types of Python that it does not have.
    """
    if isinstance(value, str):
        if UNSTORABLE.search(value):
            if repair:
                return UNSTORABLE.sub("\ufffd", value)
            raise ValueError("Strings must not contain U+0000 or half of a surrogate pair.")
        return value
    if isinstance(value, dict):
        return {to_storable(key, repair=repair): to_storable(one, repair=repair) for key, one in value.items()}
    if isinstance(value, list):
        return [to_storable(inner, repair=repair) for inner in value]
    check_scalar(value)
    if isinstance(value, int) and not -LARGEST_EXACT <= value <= LARGEST_EXACT:
        try:
            return float(value)
        except OverflowError:
            raise ValueError("A number is too large.") from None
    return value


def check_scalar(value: Any) -> None:
    """Raises ValueError for what is no number, boolean or null of JSON."""
    if not isinstance(value, int | float | None):
        raise ValueError(f"A {type(value).__name__} cannot be sent: use text, numbers, lists, dicts and None.")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("NaN and infinity cannot be sent: JSON has no such numbers.")


class FormField(forms.JSONField):
    """A field of a form with JSON that the database can store; None if it is empty."""

    def prepare_value(self, value: Any) -> Any:
        return "" if value is None else super().prepare_value(value)

    def to_python(self, value: Any) -> Any:
        if value in self.empty_values:
            return None
        try:
            return read(str(value))
        except ValueError as problem:
            raise forms.ValidationError(str(problem).replace("The body", "It"), code="invalid") from None

    def bound_data(self, data: Any, initial: Any) -> Any:
        """What was entered, so that an error keeps it."""
        return None if data is None else forms.fields.InvalidJSONInput(data)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) != len(pairs):
        raise InvalidJSON("An object has the same key twice.")
    return built


def _integer(text: str) -> int:
    if len(text) > settings.MAX_NUMBER_DIGITS:
        _check_digits(text)
    return int(text)


def _fraction(text: str) -> float:
    if len(text) > settings.MAX_NUMBER_DIGITS:
        _check_digits(text)
    value = float(text)
    if not math.isfinite(value):
        raise InvalidJSON("A number is too large.")
    return value


def _check_digits(text: str) -> None:
    if sum(map(str.isdigit, text)) > settings.MAX_NUMBER_DIGITS:
        raise InvalidJSON(f"A number has more than {settings.MAX_NUMBER_DIGITS} digits.")


def _constant(name: str) -> NoReturn:
    raise InvalidJSON(f"{name} is not JSON.")


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level := [one for one in level if isinstance(one, dict | list)]:
        depth += 1
        if depth > settings.MAX_JSON_DEPTH:
            _refuse_depth()
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]


def _refuse_depth() -> NoReturn:
    raise InvalidJSON(f"The body is nested deeper than {settings.MAX_JSON_DEPTH} levels.") from None


_decoder = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
)


def canonical(value: Any) -> bytes:
    """The RFC 8785 form. Raises rfc8785.CanonicalizationError for an integer that is not a double."""
    try:
        return _canonical(value)
    except IntegerDomainError:
        return rfc8785.dumps(_with_doubles(value))


def digest_of(value: Any) -> str:
    """SHA-256 of the canonical form, in hexadecimal; of a plain sorted form if an integer is not a double."""
    try:
        content = _canonical(value)
    except IntegerDomainError:
        content = _plain_form(_with_doubles(value))
    return hashlib.sha256(content).hexdigest()


def _canonical(value: Any) -> bytes:
    """The RFC 8785 form; of most values Python's own encoder writes it, in a quarter of the time."""
    return _encode_sorted(value).encode() if _is_written_alike(value) else rfc8785.dumps(value)


_encode_sorted = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def _is_written_alike(value: Any) -> bool:
    """Whether it has no number and no key that RFC 8785 writes or sorts in a way of its own."""
    if isinstance(value, str) or value is None:
        return True
    if isinstance(value, dict):
        return all(isinstance(key, str) and key.isascii() and _is_written_alike(one) for key, one in value.items())
    if isinstance(value, list):
        return all(map(_is_written_alike, value))
    return isinstance(value, int) and -LARGEST_EXACT <= value <= LARGEST_EXACT


def _plain_form(value: Any) -> bytes:
    try:
        return rfc8785.dumps(value)
    except IntegerDomainError:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _with_doubles(value: Any) -> Any:
    """The value with integers that a database made of doubles (1e23 as 100000000000000000000000) as doubles."""
    if isinstance(value, dict):
        return {name: _with_doubles(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_with_doubles(one) for one in value]
    return float(value) if isinstance(value, int) and _is_double(value) else value


def _is_double(number: int) -> bool:
    """Is a large integer exactly a double's decimal form?"""
    try:
        return abs(number) > 2**53 and Decimal(repr(float(number))) == number
    except OverflowError:
        return False
