"""Artifacts: what an agent delivers, and what another task delivered."""

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from agentkit.messages import File
from agentkit.parts import (
    Loader,
    Part,
    data_of,
    data_part,
    guessed_media_type,
    is_file,
    kind_of,
    part_of,
    raw_part,
    text_of,
    text_part,
)


def new_artifact_id() -> str:
    return str(uuid4())


@dataclass(frozen=True)
class Artifact:
    """A deliverable, complete. What grows piece by piece is an `ArtifactStream`."""

    parts: Sequence[Part]
    name: str = ""
    description: str = ""
    artifact_id: str = field(default_factory=new_artifact_id)
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
        return cls([text_part(text, media_type)], name, description, metadata=metadata or {})

    @classmethod
    def json(cls, name: str, data: Any, *, description: str = "", metadata: dict[str, Any] | None = None) -> Self:
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
        """The file at `path`, read now; its media type is guessed from its name unless given."""
        name = name or Path(path).name
        content = Path(path).read_bytes()
        return cls.bytes(
            name, content, media_type or guessed_media_type(name), description=description, metadata=metadata
        )

    @property
    def wire(self) -> dict[str, Any]:
        """The A2A 1.0 JSON shape (§4.1.7); what is empty is left out."""
        optional = {"name": self.name, "description": self.description, "metadata": self.metadata}
        filled = {key: value for key, value in optional.items() if value}
        return {"artifactId": self.artifact_id, "parts": list(self.parts), **filled}


@dataclass(frozen=True)
class ReceivedArtifact:
    """What an earlier task delivered."""

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
        """The text parts as one; those that were streamed fit together without a gap."""
        return "".join(text_of(part, self.load) for part in self.parts if kind_of(part) == "text")

    @property
    def data(self) -> list[Any]:
        """The values of the data parts."""
        return [data_of(part, self.load) for part in self.parts if kind_of(part) == "data"]

    def refined(
        self, new: str | bytes | dict[str, Any] | Sequence[Part], *, metadata: dict[str, Any] | None = None
    ) -> Artifact:
        """What this artifact becomes in a task that refines it: the same name and description, and an id of its own.

        Args:
            new: text, bytes, a dict (as data) or parts; text and bytes keep the media type that the old content had.
        """
        if not isinstance(new, str | bytes | dict):
            return Artifact(list(new), self.name, self.description, metadata=metadata or {})
        old: Part = self.parts[0] if self.parts else {}
        media_type = None if isinstance(new, dict) else old.get("mediaType")
        part = part_of(new, media_type, old.get("filename") or self.name)
        return Artifact([part], self.name, self.description, metadata=metadata or {})
