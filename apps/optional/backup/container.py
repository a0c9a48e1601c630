"""A backup's container: an uncompressed tar, written and read as a stream, with `manifest.json` as its last member.

`tar tf` lists it. Python's `tarfile` remembers every member, so only its headers are used here.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import time
from collections.abc import Iterator
from typing import IO, Any, NotRequired

from typing_extensions import TypedDict

BLOCK = tarfile.BLOCKSIZE
COPY_BYTES = 1024**2
MANIFEST = "manifest.json"
FORMAT, VERSION = "parley-backup", 1
MAX_MANIFEST_BYTES = 64 * 1024**2


class BadBackup(Exception):
    """The file is no backup, is damaged, or does not fit here; the message says what to do."""


class TableSummary(TypedDict):
    """A table: its columns in the order of the rows' values, and the highest key that was ever given out."""

    columns: list[str]
    rows: int
    lastKey: int


class Member(TypedDict):
    name: str
    bytes: int
    sha256: str


class FilesSummary(TypedDict):
    """The stored files. `sha256` covers a line `<sha256> <bytes> <name>` for each, in the order of the container."""

    count: int
    bytes: int
    sha256: str
    missing: list[str]


class Manifest(TypedDict):
    """`manifest.json`. `masterKeys`: ids of the keys of encrypted columns. `members`: all others but stored files."""

    format: str
    version: int
    parley: str
    madeAt: str
    vendor: str
    migrations: list[str]
    masterKeys: list[str]
    tables: dict[str, TableSummary]
    files: FilesSummary
    members: NotRequired[list[Member]]


class FileSums:
    """Counts stored files, as `FilesSummary` describes them."""

    def __init__(self) -> None:
        self.count = self.bytes = 0
        self._digest = hashlib.sha256()

    def add(self, name: str, size: int, sha256: str) -> None:
        self.count, self.bytes = self.count + 1, self.bytes + size
        self._digest.update(f"{sha256} {size} {name}\n".encode())

    def summary(self, missing: list[str]) -> FilesSummary:
        return {"count": self.count, "bytes": self.bytes, "sha256": self._digest.hexdigest(), "missing": missing}


class ContainerWriter:
    """Writes members one after the other into a stream, which stays open."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out, self._now = out, int(time.time())
        self.members: list[Member] = []

    def add(self, name: str, content: bytes) -> None:
        """Write a member that the manifest lists."""
        self.members.append({"name": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()})
        self.copy(name, io.BytesIO(content), len(content))

    def copy(self, name: str, file: IO[bytes], size: int) -> str:
        """Write a member of `size` bytes; returns its SHA-256. Raises BadBackup if the file has not that size."""
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = size, 0o600, self._now
        self._out.write(info.tobuf(tarfile.GNU_FORMAT))
        digest, left = hashlib.sha256(), size
        while left and (some := file.read(min(left, COPY_BYTES))):
            digest.update(some)
            self._out.write(some)
            left -= len(some)
        if left or file.read(1):
            raise BadBackup(f"{name} changed while it was read.")
        self._out.write(bytes(-size % BLOCK))
        return digest.hexdigest()

    def finish(self, manifest: Manifest) -> None:
        manifest["members"] = self.members
        content = json.dumps(manifest, indent=1).encode()
        self.copy(MANIFEST, io.BytesIO(content), len(content))
        self._out.write(bytes(2 * BLOCK))


class MemberContent(io.RawIOBase):
    """A member's bytes. Raises BadBackup where the container ends early."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._stream, self.left, self._digest = stream, size, hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        some = self._stream.read(min(len(buffer), self.left))
        if self.left and not some:
            raise BadBackup("The backup is cut off. Use a whole one.")
        buffer[: len(some)] = some
        self._digest.update(some)
        self.left -= len(some)
        return len(some)

    def digest(self) -> str:
        """The SHA-256 of the whole member, of which the rest is read."""
        while self.read(COPY_BYTES):
            pass
        return self._digest.hexdigest()


def members(stream: IO[bytes]) -> Iterator[tuple[str, int, MemberContent]]:
    """Each member's name, size and content. Raises BadBackup for what is no whole container."""
    while True:
        block = stream.read(BLOCK)
        if block == bytes(BLOCK):
            return
        if len(block) < BLOCK:
            raise BadBackup("The backup is cut off. Use a whole one.")
        try:
            info = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        except (tarfile.TarError, ValueError) as error:
            raise BadBackup("This is no backup of Parley, or it is damaged.") from error
        if not info.isreg():
            raise BadBackup("This is no backup of Parley: it has other members than files.")
        content = MemberContent(stream, info.size)
        yield info.name, info.size, content
        content.digest()
        if len(stream.read(-info.size % BLOCK)) != -info.size % BLOCK:
            raise BadBackup("The backup is cut off. Use a whole one.")


def read_manifest(content: MemberContent, size: int) -> Manifest:
    """Raises BadBackup for a manifest of another format or version."""
    if size > MAX_MANIFEST_BYTES:
        raise BadBackup("The backup's manifest is too long.")
    try:
        manifest: Manifest = json.loads(content.read())
        kind = (manifest["format"], manifest["version"])
        if missing := Manifest.__required_keys__ - manifest.keys():
            raise ValueError(missing)
    except (ValueError, LookupError, TypeError) as error:
        raise BadBackup("The backup's manifest is damaged.") from error
    if kind != (FORMAT, VERSION):
        raise BadBackup("The backup has a format that this version of Parley does not know. Use the one that made it.")
    return manifest
