"""Composes users' messages in A2A's shape, and checks what they say, for every edge that sends one."""

from __future__ import annotations

import base64
import binascii
import re
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from django.conf import settings

from apps.agents.intake import stated_intake
from apps.agents.models import Agent
from apps.record.content.parts import is_invisible
from apps.record.content.strict_json import UNSTORABLE
from apps.record.errors import ContentTypeNotSupported, InvalidParams
from parley import outbound

JSON = dict[str, Any]
PART_KINDS = ("text", "raw", "url", "data")


def compose(
    parts: Iterable[JSON],
    *,
    key: object = None,
    context: str = "",
    task: object = None,
    references: Iterable[object] = (),
    metadata: JSON | None = None,
    extensions: Sequence[str] = (),
) -> JSON:
    """A user's message of these parts, without empty fields.

    Args:
        key: its messageId; by default a new one.
        context: the session, by the sender's name for it.
        task: the key of the task that it answers or continues.
        references: the keys of tasks that it refers to.
    """
    optional = {
        "contextId": context,
        "taskId": str(task or ""),
        "referenceTaskIds": [str(one) for one in references],
        "metadata": metadata,
        "extensions": extensions,
    }
    message = {"messageId": str(key or uuid.uuid4()), "role": "ROLE_USER", "parts": list(parts)}
    return message | {name: value for name, value in optional.items() if value}


def parts_of(text: str = "", parts: Iterable[JSON] = (), data: Any = None) -> list[JSON]:
    """What somebody says: their text, if it is not blank, an answer's data, and other parts. Raises InvalidParams."""
    if UNSTORABLE.search(text):
        raise InvalidParams("The text has characters that cannot be stored. Remove U+0000 and half characters.", "text")
    words = [{"text": text}] if text.strip() else []
    said = [*words, *([] if data is None else [{"data": data}]), *parts]
    if not said:
        raise InvalidParams("There is nothing to send yet. Write a message or choose a file.", "text")
    if len(said) > settings.MAX_PARTS:
        raise InvalidParams(f"Send at most {settings.MAX_PARTS} parts, with the text.", "parts")
    check_visible(said)
    return said


def last_component(path: str) -> str:
    """A file's name from a path; "" if there is none."""
    name = re.split(r"[/\\]", path)[-1]
    return name if name.strip(". ") else ""


def callable_url(url: str) -> str:
    """A URL that may be called; its name is not resolved yet. Raises ValueError."""
    try:
        outbound.guard().check(url)
    except outbound.Forbidden as refusal:
        raise ValueError(str(refusal)) from None
    return url


def standard_base64(text: str) -> str:
    """Standard padded base64 from either alphabet, padded or not. Raises ValueError."""
    padded = text.replace("-", "+").replace("_", "/").rstrip("=")
    padded += "=" * (-len(padded) % 4)
    try:
        base64.b64decode(padded, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("The raw content of a part must be base64.") from None
    return padded


def check_taken(agent: Agent, parts: Iterable[JSON]) -> None:
    """Raises ContentTypeNotSupported if the agent does not take one of the parts."""
    if (refused := agent.refused_part(parts)) is not None:
        what = f"“{refused['filename']}”" if refused.get("filename") else f"the part of type {refused['mediaType']}"
        taken = stated_intake(agent).words
        raise ContentTypeNotSupported(
            f"{agent.name} takes {taken} only. Remove {what}, or choose an agent that takes it."
        )


def check_visible(parts: list[JSON]) -> None:
    """Raises InvalidParams for text that shows nothing."""
    if is_invisible(parts):
        raise InvalidParams("The message has only invisible characters. Write something that can be read.", "text")
