"""Unambiguous JSON: strict parsing, what the database can store, and the canonical form (RFC 8785) with its SHA-256."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import re
import sys
from array import array
from collections.abc import Iterator
from decimal import Decimal
from itertools import accumulate
from typing import Any, NoReturn

import rfc8785
from django import forms
from django.conf import settings
from rfc8785 import IntegerDomainError

UNSTORABLE = re.compile("[\0\ud800-\udfff]")
LARGEST_EXACT = 2**53 - 1  # of a JSON number, which is a double (RFC 8259 §6)


class InvalidJSON(ValueError):
    """The text is not strict JSON; `str()` says why."""


STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
STRINGS = re.compile(STRING, re.DOTALL)
WHOLE_STRINGS = re.compile(rb'(?:[^"]*+' + STRING + rb")*+", re.DOTALL)
PIECE = 64 * 1024  # bytes that are counted at once, since nobody else runs meanwhile
NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
STEPS = bytes.maketrans(b"[{]}", bytes([1, 1, 255, 255]))  # as signed bytes: one level down, one up


def parse(body: bytes, most: int = 0) -> Any:
    """The value of a body, which may hold `most` values, by default `MAX_JSON_VALUES`.

    Raises InvalidJSON for text that is not UTF-8, NaN, Infinity, duplicate keys, nesting deeper than `MAX_JSON_DEPTH`,
    numbers of more than `MAX_NUMBER_DIGITS` digits, and too many values.
    """
    if body.count(b",") + body.count(b"[") + body.count(b"{") > settings.MAX_JSON_DEPTH:
        _check_size(body, most or settings.MAX_JSON_VALUES)
    try:
        return (_decoder if LONG_DIGITS.search(body) else _plain_decoder).decode(body.decode())
    except UnicodeDecodeError:
        raise InvalidJSON("The body is not UTF-8.") from None
    except json.JSONDecodeError as error:
        raise InvalidJSON(f"The body is not JSON: {error.msg} (line {error.lineno}, column {error.colno}).") from None


def parse_at(text: str, start: int, most: int) -> tuple[Any, int]:
    """The value that begins at `start`, and where it ends. Raises InvalidJSON as `parse` does."""
    try:
        value, end = _decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise InvalidJSON(f"The body is not JSON: {error.msg} (line {error.lineno}, column {error.colno}).") from None
    except RecursionError:
        raise InvalidJSON(f"The body is nested deeper than {settings.MAX_JSON_DEPTH} levels.") from None
    _check_size(text[start:end].encode(), most)
    return value, end


def _check_size(body: bytes, most: int) -> None:
    """Count before parsing, since objects of Python take a hundred times the memory of the text.

    Values are the items of lists, the fields of objects, and lists and objects themselves.
    """
    values = level = 0
    for bare in _without_strings(body):
        values += bare.count(b",") + bare.count(b"[") + bare.count(b"{")
        if values > most:
            raise InvalidJSON(f"The body has more than {most} values. Send less at once, or a file.")
        levels = [*accumulate(array("b", bare.translate(STEPS, NO_BRACKETS)), initial=level)]
        if max(levels) > settings.MAX_JSON_DEPTH:
            raise InvalidJSON(f"The body is nested deeper than {settings.MAX_JSON_DEPTH} levels.")
        level = levels[-1]


def _without_strings(body: bytes) -> Iterator[bytes]:
    """The text between strings, in pieces. A string without an end, which is not JSON, may be left in."""
    start = 0
    while start < len(body):
        until = WHOLE_STRINGS.match(body, start, start + PIECE)
        end = until.end() if until else start
        if end == start:  # no string ends in this piece
            quote = body.find(b'"', start, start + PIECE)
            end = quote if quote > start else min(start + PIECE, len(body))
            if quote == start:
                string = STRINGS.match(body, start)
                start = string.end() if string else len(body)
                continue
        yield STRINGS.sub(b"", body[start:end])
        start = end


def read(text: str | bytes) -> Any:
    """The value of a text, as the database can store it. Raises ValueError: see `parse` and `to_storable`."""
    return to_storable(parse(text.encode(errors="replace") if isinstance(text, str) else text))


def to_storable(value: Any, *, repair: bool = False) -> Any:
    """A JSON value that the database can store; integers keep all their digits.

    With `repair`, U+FFFD takes the place of characters that it cannot store. Raises ValueError with a sentence for
    those, for integers beyond all doubles, and for what JSON cannot hold: NaN, infinity, and types
    of Python that it does not have.
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
    return value


