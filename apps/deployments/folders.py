"""An agent's folder as a ZIP file, and back."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentkit import HandlerError
from agentkit.command.folders import DESCRIPTION

MOST_BYTES = 32 * 1024 * 1024  # of all files, unpacked
MOST_FILES = 5_000
LEFT_OUT = frozenset({".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache",
                      ".pytest_cache", ".DS_Store", ".env"})  # fmt: skip
FIXED_TIME = (2000, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Packed:
    """A folder. The digest is that of its files' names and contents."""

    archive: bytes
    digest: str
    files: int


def pack(folder: Path) -> Packed:
    """The folder without what is made again, and without `.env`, whose secrets are given by name.

    Raises HandlerError: it has no agent, or is too large.
    """
    if not (folder / DESCRIPTION).is_file():
        raise HandlerError(f"{folder.resolve()} has no {DESCRIPTION}. `agentkit new` makes a folder with one.")
    total, digest, output = 0, hashlib.sha256(), io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for count, file in enumerate(_files(folder), 1):
            if count > MOST_FILES:
                raise HandlerError(f"{folder} has more than {MOST_FILES} files. Move what the agent does not need.")
            name, content = file.relative_to(folder).as_posix(), file.read_bytes()
            total += len(content)
            if total > MOST_BYTES:
                raise HandlerError(f"{folder} has more than {MOST_BYTES // 1024**2} MiB, with {name}.")
            may_run = bool(file.stat().st_mode & 0o100)
            info = zipfile.ZipInfo(name, FIXED_TIME)
            info.external_attr, info.compress_type = (0o755 if may_run else 0o644) << 16, zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
            digest.update(f"{name}\0{len(content)}\0{may_run}\0".encode() + content)
    return Packed(output.getvalue(), digest.hexdigest(), count)


def _files(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - LEFT_OUT)
        for name in sorted(set(names) - LEFT_OUT):
            file = Path(root, name)
            if file.is_symlink():
                raise HandlerError(f"{file.relative_to(folder)} is a symbolic link. Put the file itself there.")
            yield file


def unpack(archive: bytes, at: Path) -> None:
    """Unpack what `pack` made, whole or not at all."""
    made = at.with_name(f".{at.name}-{os.getpid()}")
    shutil.rmtree(made, ignore_errors=True)
    with zipfile.ZipFile(io.BytesIO(archive)) as packed:
        packed.extractall(made)
        for info in packed.infolist():
            (made / info.filename).chmod(info.external_attr >> 16 & 0o777)
    try:
        made.rename(at)
    except OSError:  # another process was first
        shutil.rmtree(made, ignore_errors=True)
        if not at.is_dir():
            raise
