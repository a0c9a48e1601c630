"""ZIP files of people who are not trusted: the directory is read once, within bounds, and what was read is used.

`zipfile` reads a whole directory before anybody can refuse it, and whoever checks it before reads it in another way.
Here one reader decides. It refuses what programs do not write and attackers do: two directories, overlapping files,
names twice or that lead elsewhere, and what unpacks to far more than it takes.
Source: PKWARE's APPNOTE 6.3.10, §4.3 and §4.4.
"""

from __future__ import annotations

import io
import re
import struct
import zlib
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import BinaryIO, NamedTuple

MOST_DIRECTORY_BYTES = 8 * 1024**2
MOST_RATIO = 200  # of a file's size to what it takes in the ZIP
SMALL = 1024**2  # bytes whose ratio does not matter
PIECE = 256 * 1024  # bytes

END = struct.Struct("<4s4H2LH")
LOCATOR = struct.Struct("<4sLQL")
END_64 = struct.Struct("<4sQ2H2L4Q")
CENTRAL = struct.Struct("<4s6H3L5H2L")
LOCAL = struct.Struct("<4s5H3L2H")
LONGEST_COMMENT = 0xFFFF
IN_ZIP64, MANY = 0xFFFFFFFF, 0xFFFF  # fields whose values are in ZIP64's
ENCRYPTED = 0x0001 | 0x0040 | 0x2000  # flags
UTF_8 = 0x0800  # a flag
STORED, DEFLATED = 0, 8
LEADS_ELSEWHERE = re.compile(r"\0|^[/\\]|^[A-Za-z]:|(^|[/\\])\.\.([/\\]|$)")

DAMAGED = "The ZIP file is damaged. Make it again."


class BadZip(ValueError):
    """The ZIP file is not read. The text is a sentence that says why."""


class Entry(NamedTuple):
    """A file in a ZIP: `size` and `packed` in bytes, its header from `at`."""

    name: str
    raw_name: bytes
    method: int
    crc: int
    size: int
    packed: int
    at: int

    @property
    def is_bomb(self) -> bool:
        """Does it unpack to far more than it takes?"""
        return self.size > SMALL and self.size > MOST_RATIO * max(self.packed, 1)


class Zip:
    """A ZIP file that is open for reading. `entries`: its files by their names, in the order of the directory.

    Raises BadZip.
    """

    def __init__(self, file: bytes | BinaryIO, most_files: int) -> None:
        self._file = io.BytesIO(file) if isinstance(file, bytes) else file
        count, size, at = _directory(self._file)
        if count > most_files or size > MOST_DIRECTORY_BYTES:
            raise BadZip(f"The ZIP file has more than {most_files:,} files. Split it.")
        directory = _read_at(self._file, at, size)
        self.entries: dict[str, Entry] = {}
        for entry in _entries(directory, count):
            if entry.name in self.entries:
                raise BadZip(f"The ZIP file has two files with the name `{entry.name[:100]}`. Rename one.")
            self.entries[entry.name] = entry
        self._ends = _ends(self.entries.values(), at)

    def read(self, name: str, most: int) -> bytes:
        """The content of a file of at most so many bytes. Raises KeyError, BadZip."""
        entry = self.entries[name]
        if entry.size > most:
            raise BadZip(f"`{name[:100]}` in the ZIP file has more than {most:,} bytes.")
        return b"".join(self._pieces(entry))

    def _pieces(self, entry: Entry) -> Iterator[bytes]:
        if entry.is_bomb:
            raise BadZip(f"`{entry.name[:100]}` in the ZIP file unpacks to more than {MOST_RATIO} times what it takes.")
        signature, _, flags, method, *_, named, extra = LOCAL.unpack(_read_at(self._file, entry.at, LOCAL.size))
        at = entry.at + LOCAL.size + named + extra
        is_same = signature == b"PK\x03\x04" and method == entry.method and not flags & ENCRYPTED
        if not is_same or at + entry.packed > self._ends[entry.at] or self._file.read(named) != entry.raw_name:
            raise BadZip(DAMAGED)
        crc, left = 0, entry.size
        for piece in self._unpacked(entry, at):
            crc, left = zlib.crc32(piece, crc), left - len(piece)
            if left < 0:
                break
            yield piece
        if left or crc != entry.crc:
            raise BadZip(DAMAGED)

    def _unpacked(self, entry: Entry, at: int) -> Iterator[bytes]:
        """Piece by piece: who counts can stop."""
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        for start in range(0, entry.packed, PIECE):
            content = _read_at(self._file, at + start, min(PIECE, entry.packed - start))
            if entry.method == STORED:
                yield content
                continue
            try:
                while len(piece := unpacker.decompress(content, PIECE)) == PIECE or unpacker.unconsumed_tail:
                    yield piece
                    content = unpacker.unconsumed_tail
                yield piece
            except zlib.error:
                raise BadZip(DAMAGED) from None
        if entry.method == DEFLATED and (not unpacker.eof or unpacker.unused_data):
            raise BadZip(DAMAGED)


