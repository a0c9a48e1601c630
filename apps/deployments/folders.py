"""An agent's folder as a ZIP file, and back."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from agentkit import HandlerError
from agentkit.command.folders import DESCRIPTION, Description
from agentkit.content.zips import BadZip, Zip

MOST_BYTES = 32 * 1024 * 1024  # of all files, unpacked
MOST_FILES = 5_000
LEFT_OUT = frozenset({".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache",
                      ".pytest_cache", ".DS_Store", ".env"})  # fmt: skip
FIXED_TIME = (2000, 1, 1, 0, 0, 0)


type Files = Iterable[tuple[str, bytes, bool]]
"""Names, contents, and whether they are programs."""


@dataclass(frozen=True)
class Packed:
    """A folder. The digest is that of its files' names and contents."""

    archive: bytes
    digest: str
    files: int
    description: Description


def pack_folder(folder: Path) -> Packed:
    """The folder without what is made again, and without `.env`, whose secrets are given by name.

    Raises HandlerError: it has no agent, or is too large.
    """
    if not (folder / DESCRIPTION).is_file():
        raise HandlerError(f"{folder.resolve()} has no {DESCRIPTION}. `agentkit new` makes a folder with one.")
    return _pack(_files_of(folder))


def pack_zip(file: bytes | BinaryIO) -> Packed:
    """A ZIP file of a folder, or of what is in it. Raises HandlerError."""
    try:
        opened = Zip(file, MOST_FILES)
        names = [name for name in opened.entries if not name.endswith("/")]
        top = next((name.rpartition("/")[0] for name in names if re.fullmatch(rf"([^/]+/)?{DESCRIPTION}", name)), None)
        if top is None:
            raise HandlerError(f"The ZIP file has no {DESCRIPTION}.")
        inside = f"{top}/" if top else ""
        chosen = sorted(name for name in names if name.startswith(inside) and not LEFT_OUT & set(name.split("/")))
        return _pack((name.removeprefix(inside), opened.read(name, MOST_BYTES), False) for name in chosen)
    except BadZip as bad:
        raise HandlerError(str(bad)) from None


def _pack(files: Files) -> Packed:
    total, digest, output, count, description = 0, hashlib.sha256(), io.BytesIO(), 0, b""
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for count, (name, content, may_run) in enumerate(files, 1):
            total += len(content)
            if total > MOST_BYTES or count > MOST_FILES:
                most = f"{MOST_BYTES // 1024**2} MiB or {MOST_FILES} files"
                raise HandlerError(f"The folder has more than {most}, with {name}. Move what the agent does not need.")
            info = zipfile.ZipInfo(name, FIXED_TIME)
            info.external_attr, info.compress_type = (0o755 if may_run else 0o644) << 16, zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
            digest.update(f"{name}\0{len(content)}\0{may_run}\0".encode() + content)
            description = content if name == DESCRIPTION else description
    return Packed(output.getvalue(), digest.hexdigest(), count, Description.parse(description, DESCRIPTION))


def _files_of(folder: Path) -> Files:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - LEFT_OUT)
        for name in sorted(set(names) - LEFT_OUT):
            file = Path(root, name)
            if file.is_symlink():
                raise HandlerError(f"{file.relative_to(folder)} is a symbolic link. Put the file itself there.")
            yield file.relative_to(folder).as_posix(), file.read_bytes(), bool(file.stat().st_mode & 0o100)


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
