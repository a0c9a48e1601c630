"""Where backups are kept: a folder, or S3-compatible storage. A file gets its name there once it is whole."""

from __future__ import annotations

import datetime
import hashlib
import io
import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from apps.optional.backup.container import BadBackup
from apps.optional.backup.files import COPY_BYTES, sync_folder

S3 = "s3://"
SUFFIX = ".tar"
OWN_NAME = re.compile(r"parley-\d{8}T\d{6}Z-[0-9a-f]{8}\.tar")
"""The names that Parley gives, and the only ones that it ever deletes."""


class Output(Protocol):
    """A file that is written. `bytes` were so far."""

    bytes: int

    def write(self, content: Any, /) -> int: ...


class Place(Protocol):
    """What holds backups by name. All of it raises BadBackup."""

    @property
    def label(self) -> str: ...

    def check_free(self, name: str) -> None:
        """Can a backup of this name be written here?"""

    def writing(self, name: str) -> AbstractContextManager[Output]:
        """A file that gets its name when the block ends well, and what it holds is what was written.

        What fails in the block for another reason than this file, it raises as BadBackup itself.
        """

    def open(self, name: str) -> io.BufferedReader: ...

    def sizes(self) -> dict[str, int]:
        """The complete files here: bytes by name."""

    def delete(self, name: str) -> None: ...

    def discard(self, name: str) -> None:
        """Delete what a killed attempt to write this file has left."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A backup, to be written or read. Without a name, each one that is made here gets a new one."""

    place: Place
    name: str = ""

    @property
    def label(self) -> str:
        return f"{self.place.label}/{self.name}"

    def named(self) -> Stored:
        if self.name:
            return self
        now = datetime.datetime.now(datetime.UTC)
        return Stored(self.place, f"parley-{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}{SUFFIX}")

    def open(self) -> io.BufferedReader:
        if not self.name:
            found = sorted(name for name in self.place.sizes() if name.endswith(SUFFIX))[-5:]
            raise BadBackup(f"{self.place.label} is a folder. Name a file of it: {', '.join(found) or 'it has none'}.")
        return self.place.open(self.name)


def stored_at(text: str) -> Stored:
    """What a path or an address names. An address is a folder's unless it ends in `.tar`. Raises BadBackup."""
    if text == "-":
        return Stored(StandardOutput(), "-")
    if text.startswith(S3):
        folder, _, name = text.removeprefix(S3).rpartition("/") if text.endswith(SUFFIX) else (text[len(S3) :], "", "")
        return Stored(_bucket(folder.rstrip("/")), name)
    if "://" in text:
        raise BadBackup(
            f"Backups go into a file, a folder, or {S3}BUCKET/FOLDER, and not to {text.partition('://')[0]}."
        )
    path = Path(text).absolute()
    return Stored(Folder(path)) if path.is_dir() or text.endswith("/") else Stored(Folder(path.parent), path.name)


def _bucket(path: str) -> Place:
    try:
        from apps.optional.backup.s3 import Bucket
    except ImportError as error:
        raise BadBackup(
            f"{S3} needs a package that is not installed ({error.name}): pip install 'parley-platform[s3]'"
        ) from error
    return Bucket.at(path)


@dataclass(frozen=True, slots=True)
class Folder:
    path: Path

    @property
    def label(self) -> str:
        return str(self.path)

    def check_free(self, name: str) -> None:
        if not self.path.is_dir():
            raise BadBackup(f"There is no folder {self.path}.")
        if (self.path / name).exists():
            raise BadBackup(f"{self.path / name} exists. Choose another name, or delete it first.")

    @contextmanager
    def writing(self, name: str) -> Iterator[Output]:
        with refused("written", self.path / name), _checked_file(self.path / name) as file:
            yield file

    def open(self, name: str) -> io.BufferedReader:
        with refused("read", self.path / name):
            return open(self.path / name, "rb")

    def sizes(self) -> dict[str, int]:
        with refused("read", self.path):
            return {one.name: one.stat().st_size for one in os.scandir(self.path) if one.is_file()}

    def delete(self, name: str) -> None:
        with refused("changed", self.path):
            (self.path / name).unlink(missing_ok=True)

    def discard(self, name: str) -> None:
        _part_of(self.path / name).unlink(missing_ok=True)


@contextmanager
def refused(doing: str, what: object) -> Iterator[None]:
    """Raises BadBackup for what the machine does not allow."""
    try:
        yield
    except OSError as error:
        raise BadBackup(f"{error.filename or what} cannot be {doing}: {error.strerror or error}.") from error


def _part_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


@contextmanager
def _checked_file(path: Path) -> Iterator[Output]:
    """A new file (mode 600) that gets its name when all is on the disk, and was read from there again."""
    part = _part_of(path)
    handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(handle, "w+b") as file:
            yield (written := Counted(file, path))
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # so that the disk is read, not memory
            file.seek(0)
            if _sha256(file) != written.sha256.digest():
                raise BadBackup(f"{path} is not what was written. The disk or the memory of this machine is broken.")
        os.rename(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _sha256(file: IO[bytes]) -> bytes:
    digest = hashlib.sha256()
    while some := file.read(COPY_BYTES):
        digest.update(some)
    return digest.digest()


class Counted:
    """Writes into another file, and sums up what. Raises BadBackup, with `label`."""

    def __init__(self, out: IO[bytes], label: object) -> None:
        self._out, self._label = out, label
        self.bytes, self.sha256 = 0, hashlib.sha256()

    def write(self, content: Any) -> int:
        with refused("written", self._label):
            self._out.write(content)
        self.sha256.update(content)
        self.bytes += len(content)
        return len(content)


class StandardOutput:
    """A pipe to another program. What arrives there, and where, is that program's."""

    label = "standard output"

    def check_free(self, name: str) -> None:
        """It always is."""

    @contextmanager
    def writing(self, name: str) -> Iterator[Output]:
        yield Counted(sys.stdout.buffer, self.label)
        sys.stdout.buffer.flush()

    def open(self, name: str) -> io.BufferedReader:
        raise BadBackup("A backup is read twice, so it cannot come from a pipe. Name a file.")

    def sizes(self) -> dict[str, int]:
        return {}

    def delete(self, name: str) -> None:
        """Nothing stays here."""

    discard = delete
