"""Answers that are exactly in the form of A2A 1.0 (§5.5): these need no way through protobuf.

All others go that way: it reads other spellings, numbers of enums, and base64 of any kind, and refuses what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from a2a.types import Role, TaskState

type Field = type | str | list[Any] | frozenset[str]
"""The type of a value; the name of a shape; a list with that of its items; or the words that it may be."""

STATES, ROLES = frozenset(TaskState.keys()), frozenset(Role.keys())
LABELS: dict[str, Field] = {"metadata": dict, "filename": str, "mediaType": str}
IDS: dict[str, Field] = {"taskId": str, "contextId": str, "metadata": dict}
SHAPES: Mapping[str, Mapping[str, Field]] = {
    "task": {
        "id": str,
        "contextId": str,
        "status": "status",
        "artifacts": ["artifact"],
        "history": ["message"],
        "metadata": dict,
    },
    "status": {"state": STATES, "message": "message", "timestamp": str},
    "message": {
        **IDS,
        "messageId": str,
        "role": ROLES,
        "parts": ["part"],
        "extensions": [str],
        "referenceTaskIds": [str],
    },
    "artifact": {
        "artifactId": str,
        "name": str,
        "description": str,
        "parts": ["part"],
        "extensions": [str],
        "metadata": dict,
    },
    "statusUpdate": {**IDS, "status": "status"},
    "artifactUpdate": {**IDS, "artifact": "artifact", "append": bool, "lastChunk": bool},
}


def is_exact(value: Any, shape: Field) -> bool:
    """Has the value this shape and nothing else?"""
    if shape == "event":
        return isinstance(value, dict) and len(value) == 1 and all(is_exact(one, kind) for kind, one in value.items())
    if shape == "part":
        return isinstance(value, dict) and _is_exact_part(value)
    if isinstance(shape, str):
        fields = SHAPES.get(shape)
        if fields is None or not isinstance(value, dict):
            return False
        return all(name in fields and is_exact(one, fields[name]) for name, one in value.items())
    if isinstance(shape, list):
        return isinstance(value, list) and all(is_exact(one, shape[0]) for one in value)
    if isinstance(shape, frozenset):
        return isinstance(value, str) and value in shape
    return isinstance(value, shape)


def _is_exact_part(part: dict[str, Any]) -> bool:
    contents = [name for name in part if name not in LABELS]
    if len(contents) != 1 or not all(isinstance(one, LABELS.get(name, object)) for name, one in part.items()):  # type: ignore[arg-type]
        return False
    [name] = contents
    return part[name] is not None if name == "data" else name in ("text", "url") and isinstance(part[name], str)
