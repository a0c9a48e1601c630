"""The query of an address as a request message in its ProtoJSON form (A2A 1.0 §11.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from apps.a2a.errors import JSON
from apps.a2a.fields import Fields
from apps.record.errors import InvalidParams

MOST_PARAMETERS = 100


def read_query(query: str) -> JSON:
    """The parameters by their names; those without a value are unset, and those of no request are ignored.

    All of them are text, so flags and the numbers of enums are made what JSON would say.
    Raises InvalidParams for a query that is not UTF-8, has too many parameters, or one of them twice.
    """
    try:
        pairs = parse_qsl(query, errors="strict", max_num_fields=MOST_PARAMETERS)
    except UnicodeDecodeError:
        raise InvalidParams("The query is not UTF-8.") from None
    except ValueError:
        raise InvalidParams(f"The query has more than {MOST_PARAMETERS} parameters.") from None
    given: JSON = {}
    fields = Fields(given)
    for name, text in pairs:
        if name in given:
            fields.refuse(name, "Comes twice.")
        given[name] = TYPES.get(name, str)(text)
    fields.check()
    return given


def _flag(text: str) -> bool | str:
    return {"true": True, "false": False}.get(text, text)


def _enum(text: str) -> int | str:
    is_number = text.isascii() and text.isdecimal() and len(text) < 10
    return int(text) if is_number else text


TYPES: dict[str, Callable[[str], Any]] = {
    "includeArtifacts": _flag,
    "include_artifacts": _flag,
    "status": _enum,
}
"""The parameters whose values JSON does not write as a string; integers it does, also (ProtoJSON)."""
