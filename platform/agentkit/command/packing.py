"""An agent's folder as one archive: what is packed, how much may be, and the digest by which it is known."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agentkit.command.folders import DESCRIPTION, Description
from agentkit.errors import HandlerError

MOST_BYTES = 32 * 1024 * 1024  # of all files, unpacked
MOST_FILES = 5_000
LEFT_OUT = frozenset({".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache",
                      ".pytest_cache", ".DS_Store", ".env"})  # fmt: skip
FIXED_TIME = (2000, 1, 1, 0, 0, 0)

type Files = Iterable[tuple[str, bytes, bool]]
"""Names, contents, and whether they are programs."""


@dataclass(frozen=True)
class Packed:
    """A folder. The digest is that of its files' names and contents, so the same files are the same folder."""

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
    return pack(_files_of(folder))


def pack(files: Files) -> Packed:
    """A ZIP file of these. Raises HandlerError: they are too large, or their description is wrong."""
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


def is_left_out(name: str) -> bool:
    """Is a file or folder of this name never packed?"""
    return name in LEFT_OUT or name.startswith(".env.")


def _files_of(folder: Path) -> Files:
    for file in sorted(_paths_in(folder), key=Path.as_posix):  # as those of any archive, for the digest
        name = file.relative_to(folder).as_posix()
        if file.is_symlink():
            raise HandlerError(f"{name} is a symbolic link. Put the file itself there.")
        try:
            yield name, file.read_bytes(), bool(file.stat().st_mode & 0o100)
        except OSError as error:
            raise HandlerError(f"{file} cannot be read: {error.strerror}.") from None


def _paths_in(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not is_left_out(name)]
        links = [name for name in folders if Path(root, name).is_symlink()]  # which os.walk does not enter
        yield from (Path(root, name) for name in (*names, *links) if not is_left_out(name))
