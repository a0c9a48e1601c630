"""Taking server-sent events apart, by the WHATWG's rules, without holding more than one event may have.

The SDK's client reads lines by `str.splitlines`, which also breaks them at U+2028 and such, as JSON may hold unescaped,
and takes a line of any length.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from apps.remote.errors import Misbehaved


@dataclass(frozen=True, slots=True)
class Frame:
    """One event: its name, its data as it came, and the id that the server gave it ("" for none)."""

    name: str
    data: bytes
    id: str


class Frames:
    """Reads one stream. `most` bytes are taken for one event.

    Attributes:
        has_begun: is there the beginning of something that is not complete?
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._pieces: list[bytes] = []  # of the line that is not complete
        self._data: list[bytes] = []
        self._name = self._id = b""
        self._size = 0
        self._skips_lf = False
        self.has_begun = False

    def feed(self, chunk: bytes) -> Iterator[Frame | None]:
        """What is complete with these bytes: an event, or None for a comment between events or an event without data.

        Raises Misbehaved for an event that is too large.
        """
        if self._skips_lf and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._skips_lf = chunk.endswith(b"\r")
        for piece in chunk.splitlines(keepends=True):
            self._count(len(piece))
            self._pieces.append(piece)
            self.has_begun = True
            if piece.endswith((b"\n", b"\r")):
                line = b"".join(self._pieces)
                self._pieces = []
                yield from self._completed(line)

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > self._most:
            raise Misbehaved(f"The agent's stream holds an event of more than {self._most} bytes.")

    def _completed(self, line: bytes) -> Iterator[Frame | None]:
        if line.startswith(b":"):
            self._size -= len(line)
            if not self._data:
                self.has_begun = False
                yield None
        elif bare := line.rstrip(b"\r\n"):
            self._take(*bare.split(b":", 1))
        else:
            yield self._dispatched()

    def _take(self, name: bytes, value: bytes = b"") -> None:
        value = value.removeprefix(b" ")
        if name.removeprefix(b"\xef\xbb\xbf") == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value
        elif name == b"id" and b"\0" not in value:
            self._id = value

    def _dispatched(self) -> Frame | None:
        data, name = self._data, self._name
        self._data, self._name, self._size, self.has_begun = [], b"", 0, False
        if not data:
            return None
        return Frame(name.decode("utf-8", "replace"), b"\n".join(data), self._id.decode("utf-8", "replace"))
