"""A2A parts: their text, name, size and media type.

A type that the content contradicts, or may contradict, becomes `application/octet-stream`: browsers then only download.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from pathlib import PurePosixPath
from typing import Any

import filetype

from agentkit.content.messages import guessed_media_type
from apps.accounts.errors import NotFound

JSON = dict[str, Any]
MAX_TEXT = 1_000_000  # characters of a text that an interface takes
ESSENCE = re.compile(r"[a-z0-9][\w.+-]*/[a-z0-9][\w.+-]*", re.ASCII)


def words_of(parts: list[JSON]) -> str:
    """The parts' text, without text files."""
    return "\n".join(part["text"] for part in parts if "text" in part and not part.get("filename"))


def is_file(part: JSON) -> bool:
    """Is it a file, inline or by link? Text and data with a filename are files too."""
    return bool(part.get("filename")) or not ("text" in part or "data" in part)


INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Zero-width characters, direction marks, fillers, the Braille blank, variation selectors, tags."""
BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f]*")


def is_blank(text: str) -> bool:
    """Does it show nothing?"""
    return BLANK.fullmatch(INVISIBLE.sub("", text)) is not None


def part_at(held: list[JSON], number: int) -> JSON:
    """The part of this number, if its content is here. Raises NotFound."""
    if number >= len(held) or "url" in held[number]:
        raise NotFound("There is no such part, or its content is stored elsewhere.")
    return held[number]


def is_invisible(parts: list[JSON]) -> bool:
    """Is a message text alone that shows nothing, though it is not empty?"""
    texts = [str(part["text"]) for part in parts if "text" in part]
    return len(texts) == len(parts) and all(map(is_blank, texts)) and any(map(str.strip, texts))


def pieces_joined(parts: list[JSON]) -> list[JSON]:
    """The parts, with adjacent text joined: each chunk of a streamed artifact is a part of its own."""
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
    """Is this the next piece of the same text?"""
    return (
        "pieces" in before
        and "text" in part
        and not (before.get("filename") or part.get("filename"))
        and before.get("mediaType") == part.get("mediaType")
    )


def media_type_of(part: JSON) -> str:
    """The part's media type without parameters: as given, if valid; otherwise by kind or name."""
    given = str(part.get("mediaType", "")).partition(";")[0].strip().lower()
    if ESSENCE.fullmatch(given):
        return given
    kind = part["stored"]["kind"] if "stored" in part else next((k for k in ("text", "data") if k in part), "raw")
    if kind == "data":
        return "application/json"
    if kind == "text" and not part.get("filename"):
        return "text/plain"
    return guessed_media_type(part.get("filename", ""))


def declared_media_type(part: JSON) -> str:
    """Like `media_type_of`, but "" for a link without a type."""
    return "" if "url" in part and not part.get("mediaType") else media_type_of(part)


def size_of(part: JSON) -> int | None:
    """Bytes of a part's content; None for a link."""
    if "stored" in part:
        return int(part["stored"]["size"])
    if "raw" in part:
        return len(part["raw"].rstrip("=")) * 3 // 4
    if "text" in part:
        return len(part["text"].encode())
    return len(json.dumps(part["data"], ensure_ascii=False).encode()) if "data" in part else None


OCTET_STREAM = "application/octet-stream"
HEAD_BYTES = 8192  # by which a file's type is detected
CLAIMED_TYPE = "mediaTypeClaimed"  # in a part's metadata: the rejected type
FILE_NAME_LENGTH = 200  # characters

MEDIA_TYPE = re.compile(r"[\w.+-]{1,80}/[\w.+-]{1,80}", re.ASCII)
TEXT_TYPES = re.compile(
    r"text/.+|.+\+(json|xml|yaml)"
    r"|application/(json|xml|yaml|x-yaml|toml|javascript|ecmascript|sql|x-sh|x-ndjson|csv|x-tex|graphql)"
)
MEDIA_TYPES = re.compile(r"(image|audio|video|font)/.+")
BINARY_BYTES = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
# Possessive and atomic (`*+`, `(?>`): otherwise the time doubles with each comment.
SVG_START = re.compile(rb"\s*+(?>(?:<\?xml[^>]*>|<!--.*?-->|<!DOCTYPE[^>]*>)\s*+)*+<(\w+:)?svg[\s>]", re.DOTALL)
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")

