"""Parts as a page shows them: words, values and files, each file with its name, type, size and address."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from agentkit.parts import guessed_media_type
from apps.web import prose

JSON = dict[str, Any]
MEDIA_TYPE = re.compile(r"[a-z0-9][\w.+-]*/[a-z0-9][\w.+-]*", re.ASCII)


def words_of(parts: list[JSON]) -> str:
    """What the parts say, as plain text."""
    return "\n".join(part["text"] for part in parts if "text" in part and not part.get("filename"))


def shown(part: JSON, href: str, *, marked_up: bool, labels: Mapping[str, str] = MappingProxyType({})) -> JSON:
    """One part for the page.

    `href` is where its content is to be had, `marked_up` lays Markdown out, `labels` are those of a form's fields.
    """
    if "text" in part and not part.get("filename"):
        text = str(part["text"])
        return {"kind": "text", "text": text, "html": prose.laid_out(text) if marked_up else prose.verbatim(text)}
    if "data" in part and not part.get("filename"):
        return {"kind": "data", "values": _values(part["data"], labels)}
    if "url" in part:
        return {**described_file(part), "href": web_address(part["url"]), "elsewhere": True}
    return {**described_file(part), "href": href}


def pieces_joined(parts: list[JSON]) -> list[JSON]:
    """The parts, with text that came in pieces as one: each chunk of a streamed artifact is a part of its own."""
    joined: list[JSON] = []
    for part in parts:
        if joined and _continues(joined[-1], part):
            joined[-1]["pieces"].append(part["text"])
        else:
            joined.append({**part, "pieces": [part["text"]]} if "text" in part else part)
    return [
        {**{name: value for name, value in part.items() if name != "pieces"}, "text": "".join(part["pieces"])}
        if "pieces" in part
        else part
        for part in joined
    ]


def _continues(before: JSON, part: JSON) -> bool:
    """Is this the next piece of the same nameless text?"""
    return (
        "pieces" in before
        and "text" in part
        and not (before.get("filename") or part.get("filename"))
        and before.get("mediaType") == part.get("mediaType")
    )


def described_file(part: JSON) -> JSON:
    """Name, media type and size (bytes; None for a link) of a file part."""
    name = part.get("filename", "")
    return {
        "kind": "file",
        "name": name,
        "mediaType": media_type_of(part),
        "size": size_of(part),
    }


def media_type_of(part: JSON) -> str:
    """The part's media type without parameters: as given, where it is one; otherwise by kind or name."""
    given = str(part.get("mediaType", "")).partition(";")[0].strip().lower()
    if MEDIA_TYPE.fullmatch(given):
        return given
    kind = part["stored"]["kind"] if "stored" in part else next((k for k in ("text", "data") if k in part), "raw")
    if kind == "data":
        return "application/json"
    if kind == "text" and not part.get("filename"):
        return "text/plain"
    return guessed_media_type(part.get("filename", ""))


def size_of(part: JSON) -> int | None:
    """Bytes of a part's content; None for a link."""
    if "stored" in part:
        return int(part["stored"]["size"])
    if "raw" in part:
        return len(part["raw"].rstrip("=")) * 3 // 4
    if "text" in part:
        return len(part["text"].encode())
    return len(json.dumps(part["data"], ensure_ascii=False).encode()) if "data" in part else None


def web_address(url: str) -> str:
    """A link that an agent gave, if a browser may follow it; otherwise nothing."""
    return url if url.startswith(("https://", "http://")) else ""


def _values(data: Any, labels: Mapping[str, str]) -> list[JSON]:
    """A form's values by name; any other data as it is written."""
    if isinstance(data, dict) and all(isinstance(value, str | int | float | bool) for value in data.values()):
        names = dict.fromkeys([*(name for name in labels if name in data), *data])
        return [{"name": labels.get(name, name), "value": _said(data[name])} for name in names]
    return [{"name": "", "value": prose.json_text(data)}]


def _said(value: object) -> str:
    return {True: "Yes", False: "No"}[value] if isinstance(value, bool) else str(value)
