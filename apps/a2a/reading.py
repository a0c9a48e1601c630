"""Reading the JSON of requests."""

from __future__ import annotations

from typing import Any

from apps.a2a.errors import ParseError
from apps.conversations import strict_json


def read_json(body: bytes) -> Any:
    """The value that a body holds, read strictly (`strict_json.read`). Raises ParseError with what is wrong with it."""
    try:
        return strict_json.read(body)
    except strict_json.NotJSON as error:
        raise ParseError(str(error)) from None
