"""What a question asks for that is answered in words, because no form can stand for its schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from apps.web.questions import JSON, label_of

MOST_LINES = 30
DEEPEST = 3


def outline_of(slot: Mapping[str, Any] | None) -> list[str]:
    """What a schema asks for that no form can stand for, line by line; none where it says nothing."""
    schema = (slot or {}).get("schema")
    return list(_outline(schema, 0))[:MOST_LINES] if isinstance(schema, dict) else []


def _outline(schema: JSON, depth: int) -> Iterator[str]:
    described = schema.get("items") if schema.get("type") == "array" else schema
    properties = described.get("properties") if isinstance(described, dict) else None
    if not isinstance(properties, dict) or depth == DEEPEST:
        return
    for name, inner in properties.items():
        if isinstance(inner, dict):
            about = inner.get("description")
            yield "\u2003" * depth + label_of(str(name), inner) + (f": {about}" if about else "")
            yield from _outline(inner, depth + 1)
