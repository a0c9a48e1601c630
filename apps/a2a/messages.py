"""Reading a client's message (A2A 1.0 §4.1.4): its parts, its ids, and whether the agent takes its media types."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence

from django.conf import settings

from apps.a2a.errors import JSON
from apps.a2a.fields import Fields
from apps.agents.models import Agent
from apps.record.errors import ContentTypeNotSupported

CONTENT = ("text", "raw", "url", "data")
MEDIA_RANGE = re.compile(r"[^/\s]+/[^/\s]+")
USER = ("ROLE_USER", 1)  # ProtoJSON writes an enum by name or by number


def read_message(fields: Fields) -> JSON:
    """The message in the form in which it is stored: its known fields, those that say nothing left out."""
    role = fields.raw("role")
    if isinstance(role, bool) or role not in USER:
        fields.refuse("role", "Must be ROLE_USER: that is how a client speaks.")
    message: JSON = {
        "messageId": fields.text("messageId", required=True, single_line=True),
        "role": "ROLE_USER",
        "parts": _parts(fields),
    }
    optional: JSON = {
        "contextId": fields.text("contextId", single_line=True),
        "taskId": fields.text("taskId", single_line=True),
        "metadata": fields.struct("metadata"),
        "extensions": fields.lines("extensions"),
        "referenceTaskIds": fields.lines("referenceTaskIds"),
    }
    return message | {name: value for name, value in optional.items() if value}


def check_media_types(agent: Agent, message: JSON) -> None:
    """Raises ContentTypeNotSupported for a part whose media type is stated and not among what the agent takes."""
    if refused := agent.refused_type(message["parts"]):
        taken = ", ".join(agent.input_modes)
        raise ContentTypeNotSupported(f"The agent does not take {refused}. It takes {taken}.")


def check_output_modes(agent: Agent, accepted: Sequence[str]) -> None:
    """Raises ContentTypeNotSupported where the agent makes nothing of what the client accepts.

    A client that names something other than a media type, such as `text`, is taken to accept anything.
    """
    modes = [mode.partition(";")[0].strip().lower() for mode in accepted]
    if modes and all(MEDIA_RANGE.fullmatch(mode) for mode in modes) and not agent.makes_any_of(modes):
        made = ", ".join(agent.output_modes)
        raise ContentTypeNotSupported(f"The agent makes none of the acceptedOutputModes. It makes {made}.")


def _parts(fields: Fields) -> list[JSON]:
    given = list(fields.messages("parts"))
    if fields.raw("parts") in (None, []):
        fields.refuse("parts", "At least one part is required.")
    if len(given) > settings.MAX_PARTS:
        fields.refuse("parts", f"At most {settings.MAX_PARTS} parts.")
        return []
    return [_part(part) for part in given]


def _part(fields: Fields) -> JSON:
    kinds = [kind for kind in CONTENT if fields.raw(kind) is not None or (kind == "data" and fields.has(kind))]
    if len(kinds) != 1:
        fields.refuse("", "Must have exactly one of text, raw, url and data.")
        return {}
    kind = kinds[0]
    optional: JSON = {
        "filename": _file_name(fields),
        "mediaType": fields.text("mediaType", single_line=True),
        "metadata": fields.struct("metadata"),
    }
    part = {kind: _content(fields, kind)}
    return part | {name: value for name, value in optional.items() if value}


def _content(fields: Fields, kind: str) -> object:
    match kind:
        case "text":
            return fields.text("text")
        case "raw":
            return _base64(fields)
        case "url":
            return fields.url("url")
        case _:
            return fields.value("data")


def _file_name(fields: Fields) -> str:
    """The last component of a path; whatever stands before it is the sender's business."""
    name = re.split(r"[/\\]", fields.text("filename", single_line=True))[-1]
    return name if name.strip(". ") else ""


def _base64(fields: Fields) -> str:
    """Bytes in standard base64 with padding, from either alphabet and with or without it."""
    value = fields.raw("raw")
    if not isinstance(value, str):
        fields.refuse("raw", "Must be a string in base64.")
        return ""
    padded = value.replace("-", "+").replace("_", "/").rstrip("=")
    padded += "=" * (-len(padded) % 4)
    try:
        base64.b64decode(padded, validate=True)
    except (binascii.Error, ValueError):
        fields.refuse("raw", "Is not base64.")
    return padded
