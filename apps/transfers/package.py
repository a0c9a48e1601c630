"""An exported file: its JSON documents, and the files beside them, read one by one and within bounds."""

from __future__ import annotations

import base64
import binascii
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import unquote_to_bytes

from apps.record.errors import InvalidParams

MAX_FILE_BYTES = 50 * 1024**2  # of JSON, unpacked
MAX_ZIP_ENTRIES = 50_000
MAX_NAMED = 20  # documents that are not read
MAX_OTHER_DOCUMENTS = 2000  # of JSON in a ZIP, where none is called conversations
MAX_DIRECTORY_BYTES = 8 * 1024**2  # of the list of files in a ZIP
LONGEST_END = 22 + 65_535  # of the record at the end of a ZIP, with its comment
MAX_ASSET_BYTES = 20 * 1024**2  # of one file beside the conversations, unpacked
LONGEST_URL = MAX_ASSET_BYTES * 4 // 3 + 200  # of a file as a data URL
MAX_DOCUMENTS = 100 * 1024**2  # characters, of all versions of documents that the conversations contain
MAX_RATIO = 200  # of a file's size to what it takes in the ZIP
SMALL = 1024**2  # bytes whose ratio does not matter
ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError)
FILE_ID = re.compile(r"file[-_][A-Za-z0-9]+")
DATA_URL = re.compile(r"data:([\w.+/-]*)((?:;[\w.+=\"-]+)*),", re.ASCII)


@dataclass(frozen=True)
class Attachment:
    """A file of a message: `source` is the id of a file in the ZIP, or a data URL."""

    name: str
    media_type: str
    source: str


class Package:
    """Close it. Raises InvalidParams for a damaged ZIP.

    `unread`: once the documents were read, the names of some others.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._archive = file, None
        self._room = MAX_DOCUMENTS
        self.unread: tuple[str, ...] = ()
        self._assets: dict[str, zipfile.ZipInfo] = {}
        if file.read(4) == b"PK\x03\x04":
            _check_directory(file)
            try:
                self._archive = zipfile.ZipFile(file)
            except ZIP_ERRORS:
                raise _damaged() from None
            self._entries = self._archive.infolist()[:MAX_ZIP_ENTRIES]
            for entry in self._entries:
                if found := FILE_ID.match(entry.filename.rpartition("/")[2]):
                    self._assets.setdefault(found[0], entry)
        file.seek(0)

    def close(self) -> None:
        if self._archive is not None:
            self._archive.close()

    def documents(self) -> Iterator[bytes]:
        """Raises InvalidParams."""
        if self._archive is None:
            yield _bounded(self._file.read(MAX_FILE_BYTES + 1))
            return
        room = MAX_FILE_BYTES
        names = self._document_names()
        try:
            for name in names:
                with self._archive.open(name) as file:
                    text = _bounded(file.read(room + 1), room)
                room -= len(text)
                yield text
        except ZIP_ERRORS:
            raise _damaged() from None
        if not names:
            raise InvalidParams("The ZIP file has no conversations.json, or other JSON files.", "file")

    def _document_names(self) -> list[str]:
        """Programs call them conversations; without such files, all JSON files are read."""
        names = sorted(one.filename for one in self._entries if one.filename.lower().endswith(".json"))
        found = [one for one in names if _is_conversations(one)] or names[:MAX_OTHER_DOCUMENTS]
        read = set(found)
        self.unread = tuple(name.rpartition("/")[2] for name in names if name not in read)[:MAX_NAMED]
        return found

    def find(self, pointer: object) -> str:
        """The id of a file that the ZIP has, of `file-service://file-a`, `sediment://file_a?x` or `file-a`; else ""."""
        found = FILE_ID.search(pointer.rpartition("://")[2]) if isinstance(pointer, str) else None
        return found[0] if found and found[0] in self._assets else ""

    def name_of(self, key: str) -> str:
        """A file's name in the ZIP without its id."""
        rest = self._assets[key].filename.rpartition("/")[2][len(key) :].lstrip("-_")
        return f"file{rest}" if rest.startswith(".") else rest

    def takes_document(self, size: int) -> bool:
        """Whether there is room for one more in memory. A short edit makes a whole version, so these can be many."""
        self._room -= size
        return self._room >= 0

    def is_beyond_bounds(self, attachment: Attachment) -> bool:
        """Is it too large, or too much compressed?"""
        if attachment.source.startswith("data:"):
            return len(attachment.source) > LONGEST_URL
        entry = self._assets[attachment.source]
        is_bomb = entry.file_size > SMALL and entry.file_size > MAX_RATIO * max(entry.compress_size, 1)
        return is_bomb or entry.file_size > MAX_ASSET_BYTES

    def content_of(self, attachment: Attachment) -> bytes | None:
        """None if it cannot be read, or is too large or too much compressed."""
        if attachment.source.startswith("data:"):
            return _content_of_url(attachment.source)
        entry = self._assets[attachment.source]
        if self._archive is None or self.is_beyond_bounds(attachment):
            return None
        try:
            with self._archive.open(entry) as file:
                content = file.read(MAX_ASSET_BYTES + 1)
        except ZIP_ERRORS:
            return None
        return content if len(content) <= MAX_ASSET_BYTES else None


def _check_directory(file: BinaryIO) -> None:
    """Before `zipfile` reads the directory of a ZIP into memory. Raises InvalidParams if it is too long."""
    end = file.seek(0, io.SEEK_END)
    file.seek(max(0, end - LONGEST_END))
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) < at + 22:
        raise _damaged()
    count, size = struct.unpack("<HL", tail[at + 10 : at + 16])
    if count > MAX_ZIP_ENTRIES or size > MAX_DIRECTORY_BYTES:
        raise InvalidParams(f"The ZIP file has more than {MAX_ZIP_ENTRIES:,} files. Split it.", "file")


def opened(content: bytes | BinaryIO) -> Package:
    return Package(io.BytesIO(content) if isinstance(content, bytes) else content)


def media_type_of_url(url: str) -> str:
    """Of a data URL; "" for any other."""
    found = DATA_URL.match(url)
    return (found[1] or "text/plain") if found else ""


def _content_of_url(url: str) -> bytes | None:
    found = DATA_URL.match(url)
    if found is None or len(url) > LONGEST_URL:
        return None
    try:
        rest = url[found.end() :]
        return base64.b64decode(rest, validate=True) if found[2].endswith(";base64") else unquote_to_bytes(rest)
    except (binascii.Error, ValueError):
        return None


def _damaged() -> InvalidParams:
    return InvalidParams("The ZIP file is damaged or encrypted.", "file")


def _is_conversations(name: str) -> bool:
    last = name.rpartition("/")[2]
    return last.startswith("conversations") and last.endswith(".json")


def _bounded(content: bytes, room: int | None = None) -> bytes:
    if len(content) > (MAX_FILE_BYTES if room is None else room):
        raise InvalidParams(f"The conversations have more than {MAX_FILE_BYTES // 1024**2} MB. Split the file.", "file")
    return content
