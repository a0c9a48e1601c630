"""Artifacts that grow while the agent works: each piece is one chunk."""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

from agentkit.artifacts import new_artifact_id
from agentkit.emissions import Chunk, Emission
from agentkit.parts import Part, Piece, guessed_media_type, part_of


class _Chunks:
    """Numbers the pieces of one artifact: which is the first, which the last."""

    def __init__(
        self,
        name: str,
        description: str,
        media_type: str,
        artifact_id: str | None,
        metadata: dict[str, Any] | None,
    ) -> None:
        self.name = name
        self.artifact_id = artifact_id or new_artifact_id()
        self._description = description
        self._media_type = media_type
        self._metadata = metadata or {}
        self._begun = False
        self._ended = False

    def _next(self, piece: Piece, last: bool) -> Chunk:
        if self._ended:
            raise ValueError(f"The artifact {self.name!r} is closed; nothing can be appended to it.")
        return self._chunk([part_of(piece, self._media_type_of(piece), self.name)], last)

    def _closing(self) -> Chunk | None:
        return None if self._ended else self._chunk([], last=True)

    def _chunk(self, parts: list[Part], last: bool) -> Chunk:
        append, self._begun, self._ended = self._begun, True, last
        return Chunk(self.artifact_id, self.name, self._description, parts, append, last, self._metadata)

    def _media_type_of(self, piece: Piece) -> str | None:
        if self._media_type != "text/plain":
            return self._media_type
        # Plain text needs no label, and bytes whose kind nobody named are what their name says.
        return guessed_media_type(self.name) if isinstance(piece, bytes) else None


class ArtifactStream(_Chunks):
    """Made by `TaskContext.artifact`. Used with `async with`, it closes itself unless an error ends the block."""

    def __init__(self, emit: Callable[[Emission], Awaitable[None]], **about: Any) -> None:
        super().__init__(**about)
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


class SyncArtifactStream(_Chunks):
    """`ArtifactStream` for handlers that run in a thread."""

    def __init__(self, emit: Callable[[Emission], None], **about: Any) -> None:
        super().__init__(**about)
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
