"""The stored files of a backup: they stay readable while it is written, though sessions are deleted meanwhile."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

from django.core.files.storage import Storage

from apps.conversations.uploads import resumable
from apps.conversations.uploads.models import Upload
from apps.optional.backup.container import BadBackup, FileSums, MemberContent
from apps.optional.backup.database import NotEmpty, Progress, Snapshot
from apps.optional.backup.tables import Table
from apps.record.content import blobs
from apps.record.models import Blob, Context

FOLDER = "files/"  # of the container
HOLD, STAGING = ".backup", ".restore"  # beside the stored files, whose sweeps pass over them
STORED_NAME = re.compile(r"[0-9a-f]{2}/[0-9a-f]{62}|cold/[0-9a-f]{2}/[0-9a-f]+-[0-9a-f]+\.jsonl\.gz")
BLOB_NAME = re.compile(r"([0-9a-f]{2})/([0-9a-f]{62})")
COPY_BYTES = 1024**2


class BackupRunning(Exception):
    """Another backup of this installation is running. Wait for its end."""

    def __str__(self) -> str:
        return self.__doc__ or ""


def named_files(snapshot: Snapshot) -> Iterator[str]:
    """The names of the stored files that rows use: large parts, and archives of sessions in cold storage."""
    quote = snapshot.database.ops.quote_name
    used = Table(Blob, "uses > 0").sql(snapshot.database, f"DISTINCT {quote('sha256')}")
    yield from (blobs.path_of(sha256) for (sha256,) in snapshot.select(used))
    cold = Table(Context, "cold_file <> ''").sql(snapshot.database, quote("cold_file"))
    yield from (name for (name,) in snapshot.select(cold))


class HeldFiles:
    """Hard links to stored files, which keep them until the backup ends. Files never change, so links are enough.

    Where the file system has no hard links, the files themselves are read.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._root = _path(storage, "")
        self._folder = self._root / HOLD if self._root else None

    def __enter__(self) -> HeldFiles:
        if self._folder is not None:
            try:
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._lock = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
            except OSError as error:
                raise BadBackup(
                    f"{self._folder} cannot be used ({error.strerror}). Run backups as the user that runs Parley."
                ) from error
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._lock)
                raise BackupRunning from None
            self._clear()  # what a killed backup left
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._clear()
            os.close(self._lock)

    def _clear(self) -> None:
        assert self._folder is not None
        for entry in self._folder.iterdir():
            shutil.rmtree(entry)

    def hold(self, names: Iterator[str]) -> list[str]:
        """Keep these files; returns the names of those that do not exist."""
        return [name for name in names if not self._hold(name)]

    def _hold(self, name: str) -> bool:
        if self._folder is None or self._root is None:
            return self._storage.exists(name)
        target = self._folder / name
        if target.exists():
            return True
        target.parent.mkdir(parents=True, exist_ok=True)
        for source in (self._root / name, *_upload_of(name)):
            try:
                os.link(source, target)
                return True
            except FileExistsError:
                return True
            except FileNotFoundError:
                continue
            except OSError:  # no hard links here
                return source.exists()
        return False

    def open(self, name: str) -> tuple[IO[bytes], int]:
        """A file and its size in bytes. Raises FileNotFoundError."""
        if self._folder is not None:
            with suppress(FileNotFoundError):
                file = open(self._folder / name, "rb")  # noqa: SIM115
                return file, os.fstat(file.fileno()).st_size
        return cast(IO[bytes], self._storage.open(name)), self._storage.size(name)


def _path(storage: Storage, name: str) -> Path | None:
    try:
        return Path(storage.path(name))
    except NotImplementedError:  # a storage that is no file system
        return None


def _upload_of(name: str) -> Iterator[Path]:
    """Where the file of a complete upload is until it is moved into place."""
    if found := BLOB_NAME.fullmatch(name):
        for key in Upload.objects.filter(sha256=found[1] + found[2]).values_list("pk", flat=True):
            yield resumable.path_of(key)


def check_no_files(storage: Storage) -> None:
    """Raises NotEmpty if there are stored files."""
    if (root := _path(storage, "")) is None:
        raise NotEmpty("Files can be restored only into a file system.")
    for folder, _, names in os.walk(root):
        if names and STAGING not in Path(folder).parts:
            raise NotEmpty(f"{root} has files, such as {Path(folder, names[0])}. Take an empty folder (DATA_DIR).")


class RestoredFiles:
    """Stored files that are written beside their place, and moved there together."""

    def __init__(self, storage: Storage, progress: Progress) -> None:
        root = _path(storage, "")
        assert root is not None
        self._root, self._staging, self._progress = root, root / STAGING, progress
        self._moved: list[Path] = []
        self._count = 0
        shutil.rmtree(self._staging, ignore_errors=True)  # what a killed restore left
        self._staging.mkdir(parents=True, mode=0o700)

    def write(self, name: str, content: MemberContent) -> None:
        path = self._staging / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "xb") as file:
            shutil.copyfileobj(cast(Any, content), file, COPY_BYTES)
            file.flush()
            os.fsync(file.fileno())
        self._count += 1
        self._progress(f"{self._count:,} files")

    def move_into_place(self) -> None:
        """Then all names are on the disk, so that a commit after it has its files even if the machine stops."""
        for path, _, _ in os.walk(self._staging):
            sync_folder(Path(path))
        for folder in sorted(self._staging.iterdir()):
            target = self._root / folder.name
            with suppress(FileNotFoundError):
                target.rmdir()  # empty, as was checked
            os.rename(folder, target)
            self._moved.append(target)
        sync_folder(self._root)

    def undo(self) -> None:
        for folder in self._moved:
            shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        shutil.rmtree(self._staging, ignore_errors=True)


def check_stored_name(name: str) -> str:
    """The stored file's name of a member. Raises BadBackup for a name that Parley does not give."""
    stored = name.removeprefix(FOLDER)
    if not STORED_NAME.fullmatch(stored):
        raise BadBackup(f"The backup has a file of an unknown kind: {name[:100]}.")
    return stored


def count_file(sums: FileSums, name: str, size: int, content: MemberContent) -> None:
    """Read a stored file to its end and count it. Raises BadBackup if it is not the file of its name."""
    sha256, stored = content.digest(), check_stored_name(name)
    if (found := BLOB_NAME.fullmatch(stored)) and found[1] + found[2] != sha256:
        raise BadBackup(f"The backup is damaged: {name} was changed. Use another one.")
    sums.add(stored, size, sha256)


def sync_folder(path: Path) -> None:
    """Write the folder's names to the disk."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
