"""An agent's folder in an archive that somebody sends, and unpacked again. Nothing in an archive is trusted."""

from __future__ import annotations

import gzip
import io
import re
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath

from agentkit import HandlerError
from agentkit.command.folders import DESCRIPTION
from agentkit.command.packing import MOST_BYTES, MOST_FILES, Packed, is_left_out, pack
from agentkit.content.zips import LEADS_ELSEWHERE, BadZip, Zip

GZIP, ZIP = b"\x1f\x8b", b"PK"
MOST_ARCHIVE_BYTES = MOST_BYTES + MOST_FILES * 4 * tarfile.BLOCKSIZE  # with headers and padding
DAMAGED = "The tar file is damaged. Make it again."

type Found = dict[str, tuple[Callable[[], bytes], bool]]
"""What reads the content, and whether it is a program, by names."""


def pack_archive(file: bytes) -> Packed:
    """The folder in a ZIP, tar or tar.gz file, of which it may be all or the one folder. Raises HandlerError."""
    try:
        found = _in_zip(file) if file.startswith(ZIP) else _in_tar(file)
        inside = _folder_in(found)
        names = sorted(name for name in found if name.startswith(inside) and not any(map(is_left_out, name.split("/"))))
        folders = {str(parent) for name in names for parent in PurePosixPath(name).parents}
        if both := folders.intersection(names):
            raise HandlerError(f"{min(both)[:100]} is a file and a folder. Make the archive again.")
        return pack((name.removeprefix(inside), found[name][0](), found[name][1]) for name in names)
    except BadZip as bad:
        raise HandlerError(str(bad)) from None


def _folder_in(names: Found) -> str:
    """Where the agent's description is: "" or "folder/". Raises HandlerError."""
    for name in sorted(names, key=lambda one: one.count("/")):
        if re.fullmatch(rf"([^/]+/)?{re.escape(DESCRIPTION)}", name):
            return name.removesuffix(DESCRIPTION)
    raise HandlerError(f"The archive has no {DESCRIPTION}.")


def _in_zip(file: bytes) -> Found:
    """Raises HandlerError, and BadZip, also when a file is read."""
    opened = Zip(file, MOST_FILES)
    found: Found = {}
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
    for name in opened.entries:
        if stat.S_ISLNK(mode := modes.get(name, 0)):
            raise HandlerError(f"{name[:100]} is a symbolic link. Put the file itself there.")
        if not name.endswith("/"):
            found[name] = partial(opened.read, name, MOST_BYTES), bool(mode & 0o100)
    return found


def _in_tar(file: bytes) -> Found:
    """Raises HandlerError."""
    found: Found = {}
    try:
        archive = tarfile.open(fileobj=io.BytesIO(_unzipped(file)), mode="r:")  # noqa: SIM115 in memory, and read later
        for member in _files_in(archive):
            name = member.name.removeprefix("./")
            if name in found or not name or LEADS_ELSEWHERE.search(name):
                raise HandlerError(f"The tar file has `{name[:100]}` twice, or it leads out of it. Make it again.")
            found[name] = partial(_content, archive, member), bool(member.mode & 0o100)
    except (tarfile.TarError, UnicodeError, ValueError):
        raise HandlerError(DAMAGED if found else "Send a folder as a ZIP, tar or tar.gz file.") from None
    return found


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    content = file.read() if file else b""
    if len(content) != member.size:
        raise HandlerError(DAMAGED)
    return content


def _files_in(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for count, member in enumerate(archive, 1):
        if count > MOST_FILES:
            raise HandlerError(f"The tar file has more than {MOST_FILES:,} files.")
        if member.isdir():
            continue
        if not member.isreg() or member.issparse():
            raise HandlerError(f"{member.name[:100]} is no file, but a link or a device. Put the file itself there.")
        yield member


def _unzipped(file: bytes) -> bytes:
    """Raises HandlerError."""
    try:
        whole = gzip.GzipFile(fileobj=io.BytesIO(file)).read(MOST_ARCHIVE_BYTES + 1) if file.startswith(GZIP) else file
    except (OSError, EOFError, zlib.error):
        raise HandlerError(DAMAGED) from None
    if len(whole) > MOST_ARCHIVE_BYTES:
        raise HandlerError(f"The folder has more than {MOST_BYTES // 1024**2} MiB. Move what the agent does not need.")
    return whole


def unpack(archive: bytes, at: Path) -> None:
    """Unpack what `pack` made, whole or not at all."""
    made = Path(tempfile.mkdtemp(prefix=f".{at.name}-", dir=at.parent))
    with zipfile.ZipFile(io.BytesIO(archive)) as packed:
        packed.extractall(made)  # noqa: S202 no tar file, and one that `pack` made
        for info in packed.infolist():
            (made / info.filename).chmod(info.external_attr >> 16 & 0o777)
    try:
        made.rename(at)
    except OSError:  # another process was first
        shutil.rmtree(made, ignore_errors=True)
        if not at.is_dir():
            raise
