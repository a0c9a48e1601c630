"""The content of parts by its digest: the same bytes are found again wherever they were given or delivered."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from apps.features.provenance.graphs import Kind, Node
from apps.record import blobs
from apps.record.digests import digest_of
from apps.record.models import Message
from apps.record.parts import is_file, known_media_type, pieces_joined, size_of

JSON = dict[str, Any]

LONG = 1_000  # bytes of a text from which on it is something that was given, and no longer just said


def digest(part: JSON) -> str:
    """SHA-256 of a part's content; of JSON, of its canonical form (RFC 8785); "" for a link."""
    if "url" in part:
        return ""
    if "stored" in part:
        return str(part["stored"]["sha256"])
    return digest_of(part["data"]) if "data" in part else hashlib.sha256(blobs.content_of(part)).hexdigest()


def digests(parts: list[JSON]) -> set[str]:
    """The digests of all that the parts of an artifact hold."""
    return {digest(part) for part in pieces_joined(parts)} - {""}


def given_with(message: Message) -> Iterator[Node]:
    """What was given with a message: its files, links to files, values, and long texts."""
    for number, part in enumerate(message.parts):
        if not (is_file(part) or "data" in part or (size_of(part) or 0) > LONG):
            continue
        media_type = known_media_type(part)
        about: JSON = {
            "sha256": digest(part) or None,
            "name": part.get("filename", ""),
            "mediaType": media_type,
            "size": size_of(part),
            "messageId": str(message.pk),
            "sessionId": str(message.context_id),
            "index": message.index,
        }
        if "url" in part:
            about["url"] = part["url"]
        called = about["name"] or media_type or "A link"
        yield Node(f"file:{message.pk}/{number}", Kind.FILE, called, message.created_at, about)
