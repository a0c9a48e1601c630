"""Unpacking an answer as it comes, without ever holding more than is allowed of it."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator

from outbound.errors import Misleading, TooLarge

ACCEPTED = b"gzip, deflate"
WINDOWS = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
PIECE = 64 * 1024  # bytes that are unpacked at once
HARMLESS = 1024 * 1024  # bytes below which a ratio says nothing


class Decoder:
    """Counts and unpacks one body.

    Attributes:
        size: bytes given out so far.
    """

    def __init__(self, encoding: str, most: int, ratio: int) -> None:
        """`most` bytes unpacked, and at most `ratio` times of what came in. Raises Misleading."""
        if encoding not in ("", "identity", *WINDOWS):
            raise Misleading("The answer is packed in a way that was not asked for.")
        self._unpacker = zlib.decompressobj(WINDOWS[encoding]) if encoding in WINDOWS else None
        self._most, self._ratio = most, ratio
        self._received = 0
        self.size = 0

    async def decoded(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The body of these chunks. Raises TooLarge, Misleading."""
        async for chunk in chunks:
            self._received += len(chunk)
            for piece in self._unpacked(chunk):
                yield self._counted(piece)
        if self._unpacker is not None and self._received and not self._unpacker.eof:
            raise Misleading("The packed answer breaks off.")

    def _unpacked(self, chunk: bytes) -> Iterator[bytes]:
        if self._unpacker is None:
            yield chunk
            return
        while chunk:
            try:
                piece = self._unpacker.decompress(chunk, PIECE)
            except zlib.error:
                raise Misleading("The answer is not packed as it says.") from None
            if self._unpacker.unused_data:
                raise Misleading("Something follows the packed answer.")
            if piece:
                yield piece
            chunk = self._unpacker.unconsumed_tail

    def _counted(self, piece: bytes) -> bytes:
        self.size += len(piece)
        if self.size > self._most:
            raise TooLarge(f"The answer is larger than {self._most} bytes.")
        if self.size > HARMLESS and self.size > self._ratio * self._received:
            raise TooLarge(f"The answer unpacks to more than {self._ratio} times its size.")
        return piece
