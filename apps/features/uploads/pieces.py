"""The file of what came so far: its length is the offset at which an upload goes on, also after a crash."""

from __future__ import annotations

import fcntl
import hashlib
import os
import uuid
from pathlib import Path

from django.conf import settings

from apps.features.uploads.models import Upload
from apps.record.errors import FileTooLarge, WrongOffset
from apps.record.media_types import HEAD

AT_ONCE = 1024**2  # bytes that are hashed at once


def path_of(upload: uuid.UUID) -> Path:
    return Path(settings.UPLOADS_DIR) / upload.hex


def offset_of(upload: Upload) -> int:
    """How many bytes there are."""
    if upload.is_whole:
        return upload.size
    try:
        return path_of(upload.pk).stat().st_size
    except FileNotFoundError:
        return 0


def make(upload: uuid.UUID) -> None:
    """An empty file for an upload that is to come."""
    path = path_of(upload)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.touch(mode=0o600)


class Appending:
    """The file, open for one who appends: whoever else wants to is refused until it is closed, or its process dies.

    All of it blocks: call it in a thread.
    """

    def __init__(self, upload: Upload, offset: int | None = None) -> None:
        """Open it at `offset`, or wherever it is. Raises WrongOffset."""
        self.upload = upload
        path = path_of(upload.pk)
        try:
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except FileNotFoundError:
            raise WrongOffset(offset_of(upload)) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.began_at = self.offset = os.fstat(self._file).st_size
            if offset is not None and offset != self.offset:
                raise WrongOffset(self.offset)
            if not os.path.samestat(os.fstat(self._file), path.stat()):
                raise WrongOffset(self.offset)  # it was finished meanwhile
        except (BlockingIOError, FileNotFoundError):
            self.close()
            raise WrongOffset(offset_of(upload)) from None
        except WrongOffset:
            self.close()
            raise

    def write(self, content: bytes) -> None:
        """Append it. Raises FileTooLarge for more than was announced; then nothing of this opening is kept."""
        if self.offset + len(content) > self.upload.size:
            os.ftruncate(self._file, self.began_at)
            raise FileTooLarge(f"The file was announced with {self.upload.size} bytes, and this is more.")
        left = memoryview(content)
        while left:
            written = os.write(self._file, left)
            self.offset += written
            left = left[written:]

    def keep(self) -> None:
        """What was written is there after a crash of the machine."""
        os.fsync(self._file)

    def digest(self) -> tuple[str, bytes]:
        """The SHA-256 of all of it, and its beginning."""
        whole = hashlib.sha256()
        head = os.pread(self._file, HEAD, 0)
        place = 0
        while content := os.pread(self._file, AT_ONCE, place):
            whole.update(content)
            place += len(content)
        return whole.hexdigest(), head

    def close(self) -> None:
        os.close(self._file)
