"""What was said: read-only views on messages and on the files that came with them."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, cast

from agentkit.parts import Loader, Part, content_of, data_of, guessed_media_type, is_file, kind_of, text_of


@dataclass(frozen=True)
class File:
    """A file part that came in."""

    part: Part
    load: Loader | None = field(default=None, repr=False, compare=False)

    @property
    def name(self) -> str:
        return self.part.get("filename", "")

    @property
    def media_type(self) -> str:
        """What the sender says it is; otherwise what its name suggests."""
        return self.part.get("mediaType") or guessed_media_type(self.name)

    @property
    def url(self) -> str | None:
        """The address, when the file was sent as a link; such a file cannot be read."""
        return self.part.get("url")

    @property
    def size(self) -> int | None:
        """Bytes; None for a link."""
        if "stored" in self.part:
            return self.part["stored"]["size"]
        if "text" in self.part:
            return len(self.part["text"].encode())
        if "raw" in self.part:
            return len(self.part["raw"].rstrip("=")) * 3 // 4
        return None

    def read(self) -> bytes:
        """The whole content.

        Raises:
            UnreadableContent: it is a link, is not base64, or is stored out of reach.
        """
        return content_of(self.part, self.load)


@dataclass(frozen=True)
class Message:
    """A read-only view on a message in its A2A 1.0 JSON shape (§4.1.4)."""

    wire: dict[str, Any]
    load: Loader | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_wire(cls, wire: dict[str, Any], load: Loader | None = None) -> "Message":
        """`load` gives the bytes of the parts that the platform keeps outside its database."""
        return cls(wire, load)

    @property
    def id(self) -> str:
        return str(self.wire.get("messageId", ""))

    @property
    def role(self) -> Literal["user", "agent"]:
        return "agent" if self.wire.get("role") == "ROLE_AGENT" else "user"

    @property
    def parts(self) -> list[Part]:
        return cast(list[Part], self.wire.get("parts", []))

    @cached_property
    def text(self) -> str:
        """All that was said, a line for each text part. Text with a file name is a file, not speech."""
        spoken = (part for part in self.parts if kind_of(part) == "text" and not is_file(part))
        return "\n".join(text_of(part, self.load) for part in spoken)

    @cached_property
    def files(self) -> list[File]:
        return [File(part, self.load) for part in self.parts if is_file(part)]

    @cached_property
    def data(self) -> list[Any]:
        """The values of the data parts."""
        return [data_of(part, self.load) for part in self.parts if kind_of(part) == "data"]

    @property
    def references(self) -> list[str]:
        """The ids of the tasks that this message refers to."""
        return list(self.wire.get("referenceTaskIds", []))

    @property
    def metadata(self) -> dict[str, Any]:
        return dict(self.wire.get("metadata", {}))
