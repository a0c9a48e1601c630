"""All that a session delivered, as one ZIP that is made while it is sent: it holds a few pieces at a time."""

from __future__ import annotations

import asyncio
import io
import mimetypes
import re
import unicodedata
import zipfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import batched
from pathlib import PurePosixPath

import db
from apps.record import blobs, lineage, media_types
from apps.record.events import JSON
from apps.record.models import Artifact, Context
from apps.record.parts import media_type_of, pieces_joined
from apps.record.versions import numbered

PIECE = 256 * 1024  # bytes that are read and compressed at once
ROWS = 10  # artifacts whose parts are held at once
EARLIEST = 1980  # the first year that a ZIP knows
RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
FORBIDDEN = re.compile(r'[<>:"|?*/\\]')  # in names of files, on one system or another


class _Outlet(io.RawIOBase):
    """What the ZIP is written to, and taken from as it grows."""

    def __init__(self) -> None:
        self._written = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, piece: bytes) -> int:  # type: ignore[override]
        self._written += piece
        return len(piece)

    def take(self) -> bytes:
        taken, self._written = bytes(self._written), bytearray()
        return taken


class Names:
    """Names for the files of one folder: safe on every system, and no two alike."""

    def __init__(self) -> None:
        self._used: dict[str, int] = {}

    def given(self, wanted: str) -> str:
        safe = safe_name(wanted)
        path, name = PurePosixPath(safe), safe
        while (key := _folded(name)) in self._used:
            self._used[_folded(safe)] += 1
            name = f"{path.stem} ({self._used[_folded(safe)]}){path.suffix}"
        self._used[key] = 1
        return name


def safe_name(wanted: str) -> str:
    """The last component of a name, without what a system forbids in names, or reads as something else."""
    name = FORBIDDEN.sub("_", media_types.file_name(wanted)).rstrip(". ")
    return f"_{name}" if RESERVED.fullmatch(name) else name or "file"


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


@dataclass(frozen=True, slots=True)
class Bundle:
    """Artifacts by their keys, in their order; each with its version, where another one has its name."""

    keys: dict[int, int | None]

    async def zipped(self) -> AsyncIterator[bytes]:
        """The pieces of the ZIP. What is a link elsewhere is named in `links.txt`."""
        outlet, names, links = _Outlet(), Names(), list[str]()
        with zipfile.ZipFile(outlet, "w", zipfile.ZIP_DEFLATED) as archive:
            for keys in batched(self.keys, ROWS):
                for row in await db.run(_read, keys):
                    for part in pieces_joined(row.parts):
                        if "url" in part:
                            links.append(f"{part.get('filename') or row}\t{part['url']}\n")
                            continue
                        info = _entry(row, part, names.given(_name(row, part, self.keys[row.pk])))
                        pieces = _written(archive, outlet, info, part)
                        while piece := await asyncio.to_thread(next, pieces, b""):
                            yield piece
            if links:
                archive.writestr(names.given("links.txt"), "".join(links))
        yield outlet.take()


def of_session(context: Context, *, every_version: bool = False) -> Bundle:
    """What is to be bundled of a session: the newest version of each name, or every one. One query, beside segments."""
    delivered = lineage.artifacts(context).order_by("first_event")
    listed = list(delivered.values_list("pk", "first_event", "name", "artifact_id"))
    if not every_version:
        return Bundle(dict.fromkeys({name or own: pk for pk, _, name, own in listed}.values()))
    versions = numbered(row[1:] for row in listed)
    counted = Counter(name or own for _, _, name, own in listed)
    return Bundle({pk: versions[first] if counted[name or own] > 1 else None for pk, first, name, own in listed})


def _read(keys: tuple[int, ...]) -> list[Artifact]:
    return list(Artifact.objects.filter(pk__in=keys).order_by("first_event"))


def _name(row: Artifact, part: JSON, version: int | None) -> str:
    """What a part is called: its own name or its artifact's, with an ending, and a version if there are several."""
    given = PurePosixPath(media_types.file_name(part.get("filename") or str(row)))
    ending = given.suffix or mimetypes.guess_extension(media_type_of(part)) or ""
    stem = given.name.removesuffix(given.suffix)
    return f"{stem} v{version}{ending}" if version else f"{stem}{ending}"


def _entry(row: Artifact, part: JSON, name: str) -> zipfile.ZipInfo:
    made = row.created_at.timetuple()[:6]
    info = zipfile.ZipInfo(name, made if made[0] >= EARLIEST else (EARLIEST, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    info.file_size = part["stored"]["size"] if "stored" in part else 0
    return info


def _written(archive: zipfile.ZipFile, outlet: _Outlet, info: zipfile.ZipInfo, part: JSON) -> Iterator[bytes]:
    """Write one file, and give what there is of the ZIP after each piece, if there is any."""
    with blobs.opened(part) as source, archive.open(info, "w") as target:
        while piece := source.read(PIECE):
            target.write(piece)
            if taken := outlet.take():
                yield taken
