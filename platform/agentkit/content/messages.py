"""Content in A2A 1.0 JSON: parts (§4.1.6), messages (§4.1.4), files and artifacts (§4.1.7).

`Message`, `File` and `ReceivedArtifact` read incoming content. `Part` and `Artifact` make outgoing content.
"""

import base64
import binascii
import builtins
import json
import mimetypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, TypedDict, cast
from uuid import uuid4

from agentkit.errors import UnreadableContent


def _refuse(*_: object, **__: object) -> Any:
    raise TypeError("What was said cannot be changed. Change a copy: copy.deepcopy(…).")


class FrozenDict(dict[str, Any]):
    """A dict that cannot be changed. A copy can."""

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


class FrozenList(list[Any]):
    """A list that cannot be changed. A copy can."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __reduce__(self) -> Any:
        return list, ([*self],)


def frozen[T](value: T) -> T:
    """A copy of JSON values that cannot be changed, at any depth."""
    kind: Any = type(value)  # `isinstance` and `cast` would take most of the time of large values
    if kind is dict:
        items: Any = value.items()  # type: ignore[attr-defined]
        return FrozenDict({name: frozen(one) if type(one) in NESTED else one for name, one in items})  # type: ignore[return-value]
    if kind is list or kind is tuple:
        return FrozenList([frozen(one) if type(one) in NESTED else one for one in value])  # type: ignore[attr-defined, return-value]
    return value


NESTED = (dict, list, tuple)


CONTENT_KEYS = frozenset({"text", "raw", "url", "data", "stored"})
LABEL_KEYS = frozenset({"filename", "mediaType", "metadata"})


class StoredContent(TypedDict):
    """Content in a file of the platform."""

    sha256: str
    size: int
    kind: Literal["raw", "text", "data"]


class Part(TypedDict, total=False):
    """Exactly one of `text`, `raw` (base64), `url`, `data` and `stored`, with optional labels."""

    text: str
    raw: str
    url: str
    data: Any
    stored: StoredContent
    filename: str
    mediaType: str
    metadata: dict[str, Any]


type Piece = str | bytes | dict[str, Any] | Part
"""What an author may give as a part."""


Loader = Callable[[Any], bytes]
"""Gives the bytes of a stored part: text as UTF-8, data as JSON."""


def text_part(text: str, media_type: str | None = None) -> Part:
    """A text part; the default media type is `text/plain`."""
    return {"text": text, "mediaType": media_type} if media_type else {"text": text}


def data_part(data: Any) -> Part:
    """A part with any JSON value."""
    return {"data": data}


def raw_part(content: bytes, filename: str | None = None, media_type: str | None = None) -> Part:
    """A part with a file's bytes."""
    return _with_labels({"raw": base64.b64encode(content).decode("ascii")}, filename, media_type)


def url_part(url: str, filename: str | None = None, media_type: str | None = None) -> Part:
    """A part that links to a file."""
    return _with_labels({"url": url}, filename, media_type)


def part_of(piece: Piece, media_type: str | None = None, filename: str | None = None) -> Part:
    """A part from text, bytes, a part, or another dict, which becomes data.

    A dict with exactly a part's keys is a part; use `data_part` to make it data.
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
    if "stored" in part:
        return part["stored"]["kind"]
    if "text" in part:
        return "text"
    if "data" in part:
        return "data"
    return "url" if "url" in part else "raw"


def is_file(part: Part) -> bool:
    """Bytes, links, and text with a file name are files."""
    kind = kind_of(part)
    return kind in ("raw", "url") or (kind == "text" and bool(part.get("filename")))


def content_of(part: Part, load: Loader | None = None) -> bytes:
    """A part's bytes: text as UTF-8, data as JSON.

    Raises:
        UnreadableContent: it is a link, cannot be reached, or is not base64.
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
    return _base64_decode(part.get("raw", ""))


def text_of(part: Part, load: Loader | None = None) -> str:
    """A text part's text. Raises UnreadableContent."""
    return part["text"] if "text" in part else content_of(part, load).decode()


def data_of(part: Part, load: Loader | None = None) -> Any:
    """A data part's value. Raises UnreadableContent."""
    return part["data"] if "data" in part else json.loads(content_of(part, load))


def guessed_media_type(name: str) -> str:
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def _base64_decode(raw: str) -> bytes:
    # ProtoJSON allows both base64 alphabets, with and without padding.
    padded = raw.translate(str.maketrans("-_", "+/")).rstrip("=") + "=" * (-len(raw.rstrip("=")) % 4)
    try:
        return base64.b64decode(padded, validate=True)
    except binascii.Error as error:
        raise UnreadableContent("This file arrived damaged: it is not base64.") from error


def _with_labels(part: Part, filename: str | None, media_type: str | None) -> Part:
    if filename:
        part["filename"] = filename
    if media_type:
        part["mediaType"] = media_type
    return part


