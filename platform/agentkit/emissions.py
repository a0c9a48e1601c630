"""What a handler says on the way to its outcome; the host receives these one at a time, in order.

An artifact that grows while the agent works is a stream (`ArtifactStream`), whose pieces are chunks.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

from agentkit.messages import Artifact, Part, Piece, guessed_media_type, new_artifact_id, part_of


@dataclass(frozen=True)
class Progress:
    """A line for people about what is going on; `done` of `total`, in units of the handler's choice.

    Who passes on what another system says may give its `parts` instead of a text, and its message's id and metadata.
    """

    text: str
    done: float | None = None
    total: float | None = None
    parts: Sequence[Part] = ()
    message_id: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Token:
    """A piece of the answer's text. The host joins small ones, so that each costs next to nothing."""

    text: str


@dataclass(frozen=True)
class WholeAnswer:
    """All of the answer's text, in place of the tokens that were said before."""

    text: str


@dataclass(frozen=True)
class Chunk:
    """A piece of an artifact, recorded as it is, never joined with another."""

    artifact_id: str
    name: str
    description: str
    parts: Sequence[Part]
    append: bool
    last: bool
    metadata: dict[str, Any] = field(default_factory=dict)
    extensions: Sequence[str] = ()

    @classmethod
    def whole(cls, artifact: Artifact) -> "Chunk":
        """An artifact that is complete, as its only chunk."""
        return cls(
            artifact.artifact_id,
            artifact.name,
            artifact.description,
            artifact.parts,
            append=False,
            last=True,
            metadata=artifact.metadata,
        )


@dataclass(frozen=True)
class Thought:
    """Reasoning, kept only where the agent's owner wants it kept; it never leaves the platform."""

    text: str


@dataclass(frozen=True)
class ToolCall:
    call_id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class ToolResult:
    call_id: str
    name: str
    result: Any
    is_error: bool = False


@dataclass(frozen=True)
class SkillChosen:
    """Said by `drive` where the turn itself found out which skill takes the task; later turns are given it."""

    skill: str


@dataclass(frozen=True)
class Usage:
    """What the work of a language model took; the host adds up what it is told. Tokens are the model's own count."""

    model: str
    requests: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Foreign:
    """What another system says that none of these has a place for; the record keeps it, and nobody is shown it."""

    said: dict[str, Any]


Emission = Progress | Token | WholeAnswer | Chunk | Foreign | Thought | ToolCall | ToolResult | SkillChosen | Usage


class StreamTraits(TypedDict, total=False):
    """What an artifact to stream may be given besides its name; it is plain text by default."""

    description: str
    media_type: str
    artifact_id: str | None
    metadata: dict[str, Any] | None


class _ChunkSequence:
    """Numbers the pieces of one artifact: which is the first, which the last."""

    def __init__(self, name: str, **traits: Unpack[StreamTraits]) -> None:
        self.name = name
        self.artifact_id = traits.get("artifact_id") or new_artifact_id()
        self._description = traits.get("description", "")
        self._media_type = traits.get("media_type", "text/plain")
        self._metadata = traits.get("metadata") or {}
        self._started = False
        self._ended = False

    def _next(self, piece: Piece, last: bool) -> Chunk:
        if self._ended:
            raise ValueError(f"The artifact {self.name!r} is closed; nothing can be appended to it.")
        return self._chunk([part_of(piece, self._media_type_of(piece), self.name)], last)

    def _closing(self) -> Chunk | None:
        return None if self._ended else self._chunk([], last=True)

    def _chunk(self, parts: list[Part], last: bool) -> Chunk:
        append, self._started, self._ended = self._started, True, last
        return Chunk(self.artifact_id, self.name, self._description, parts, append, last, self._metadata)

    def _media_type_of(self, piece: Piece) -> str | None:
        if self._media_type != "text/plain":
            return self._media_type
        # Plain text needs no label, and bytes whose kind nobody named are what their name says.
        return guessed_media_type(self.name) if isinstance(piece, bytes) else None


class ArtifactStream(_ChunkSequence):
    """Made by `TaskContext.artifact`. Used with `async with`, it closes itself unless an error ends the block."""

    def __init__(self, emit: Callable[[Emission], Awaitable[None]], name: str, **traits: Unpack[StreamTraits]) -> None:
        super().__init__(name, **traits)
        self._emit = emit

    async def append(self, piece: Piece, *, last: bool = False) -> None:
        """Sends one chunk: text, bytes, a dict (as data) or a part."""
        await self._emit(self._next(piece, last))

    async def close(self) -> None:
        """Marks the end, unless the last chunk said so already."""
        if chunk := self._closing():
            await self._emit(chunk)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()


class SyncArtifactStream(_ChunkSequence):
    """`ArtifactStream` for handlers that run in a thread."""

    def __init__(self, emit: Callable[[Emission], None], name: str, **traits: Unpack[StreamTraits]) -> None:
        super().__init__(name, **traits)
        self._emit = emit

    def append(self, piece: Piece, *, last: bool = False) -> None:
        """Sends one chunk: text, bytes, a dict (as data) or a part."""
        self._emit(self._next(piece, last))

    def close(self) -> None:
        """Marks the end, unless the last chunk said so already."""
        if chunk := self._closing():
            self._emit(chunk)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
