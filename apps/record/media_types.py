"""What a file is, whatever it is said to be: a type that its content contradicts is not believed.

Such a file is kept and given as plain bytes, to be downloaded. What is given of a type is never more than a browser may
do with it, so a doubt is decided against the type: the file itself loses nothing by that.
"""

from __future__ import annotations

import base64
import binascii
import re
from pathlib import PurePosixPath
from typing import Any

import filetype

PLAIN = "application/octet-stream"
HEAD = 8192  # bytes of the beginning by which a file is known
CLAIMED = "mediaTypeClaimed"  # in a part's metadata: the type that was not believed
NAME_LENGTH = 200  # characters of a file's name that are kept

MEDIA_TYPE = re.compile(r"[\w.+-]{1,80}/[\w.+-]{1,80}", re.ASCII)
TEXTUAL = re.compile(
    r"text/.+|.+\+(json|xml|yaml)"
    r"|application/(json|xml|yaml|x-yaml|toml|javascript|ecmascript|sql|x-sh|x-ndjson|csv|x-tex|graphql)"
)
MEDIA = re.compile(r"(image|audio|video|font)/.+")
BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
# What was matched once is not tried otherwise (`*+`, `(?>`): ways to read a row of comments double with each of them.
SVG = re.compile(rb"\s*+(?>(?:<\?xml[^>]*>|<!--.*?-->|<!DOCTYPE[^>]*>)\s*+)*+<(\w+:)?svg[\s>]", re.DOTALL)
WIDE = (b"\xff\xfe", b"\xfe\xff")  # marks of UTF-16

ALIKE: list[set[str]] = [
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
OF_ZIP = re.compile(
    r"application/(zip|x-zip-compressed|java-archive|epub\+zip|vnd\.openxmlformats-officedocument\..+"
    r"|vnd\.oasis\.opendocument\..+|vnd\.ms-.+macroenabled.*)|.+\+zip"
)
OF_OLE = re.compile(r"application/(msword|vnd\.ms-(excel|powerpoint|outlook|project|works)|vnd\.visio|x-msi)")
CONTAINERS = {"application/zip", "application/gzip", "application/x-sqlite3", "application/msword", "application/x-tar"}
KNOWN = {kind.mime for kind in filetype.TYPES} - {PLAIN}
KNOWN |= {name for names in ALIKE if names & KNOWN for name in names}


def believed(claimed: str, head: bytes) -> str:
    """The type that is believed of a file which begins with `head` (HEAD bytes, or all of it), and is said to be one.

    It is the claimed one, with its parameters, or PLAIN.
    """
    essence = claimed.partition(";")[0].strip().lower()
    return claimed if MEDIA_TYPE.fullmatch(essence) and (not head or _matches(essence, head)) else PLAIN


def _matches(claimed: str, head: bytes) -> bool:
    if claimed == PLAIN:
        return True
    if claimed == "image/svg+xml":
        return is_text(head) and SVG.match(head) is not None
    if TEXTUAL.fullmatch(claimed) and claimed != "text/rtf":
        return is_text(head)
    found = filetype.guess_mime(head)
    if found is None:
        return claimed not in KNOWN and not (MEDIA.fullmatch(claimed) and is_text(head))
    return _are_alike(found, claimed)


def _are_alike(found: str, claimed: str) -> bool:
    if found == claimed or any({found, claimed} <= names for names in ALIKE):
        return True
    if any(family.fullmatch(found) and family.fullmatch(claimed) for family in (OF_ZIP, OF_OLE)):
        return True
    # Many programs keep their files in a container whose signature is all that there is to see.
    return found in CONTAINERS and claimed not in KNOWN and not MEDIA.fullmatch(claimed)


def is_text(head: bytes) -> bool:
    """Does it look like text, in whatever encoding?"""
    return head.startswith(WIDE) or not BINARY.search(head)


def guessed(head: bytes) -> str:
    """The type of a file of which nobody said one."""
    return filetype.guess_mime(head) or ("text/plain" if is_text(head) else PLAIN)


def labels(claimed: str, head: bytes) -> dict[str, Any]:
    """What a part says of a file's type: the believed one, and one that was not."""
    media_type = believed(claimed, head) if claimed else guessed(head)
    doubted = {"metadata": {CLAIMED: claimed}} if claimed and media_type != claimed else {}
    return {"mediaType": media_type, **doubted}


def checked(part: dict[str, Any]) -> dict[str, Any]:
    """A part as somebody sent it, with the type that is believed of its content, if it is a file (`raw`)."""
    if "raw" not in part or not part.get("mediaType"):
        return part
    try:
        head = base64.b64decode(part["raw"][: HEAD // 3 * 4])
    except binascii.Error:
        return part
    found = labels(part["mediaType"], head)
    metadata = {**part.get("metadata", {}), **found.pop("metadata", {})}
    return {**part, **found, **({"metadata": metadata} if metadata else {})}


def file_name(given: str) -> str:
    """The last component of a name or path, without control characters, short enough to keep, with its ending."""
    last = PurePosixPath(given.replace("\\", "/")).name
    name = "".join(character for character in last if character.isprintable()).strip()
    if name.strip(". ") == "":
        return "file"
    if len(name) <= NAME_LENGTH:
        return name
    ending = PurePosixPath(name).suffix[:20]
    return name[: NAME_LENGTH - len(ending)] + ending
