"""An exported file: its JSON documents, and the files beside them, read one by one and within bounds."""

from __future__ import annotations

import base64
import binascii
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import unquote_to_bytes

from agentkit.content.zips import BadZip, Zip
from apps.record.errors import InvalidParams

MAX_FILE_BYTES = 50 * 1024**2  # of JSON, unpacked
MAX_ZIP_ENTRIES = 50_000
MAX_NAMED = 20  # documents that are not read
MAX_OTHER_DOCUMENTS = 2000  # of JSON in a ZIP, where none is called conversations
MAX_ASSET_BYTES = 20 * 1024**2  # of one file beside the conversations, unpacked
LONGEST_URL = MAX_ASSET_BYTES * 4 // 3 + 200  # of a file as a data URL
MAX_DOCUMENTS = 100 * 1024**2  # characters, of all versions of documents that the conversations contain
FILE_ID = re.compile(r"file[-_][A-Za-z0-9]+")
DATA_URL = re.compile(r"data:([\w.+/-]*)((?:;[\w.+=\"-]+)*),", re.ASCII)


@dataclass(frozen=True)
class Attachment:
    """A file of a message: `source` is the id of a file in the ZIP, or a data URL."""

    name: str
    media_type: str
    source: str


class Package:
    """Raises InvalidParams for a ZIP that is damaged, encrypted or made to do harm.

    `unread`: once the documents were read, the names of some others.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._zip: Zip | None = None
        self._room = MAX_DOCUMENTS
        self.unread: tuple[str, ...] = ()
        self._assets: dict[str, str] = {}
        if file.read(4) == b"PK\x03\x04":
            try:
                self._zip = Zip(file, MAX_ZIP_ENTRIES)
            except BadZip as problem:
                raise InvalidParams(str(problem), "file") from None
            for name in self._zip.entries:
                if found := FILE_ID.match(name.rpartition("/")[2]):
                    self._assets.setdefault(found[0], name)
        file.seek(0)

    def documents(self) -> Iterator[tuple[str, bytes]]:
        """Each with its name in the ZIP. Raises InvalidParams."""
        if self._zip is None:
            yield "", _bounded(self._file.read(MAX_FILE_BYTES + 1))
            return
        names = self._document_names(self._zip)
        if sum(self._zip.entries[name].size for name in names) > MAX_FILE_BYTES:
            raise _too_large()
        for name in names:
            try:
                yield name.rpartition("/")[2], self._zip.read(name, MAX_FILE_BYTES)
            except BadZip as problem:
                raise InvalidParams(str(problem), "file") from None
        if not names:
            raise InvalidParams("The ZIP file has no conversations.json, or other JSON files.", "file")

    def _document_names(self, archive: Zip) -> list[str]:
        """Programs call them conversations; without such files, all JSON files are read."""
        names = sorted(one for one in archive.entries if one.lower().endswith(".json"))
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
        rest = self._assets[key].rpartition("/")[2][len(key) :].lstrip("-_")
        return f"file{rest}" if rest.startswith(".") else rest

    def takes_document(self, size: int) -> bool:
        """Whether there is room for one more in memory. A short edit makes a whole version, so these can be many."""
        self._room -= size
        return self._room >= 0

    def is_beyond_bounds(self, attachment: Attachment) -> bool:
        """Is it too large, or too much compressed?"""
        if attachment.source.startswith("data:"):
            return len(attachment.source) > LONGEST_URL
        entry = self._zip.entries[self._assets[attachment.source]] if self._zip is not None else None
        return entry is not None and (entry.is_bomb or entry.size > MAX_ASSET_BYTES)

    def content_of(self, attachment: Attachment) -> bytes | None:
        """None if it cannot be read, or is too large or too much compressed."""
        if attachment.source.startswith("data:"):
            return _content_of_url(attachment.source)
        if self._zip is None:
            return None
        try:
            return self._zip.read(self._assets[attachment.source], MAX_ASSET_BYTES)
        except BadZip:
            return None


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


def _too_large() -> InvalidParams:
    return InvalidParams(f"The conversations have more than {MAX_FILE_BYTES // 1024**2} MB. Split the file.", "file")


def _is_conversations(name: str) -> bool:
    last = name.rpartition("/")[2]
    return last.startswith("conversations") and last.endswith(".json")


def _bounded(content: bytes) -> bytes:
    if len(content) > MAX_FILE_BYTES:
        raise _too_large()
    return content