EQUIVALENT_TYPES: list[set[str]] = [
    {"image/jpeg", "image/jpg", "image/pjpeg"},
    {"image/png", "image/apng", "image/x-png"},
    {"image/bmp", "image/x-bmp", "image/x-ms-bmp"},
    {"image/x-icon", "image/vnd.microsoft.icon"},
    {"image/heic", "image/heif"},
    {"video/mp4", "video/quicktime", "video/x-m4v", "video/3gpp", "audio/mp4", "audio/m4a", "audio/x-m4a"},
    {"video/webm", "video/x-matroska", "audio/webm", "audio/x-matroska"},
    {"audio/ogg", "video/ogg", "application/ogg", "audio/opus"},
    {"audio/x-wav", "audio/wav", "audio/wave", "audio/vnd.wave"},
    {"audio/x-flac", "audio/flac"},
    {"audio/x-aiff", "audio/aiff"},
    {"audio/mpeg", "audio/mp3"},
    {"audio/midi", "audio/x-midi"},
    {"video/x-msvideo", "video/avi"},
    {"application/gzip", "application/x-gzip", "application/x-tgz"},
    {"application/x-bzip2", "application/bzip2"},
    {"application/x-rar-compressed", "application/vnd.rar", "application/x-rar"},
    {"application/x-sqlite3", "application/vnd.sqlite3"},
    {"application/font-woff", "font/woff", "font/woff2"},
    {"application/font-sfnt", "font/ttf", "font/otf", "font/sfnt", "application/x-font-ttf"},
    {"application/rtf", "text/rtf"},
]
ZIP_BASED = re.compile(
    r"application/(zip|x-zip-compressed|java-archive|epub\+zip|vnd\.openxmlformats-officedocument\..+"
    r"|vnd\.oasis\.opendocument\..+|vnd\.ms-.+macroenabled.*)|.+\+zip"
)
OLE_BASED = re.compile(r"application/(msword|vnd\.ms-(excel|powerpoint|outlook|project|works)|vnd\.visio|x-msi)")
CONTAINERS = {"application/zip", "application/gzip", "application/x-sqlite3", "application/msword", "application/x-tar"}
DETECTABLE_TYPES = {kind.mime for kind in filetype.TYPES} - {OCTET_STREAM}
DETECTABLE_TYPES |= {name for names in EQUIVALENT_TYPES if names & DETECTABLE_TYPES for name in names}


def verified_media_type(claimed: str, head: bytes) -> str:
    """The claimed type, with its parameters, if it fits a file that begins with `head`; otherwise OCTET_STREAM.

    `head` has HEAD_BYTES, or all of a shorter file.
    """
    essence = claimed.partition(";")[0].strip().lower()
    return claimed if MEDIA_TYPE.fullmatch(essence) and (not head or _matches(essence, head)) else OCTET_STREAM


def _matches(claimed: str, head: bytes) -> bool:
    if claimed == OCTET_STREAM:
        return True
    if claimed == "image/svg+xml":
        return is_text(head) and SVG_START.match(head) is not None
    if TEXT_TYPES.fullmatch(claimed) and claimed != "text/rtf":
        return is_text(head)
    found = filetype.guess_mime(head)
    if found is None:
        return claimed not in DETECTABLE_TYPES and not (MEDIA_TYPES.fullmatch(claimed) and is_text(head))
    return _are_equivalent(found, claimed)


def _are_equivalent(found: str, claimed: str) -> bool:
    if found == claimed or any({found, claimed} <= names for names in EQUIVALENT_TYPES):
        return True
    if any(family.fullmatch(found) and family.fullmatch(claimed) for family in (ZIP_BASED, OLE_BASED)):
        return True
    # Many formats are containers, such as ZIP, whose signature is all that can be seen.
    return found in CONTAINERS and claimed not in DETECTABLE_TYPES and not MEDIA_TYPES.fullmatch(claimed)


def is_text(head: bytes) -> bool:
    """Does it look like text, in whatever encoding?"""
    return head.startswith(UTF16_MARKS) or not BINARY_BYTES.search(head)


def guess_media_type(head: bytes) -> str:
    """The type of a file without a claimed one."""
    return filetype.guess_mime(head) or ("text/plain" if is_text(head) else OCTET_STREAM)


def media_type_fields(claimed: str, head: bytes) -> dict[str, Any]:
    """A part's fields for a file's type: the verified one, and a claimed one that was rejected."""
    media_type = verified_media_type(claimed, head) if claimed else guess_media_type(head)
    doubted = {"metadata": {CLAIMED_TYPE: claimed}} if claimed and media_type != claimed else {}
    return {"mediaType": media_type, **doubted}


def with_verified_type(part: dict[str, Any]) -> dict[str, Any]:
    """A received part, with a verified type if it is an inline file (`raw`)."""
    if "raw" not in part or not part.get("mediaType"):
        return part
    try:
        head = base64.b64decode(part["raw"][: HEAD_BYTES // 3 * 4])
    except binascii.Error:
        return part
    found = media_type_fields(part["mediaType"], head)
    metadata = {**part.get("metadata", {}), **found.pop("metadata", {})}
    return {**part, **found, **({"metadata": metadata} if metadata else {})}


def safe_file_name(given: str) -> str:
    """The last component of a path, without control characters, shortened before its ending."""
    last = PurePosixPath(given.replace("\\", "/")).name
    name = "".join(character for character in last if character.isprintable()).strip()
    if name.strip(". ") == "":
        return "file"
    if len(name) <= FILE_NAME_LENGTH:
        return name
    ending = PurePosixPath(name).suffix[:20]
    return name[: FILE_NAME_LENGTH - len(ending)] + ending
