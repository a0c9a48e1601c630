"""What a handler reports before its outcome. The host receives emissions one at a time, in order."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack
from uuid import uuid4

from agentkit.content.messages import Artifact, Part, Piece, guessed_media_type, part_of


@dataclass(frozen=True)
class Progress:
    """A line for people; `done` of `total`, in any unit. `detail` is for those who want to know more.

    To forward another system's progress, set `parts`, `message_id` and `metadata`.
    """

    text: str
    done: float | None = None
    total: float | None = None
    parts: Sequence[Part] = ()
    message_id: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    detail: str = ""


@dataclass(frozen=True)
class Token:
    """A piece of the answer's text. The host joins small ones."""

    text: str


@dataclass(frozen=True)
class WholeAnswer:
    """The whole answer; replaces earlier tokens."""

    text: str


@dataclass(frozen=True)
class Chunk:
    """A piece of an artifact, recorded unchanged."""

    artifact_id: str
    name: str
    description: str
    parts: Sequence[Part]
    append: bool
    last: bool
    metadata: dict[str, Any] = field(default_factory=dict)
    extensions: Sequence[str] = ()
    joined: bool = False  # its first text goes on with the last text of the chunk before

    @classmethod
    def whole(cls, artifact: Artifact) -> "Chunk":
        """A complete artifact as one chunk."""
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
    """Reasoning. It is kept only if the agent's owner allows it, and never leaves the platform."""

    text: str


@dataclass(frozen=True)
class ToolCall:
    """A tool call. Its `ToolResult` has the same `call_id`."""

    call_id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class ToolResult:
    """A tool's result, or with `is_error` its error.

    Attributes:
        app: the page of a tool server that shows it (`agentkit.llm.mcp_apps`): `server` and `uri`; and either `html`,
            `ui` (its wishes), `arguments` and `result` (as MCP writes them), or the `problem` with it, a sentence.
    """

    call_id: str
    name: str
    result: Any
    is_error: bool = False
    app: dict[str, Any] | None = None


@dataclass(frozen=True)
class SkillChosen:
    """From `drive`: the turn chose this skill. Later turns receive it."""

    skill: str


@dataclass(frozen=True)
class Usage:
    """A language model's usage, in the model's own tokens. The host adds it up.

    Attributes:
        cost: in the host's currency; None if nobody knows the prices.
        is_cut_off: the model's last text ended at its limit of tokens.
    """

    model: str
    requests: int
    input_tokens: int
    output_tokens: int
    cost: float | None = None
    is_cut_off: bool = False


def price(prices: tuple[float, float], input_tokens: int, output_tokens: int) -> float:
    """The cost of tokens, by the prices of a million of them, in and out."""
    return (input_tokens * prices[0] + output_tokens * prices[1]) / 1_000_000


FINISH_REASON, CUT_OFF = "finishReason", "length"
"""In the metadata of a message that a limit of tokens cut off."""


@dataclass(frozen=True)
class Foreign:
    """Another system's data that fits no other emission. It is recorded and shown to nobody."""

    said: dict[str, Any]


Emission = Progress | Token | WholeAnswer | Chunk | Foreign | Thought | ToolCall | ToolResult | SkillChosen | Usage
"""Anything that a handler says on the way to its outcome."""


class StreamTraits(TypedDict, total=False):
    """Options of a streamed artifact, which is plain text by default."""

    description: str
    media_type: str
    artifact_id: str | None
    metadata: dict[str, Any] | None


class _ChunkSequence:
    def __init__(self, name: str, **traits: Unpack[StreamTraits]) -> None:
        self.name = name
        self.artifact_id = traits.get("artifact_id") or str(uuid4())
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
        # Plain text needs no media type; bytes without one get it from the name.
        return guessed_media_type(self.name) if isinstance(piece, bytes) else None


class ArtifactStream(_ChunkSequence):
    """From `TaskContext.artifact`. `async with` closes it, unless an error ends the block."""

    def __init__(self, emit: Callable[[Emission], Awaitable[None]], name: str, **traits: Unpack[StreamTraits]) -> None:
        super().__init__(name, **traits)
        self._emit = emit

    async def append(self, piece: Piece, *, last: bool = False) -> None:
        """Send one chunk: text, bytes, a dict (as data) or a part."""
        await self._emit(self._next(piece, last))

    async def close(self) -> None:
        """Mark the end, unless the last chunk did."""
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
    """`ArtifactStream` for handlers in a thread."""

    def __init__(self, emit: Callable[[Emission], None], name: str, **traits: Unpack[StreamTraits]) -> None:
        super().__init__(name, **traits)
        self._emit = emit

    def append(self, piece: Piece, *, last: bool = False) -> None:
        """Send one chunk: text, bytes, a dict (as data) or a part."""
        self._emit(self._next(piece, last))

    def close(self) -> None:
        """Mark the end, unless the last chunk did."""
        if chunk := self._closing():
            self._emit(chunk)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
