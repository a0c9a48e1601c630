"""A session that a Parley exported as JSON."""

from __future__ import annotations

from apps.optional.transfers.formats.shape import Context, Said, TooLarge, Tree, tree_of_list
from apps.record.events import JSON

EXPORT_FORMAT, EXPORT_VERSION = "parley-session-export", 1


def is_one(document: JSON) -> bool:
    return document.get("format") == EXPORT_FORMAT


def read(document: JSON, about: Context) -> Tree:
    if document["version"] != EXPORT_VERSION:
        raise TooLarge("It is of another version of Parley's export. Use the Parley that made it.")
    return tree_of_list(document["messages"], lambda one: _said(one, about))


def _said(message: JSON, about: Context) -> Said:
    said = Said(message["role"], [], message["timestamp"], message["metadata"].get("agent"))
    for part in message["parts"]:
        if isinstance(part.get("text"), str) and not part.get("filename"):
            said.texts.append(part["text"])
        elif isinstance(raw := part.get("raw"), str):
            media_type = part.get("mediaType") or "application/octet-stream"
            said.attach(about.attachment(f"data:;base64,{raw}", part.get("filename"), media_type))
        elif "url" in part:  # a link that needs a key of the other installation
            said.attach(about.attachment(None))
        else:
            said.left_out += 1
    return said
