"""Parts as a page shows them: words, values and files, each file with its name, type, size and address."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from apps.record import prose
from apps.record.parts import media_type_of, pieces_joined, size_of, words_of

__all__ = ["described_file", "media_type_of", "pieces_joined", "shown", "size_of", "web_address", "words_of"]

JSON = dict[str, Any]


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


def described_file(part: JSON) -> JSON:
    """Name, media type and size (bytes; None for a link) of a file part."""
    name = part.get("filename", "")
    return {
        "kind": "file",
        "name": name,
        "mediaType": media_type_of(part),
        "size": size_of(part),
    }


def web_address(url: str) -> str:
    """A link that an agent gave, if a browser may follow it; otherwise nothing."""
    return url if url.startswith(("https://", "http://")) else ""


def _values(data: Any, labels: Mapping[str, str]) -> list[JSON]:
    """A form's values by name; any other data as it is written."""
    if isinstance(data, dict) and all(_is_plain(value) for value in data.values()):
        names = dict.fromkeys([*(name for name in labels if name in data), *data])
        return [{"name": labels.get(name, name), "value": _said(data[name])} for name in names]
    return [{"name": "", "value": prose.json_text(data)}]


def _is_plain(value: object) -> bool:
    plain = (str, int, float, bool)
    return isinstance(value, plain) or (isinstance(value, list) and all(isinstance(one, plain) for one in value))


def _said(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_said, value)) or "None"
    return {True: "Yes", False: "No"}[value] if isinstance(value, bool) else str(value)