@dataclass(frozen=True)
class File:
    """A received file."""

    part: Part
    load: Loader | None = field(default=None, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The sender's file name; may be empty."""
        return self.part.get("filename", "")

    @property
    def media_type(self) -> str:
        """The sender's media type; otherwise guessed from the name."""
        return self.part.get("mediaType") or guessed_media_type(self.name)

    @property
    def url(self) -> str | None:
        """The address of a link, which cannot be read; None for other files."""
        return self.part.get("url")

    @property
    def size(self) -> int | None:
        """Size in bytes; None for a link."""
        if "stored" in self.part:
            return self.part["stored"]["size"]
        if "text" in self.part:
            return len(self.part["text"].encode())
        if "raw" in self.part:
            return len(self.part["raw"].rstrip("=")) * 3 // 4
        return None

    def read(self) -> bytes:
        """The whole content, at once (not awaitable).

        Raises:
            UnreadableContent: it is a link, is not base64, or cannot be reached.
        """
        return content_of(self.part, self.load)


@dataclass(frozen=True)
class Message:
    """A message in A2A 1.0 JSON (§4.1.4), which cannot be changed."""

    wire: dict[str, Any]
    load: Loader | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "wire", frozen(self.wire))

    @classmethod
    def from_wire(cls, wire: dict[str, Any], load: Loader | None = None) -> "Message":
        """From A2A JSON. `load` reads parts that the platform stores in files."""
        return cls(wire, load)

    @property
    def id(self) -> str:
        """A2A's `messageId`, chosen by the sender."""
        return str(self.wire.get("messageId", ""))

    @property
    def role(self) -> Literal["user", "agent"]:
        """Who sent the message."""
        return "agent" if self.wire.get("role") == "ROLE_AGENT" else "user"

    @property
    def parts(self) -> list[Part]:
        """All parts, in order."""
        return cast(list[Part], self.wire.get("parts", []))

    @cached_property
    def text(self) -> str:
        """The text parts, joined by line breaks. Text with a file name is a file instead."""
        spoken = [
            part
            for part in self.wire.get("parts", ())
            if not part.get("filename") and ("text" in part or kind_of(part) == "text")
        ]
        return "\n".join(part["text"] if "text" in part else text_of(part, self.load) for part in spoken)

    @cached_property
    def files(self) -> list[File]:
        """The file parts: bytes, links, and text with a file name."""
        others = (part for part in self.wire.get("parts", ()) if "text" not in part or part.get("filename"))
        return FrozenList([File(part, self.load) for part in others if is_file(part)])

    @cached_property
    def data(self) -> list[Any]:
        """The values of the data parts."""
        others = (part for part in self.wire.get("parts", ()) if "text" not in part)
        return FrozenList([frozen(data_of(part, self.load)) for part in others if kind_of(part) == "data"])

    @property
    def references(self) -> list[str]:
        """The ids of the tasks that the message refers to."""
        return list(self.wire.get("referenceTaskIds", []))

    @property
    def metadata(self) -> dict[str, Any]:
        """The sender's metadata."""
        return dict(self.wire.get("metadata", {}))


@dataclass(frozen=True)
class Artifact:
    """A complete deliverable. To deliver in pieces, use `TaskContext.artifact`."""

    parts: Sequence[Part]
    name: str = ""
    description: str = ""
    artifact_id: str = field(default_factory=lambda: str(uuid4()))
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def text(
        cls,
        name: str,
        text: str,
        media_type: str = "text/plain",
        *,
        description: str = "",
        metadata: dict[str, Any] | None = None,
    ) -> Self:
        """An artifact with a text."""
        return cls([{"text": text, "mediaType": media_type}], name, description, metadata=metadata or {})

    @classmethod
    def json(cls, name: str, data: Any, *, description: str = "", metadata: dict[str, Any] | None = None) -> Self:
        """An artifact with any JSON value."""
        return cls([data_part(data)], name, description, metadata=metadata or {})

    @classmethod
    def bytes(
        cls,
        name: str,
        data: builtins.bytes,
        media_type: str,
        *,
        description: str = "",
        metadata: dict[str, Any] | None = None,
    ) -> Self:
        """An artifact with a file, from its bytes."""
        return cls([raw_part(data, name, media_type)], name, description, metadata=metadata or {})

    @classmethod
    def file(
        cls,
        path: str | PathLike[str],
        media_type: str | None = None,
        name: str | None = None,
        *,
        description: str = "",
        metadata: dict[str, Any] | None = None,
    ) -> Self:
        """An artifact with the file at `path`, read now. The media type is guessed from the name by default."""
        name = name or Path(path).name
        content = Path(path).read_bytes()
        return cls.bytes(
            name, content, media_type or guessed_media_type(name), description=description, metadata=metadata
        )

    @property
    def wire(self) -> dict[str, Any]:
        """A2A 1.0 JSON (§4.1.7), without empty fields."""
        optional = {"name": self.name, "description": self.description, "metadata": self.metadata}
        filled = {key: value for key, value in optional.items() if value}
        return {"artifactId": self.artifact_id, "parts": list(self.parts), **filled}


@dataclass(frozen=True)
class ReceivedArtifact:
    """An artifact of an earlier task."""

    artifact_id: str
    name: str
    description: str
    parts: list[Part]
    files: list[File]
    load: Loader | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_wire(cls, wire: dict[str, Any], load: Loader | None = None) -> Self:
        parts: list[Part] = wire.get("parts", [])
        files = [File(part, load) for part in parts if is_file(part)]
        return cls(wire["artifactId"], wire.get("name", ""), wire.get("description", ""), parts, files, load)

    @property
    def text(self) -> str:
        """The text parts, joined without a separator."""
        return "".join(text_of(part, self.load) for part in self.parts if kind_of(part) == "text")

    @property
    def data(self) -> list[Any]:
        """The values of the data parts."""
        return [data_of(part, self.load) for part in self.parts if kind_of(part) == "data"]

    def refined(
        self, new: str | bytes | dict[str, Any] | Sequence[Part], *, metadata: dict[str, Any] | None = None
    ) -> Artifact:
        """A new version, with the same name and description and a new id.

        Args:
            new: text, bytes, a dict (as data) or parts. Text and bytes keep the old media type.
        """
        if not isinstance(new, str | bytes | dict):
            return Artifact(list(new), self.name, self.description, metadata=metadata or {})
        old: Part = self.parts[0] if self.parts else {}
        media_type = None if isinstance(new, dict) else old.get("mediaType")
        part = part_of(new, media_type, old.get("filename") or self.name)
        return Artifact([part], self.name, self.description, metadata=metadata or {})