def _read_at(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(at)
    read = file.read(size)
    if len(read) < size:
        raise BadZip(DAMAGED)
    return read


def _directory(file: BinaryIO) -> tuple[int, int, int]:
    """The number of files, and the size and place of the directory (§4.3.14 to §4.3.16)."""
    length = file.seek(0, io.SEEK_END)
    start = max(0, length - END.size - LONGEST_COMMENT)
    tail = _read_at(file, start, length - start)
    place = tail.rfind(b"PK\x05\x06")
    while place >= 0 and not _ends_with_comment(tail, place):
        place = tail.rfind(b"PK\x05\x06", 0, place)
    if place < 0:
        raise BadZip(DAMAGED)
    _, disk, first, here, count, size, at, _ = END.unpack_from(tail, place)
    end = start + place
    if end >= LOCATOR.size and (locator := _read_at(file, end - LOCATOR.size, LOCATOR.size))[:4] == b"PK\x06\x07":
        _, _, end, disks = LOCATOR.unpack(locator)
        signature, _, _, _, *numbers = END_64.unpack(_read_at(file, min(end, length), END_64.size))
        stated = [(disk, MANY), (first, MANY), (here, MANY), (count, MANY), (size, IN_ZIP64), (at, IN_ZIP64)]
        agree = all(one in (there, many) for (one, many), there in zip(stated, numbers, strict=True))
        if signature != b"PK\x06\x06" or disks > 1 or not agree:
            raise BadZip("The ZIP file has two directories that contradict each other. Make it with another program.")
        disk, first, here, count, size, at = numbers
    if disk or first or here != count or at + size > end or count * CENTRAL.size > size:
        raise BadZip(DAMAGED)
    return count, size, at


def _ends_with_comment(tail: bytes, place: int) -> bool:
    is_whole = place + END.size <= len(tail)
    return is_whole and place + END.size + int(END.unpack_from(tail, place)[-1]) == len(tail)


def _entries(directory: bytes, count: int) -> Iterator[Entry]:
    """All of the directory (§4.3.12)."""
    at = 0
    for _ in range(count):
        if at + CENTRAL.size > len(directory):
            raise BadZip(DAMAGED)
        signature, _, _, flags, method, _, _, crc, packed, size, named, extra, comment, disk, _, _, header = (
            CENTRAL.unpack_from(directory, at)
        )
        after_name = at + CENTRAL.size + named
        raw_name = directory[at + CENTRAL.size : after_name]
        if signature != b"PK\x01\x02" or len(raw_name) < named or disk not in (0, MANY):
            raise BadZip(DAMAGED)
        if flags & ENCRYPTED:
            raise BadZip("The ZIP file is encrypted. Make one without a password.")
        if method not in (STORED, DEFLATED):
            raise BadZip("The ZIP file is packed in an unusual way. Make one with Deflate.")
        if IN_ZIP64 in (size, packed, header):
            size, packed, header = _zip64(directory[after_name : after_name + extra], size, packed, header)
        if (size != packed) if method == STORED else packed > 2 * size + SMALL:
            raise BadZip(DAMAGED)
        yield Entry(_name(raw_name, flags), raw_name, method, crc, size, packed, header)
        at = after_name + extra + comment
    if at != len(directory):
        raise BadZip(DAMAGED)


def _name(raw: bytes, flags: int) -> str:
    try:
        name = raw.decode("utf-8" if flags & UTF_8 else "cp437")
    except UnicodeDecodeError:
        raise BadZip(DAMAGED) from None
    if not name or LEADS_ELSEWHERE.search(name):
        raise BadZip("The ZIP file has a file whose name leads out of it. Make it again without such names.")
    return name


def _zip64(extra: bytes, *stated: int) -> list[int]:
    """Size, packed size and place, with those from the field of ZIP64 that are not stated (§4.5.3)."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            wanted = stated.count(IN_ZIP64)
            if length < 8 * wanted or at + 4 + length > len(extra):
                break
            found = iter(struct.unpack_from(f"<{wanted}Q", extra, at + 4))
            return [next(found) if one == IN_ZIP64 else one for one in stated]
        at += 4 + length
    raise BadZip(DAMAGED)


def _ends(entries: Iterable[Entry], directory_at: int) -> dict[int, int]:
    """Where each must end, by its place: where the next begins, or the directory. Raises BadZip if two overlap."""
    ends: dict[int, int] = {}
    end = directory_at
    for entry in sorted(entries, key=attrgetter("at"), reverse=True):
        if entry.at + LOCAL.size + len(entry.raw_name) + entry.packed > end:
            raise BadZip("Files in the ZIP file overlap. Make it again with another program.")
        ends[entry.at] = end
        end = entry.at
    return ends
