"""Reading and writing JSON bodies: what comes in as strictly as everywhere in the house, what goes out for no cache."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError, UnsupportedMediaType
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer

from apps.record import strict_json


class StrictJSON(BaseParser):
    """A body that is one JSON value. Raises ParseError, UnsupportedMediaType for a compressed one."""

    media_type = "application/json"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        if parser_context and "Content-Encoding" in parser_context["request"].headers:
            raise UnsupportedMediaType(media_type or "")
        try:
            return strict_json.read(stream.read())
        except strict_json.NotStrict as error:
            raise ParseError(str(error)) from None


class PlainJSON(BaseRenderer):
    """A JSON value, as it is: nothing is converted, so what goes out is what the shapes made."""

    media_type = "application/json"
    format = "json"
    charset = None  # JSON is UTF-8 (RFC 8259 §8.1)

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        return b"" if data is None else encoded(data)


def encoded(value: Any) -> bytes:
    """A JSON value as bytes; the same value gives the same bytes."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