ODD = re.compile(r"\\u0000|[\ud800-\udfff]|\d{300}")  # in JSON text: what may have to be refused


def received(value: Any) -> Any:
    """As `to_storable`, for a value that `parse` gave: its text is searched, which is faster than its parts."""
    return to_storable(value) if ODD.search(json.dumps(value, ensure_ascii=False)) else value


def check_scalar(value: Any) -> None:
    """Raises ValueError for what is no number, boolean or null of JSON, and for integers beyond all doubles."""
    if value is not None and not isinstance(value, (int, float)):
        raise ValueError(f"A {type(value).__name__} cannot be sent: use text, numbers, lists, dicts and None.")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("NaN and infinity cannot be sent: JSON has no such numbers.")
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise ValueError(f"A number is too large: it must not be over {sys.float_info.max:.1e}.")


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


LONG_NUMBER = 40  # characters: shorter ones are not looked at


def _integer(text: str) -> int:
    if len(text) > LONG_NUMBER:
        _check_digits(text)
    return int(text)


def _fraction(text: str) -> float:
    if len(text) > LONG_NUMBER:
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


LONG_DIGITS = re.compile(rb"[0-9]{%d}" % LONG_NUMBER)
_decoder = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
)
_plain_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_float=_fraction, parse_constant=_constant)
"""Of texts without LONG_DIGITS, whose integers need no look."""


def timestamp(at: datetime.datetime) -> str:
    """The time as ProtoJSON, in UTC with milliseconds."""
    return at.astimezone(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def size_of(value: Any) -> int:
    """Bytes of a JSON value as text. Raises ValueError for what JSON cannot hold."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode())


def canonical(value: Any) -> bytes:
    """The RFC 8785 form. Raises rfc8785.CanonicalizationError for an integer that is not a double."""
    return _simple_form(value) or _exact_form(value)


def digest_of(value: Any) -> str:
    """SHA-256 of the canonical form, in hexadecimal. Integers that are no doubles count by their digits."""
    return hashlib.sha256(_simple_form(value) or _exact_form(value, as_text=True)).hexdigest()


def _exact_form(value: Any, *, as_text: bool = False) -> bytes:
    """`as_text`: see `_with_doubles`."""
    try:
        return rfc8785.dumps(value)
    except IntegerDomainError:
        return rfc8785.dumps(_with_doubles(value, as_text=as_text))


TEXTS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
UTF_16 = re.compile("[\ud800-\U0010ffff]")  # characters that RFC 8785 may order in another way
ODD_NUMBER = re.compile(r"[0-9]e|\.0(?![0-9])|(?<![0-9.])[0-9]{16}|[NI]")


_sorted_text = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def _simple_form(value: Any) -> bytes | None:
    """The canonical form of a value for which Python's encoder, which is much faster, writes the same.

    None if it may write something else: a number with an exponent, a whole or a large one, and names beyond U+D7FF.
    """
    try:
        text = _sorted_text(value)
    except (TypeError, ValueError, RecursionError):
        return None
    if (not text.isascii() and UTF_16.search(text)) or ODD_NUMBER.search(TEXTS.sub("", text)):
        return None
    return text.encode()


def _with_doubles(value: Any, *, as_text: bool = False) -> Any:
    """The value with integers that a database made of doubles (1e23 as 100000000000000000000000) as doubles.

    With `as_text`, other integers that RFC 8785 refuses become texts, which begin with a character that none has.
    """
    if isinstance(value, dict):
        return {name: _with_doubles(one, as_text=as_text) for name, one in value.items()}
    if isinstance(value, list):
        return [_with_doubles(one, as_text=as_text) for one in value]
    if not isinstance(value, int) or abs(value) <= LARGEST_EXACT:
        return value
    if _is_double(value):
        return float(value)
    return f"\0{value}" if as_text else value


def _is_double(number: int) -> bool:
    """Is a large integer exactly a double's decimal form?"""
    try:
        return abs(number) > LARGEST_EXACT and Decimal(repr(float(number))) == number
    except OverflowError:
        return False
