"""Parts: the pieces that messages and artifacts are made of, in the JSON shape of A2A 1.0 (§4.1.6)."""

import base64
import binascii
import json
import mimetypes
from collections.abc import Callable
from typing import Any, Literal, TypedDict, cast

CONTENT_KEYS = frozenset({"text", "raw", "url", "data", "stored"})
LABEL_KEYS = frozenset({"filename", "mediaType", "metadata"})

type Piece = str | bytes | dict[str, Any] | Part
"""What an author may hand over where a part is wanted."""


class StoredContent(TypedDict):
    """Where the platform keeps content that is too large for its database."""

    sha256: str
    size: int
    kind: Literal["raw", "text", "data"]


class Part(TypedDict, total=False):
    """Exactly one of `text`, `raw` (base64), `url`, `data` or `stored`, and what is known about it."""

    text: str
    raw: str
    url: str
    data: Any
    stored: StoredContent
    filename: str
    mediaType: str
    metadata: dict[str, Any]


Loader = Callable[[Any], bytes]
"""Gives the bytes of a stored part: text as UTF-8, data as JSON."""


class UnreadableContent(Exception):
    """The content of a part cannot be had; the text says why."""


def text_part(text: str, media_type: str | None = None) -> Part:
    return _labelled({"text": text}, None, media_type)


def data_part(data: Any) -> Part:
    return {"data": data}


def raw_part(content: bytes, filename: str | None = None, media_type: str | None = None) -> Part:
    return _labelled({"raw": base64.b64encode(content).decode("ascii")}, filename, media_type)


def url_part(url: str, filename: str | None = None, media_type: str | None = None) -> Part:
    return _labelled({"url": url}, filename, media_type)


def part_of(piece: Piece, media_type: str | None = None, filename: str | None = None) -> Part:
    """A part from text, bytes, a part, or any other dict, which becomes data.

    A dict that looks exactly like a part is taken as one; `data_part` says that it is data.
    """
    if isinstance(piece, str):
        return text_part(piece, media_type)
    if isinstance(piece, bytes):
        return raw_part(piece, filename, media_type)
    if isinstance(piece, dict):
        return cast(Part, piece) if is_part(cast(dict[str, Any], piece)) else data_part(piece)
    raise TypeError(f"A part is made of text, bytes or a dict, not of {type(piece).__name__}.")


def is_part(candidate: dict[str, Any]) -> bool:
    keys = candidate.keys()
    return len(keys & CONTENT_KEYS) == 1 and keys <= CONTENT_KEYS | LABEL_KEYS


def kind_of(part: Part) -> Literal["text", "raw", "url", "data"]:
    """What a part holds, wherever it is kept."""
    if "stored" in part:
        return part["stored"]["kind"]
    if "text" in part:
        return "text"
    if "data" in part:
        return "data"
    return "url" if "url" in part else "raw"


def is_file(part: Part) -> bool:
    """Bytes and links are files, and so is text that came with a file name."""
    kind = kind_of(part)
    return kind in ("raw", "url") or (kind == "text" and bool(part.get("filename")))


def content_of(part: Part, load: Loader | None = None) -> bytes:
    """The bytes of a part: text as UTF-8, data as JSON.

    Raises:
        UnreadableContent: the part is a link, is stored out of reach, or is not base64.
    """
    if "stored" in part:
        if load is None:
            raise UnreadableContent("This content is stored on the platform and cannot be read from here.")
        return load(part)
    if "text" in part:
        return part["text"].encode()
    if "data" in part:
        return json.dumps(part["data"], ensure_ascii=False).encode()
    if "url" in part:
        raise UnreadableContent("This is a link to a file; only files that are sent along can be read.")
    return _decoded(part.get("raw", ""))


def text_of(part: Part, load: Loader | None = None) -> str:
    """What a text part says. Raises UnreadableContent where it is stored out of reach."""
    return part["text"] if "text" in part else content_of(part, load).decode()


def data_of(part: Part, load: Loader | None = None) -> Any:
    """The value of a data part. Raises UnreadableContent where it is stored out of reach."""
    return part["data"] if "data" in part else json.loads(content_of(part, load))


def guessed_media_type(name: str) -> str:
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def _decoded(raw: str) -> bytes:
    # ProtoJSON takes both base64 alphabets, with and without padding.
    padded = raw.translate(str.maketrans("-_", "+/")).rstrip("=") + "=" * (-len(raw.rstrip("=")) % 4)
    try:
        return base64.b64decode(padded, validate=True)
    except binascii.Error as error:
        raise UnreadableContent("This file arrived damaged: it is not base64.") from error


def _labelled(part: Part, filename: str | None, media_type: str | None) -> Part:
    if filename:
        part["filename"] = filename
    if media_type:
        part["mediaType"] = media_type
    return part
