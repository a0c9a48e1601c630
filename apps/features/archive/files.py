"""The file of a session in cold storage: gzip'd JSON Lines, which say themselves what they are (docs/archives.md)."""

from __future__ import annotations

import datetime
import gzip
import hashlib
import json
import os
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import IO, Any, NotRequired

from django.core.files import File
from django.core.files.storage import default_storage
from typing_extensions import TypedDict

from apps.features.archive import sections
from apps.features.archive.sections import JSON
from apps.record.models import Context, Event

FORMAT, VERSION = "parley-session", 1
LINKS = "links"
UNREADABLE = (OSError, EOFError, ValueError, LookupError, TypeError, zlib.error)
IN_MEMORY = 8 * 1024**2  # bytes of a session that are put together in memory; a larger one in a temporary file


class DamagedArchive(Exception):
    """The file of a session in cold storage is not what was written. Restore it from a backup of the file storage."""


class Counted(TypedDict):
    name: str
    rows: int
    sha256: str


class StoredFile(TypedDict):
    sha256: str
    size: int


class Manifest(TypedDict):
    """The first line. `context` is the session's own row; `digest` is of all the lines after this one."""

    format: str
    version: int
    session: str
    madeAt: str
    firstEvent: int
    lastEvent: int
    context: JSON
    sections: list[Counted]
    files: list[StoredFile]
    digest: NotRequired[str]


class Written:
    """The lines of a session as they are in the tables now, with what is counted on the way."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.lines: IO[bytes] = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115
        self._all = hashlib.sha256()
        self._events: list[int] = []
        self._files: dict[str, int] = {}
        self._sections = [self._section(one.name, self._rows(one)) for one in sections.all_sections()]
        self._sections.append(self._section(LINKS, self._links()))

    def _section(self, name: str, rows: Iterable[JSON]) -> Counted:
        digest, number = hashlib.sha256(), 0
        for row in rows:
            line = _line({"in": name, **row})
            digest.update(line)
            self._all.update(line)
            self.lines.write(line)
            number += 1
        return {"name": name, "rows": number, "sha256": digest.hexdigest()}

    def _rows(self, section: sections.Section) -> Iterator[JSON]:
        for row in section.rows(self.context).iterator(chunk_size=500):
            if section.model in sections.ROOTS:
                self._note(row)
            yield {"row": sections.written(row)}

    def _note(self, row: Any) -> None:
        if isinstance(row, Event):
            self._events.append(row.index)
        for part in getattr(row, "parts", []):
            if "stored" in part:
                self._files[part["stored"]["sha256"]] = part["stored"]["size"]

    def _links(self) -> Iterator[JSON]:
        for pointer in sections.pointers():
            for key, value in pointer.rows(self.context).order_by("pk").values_list("pk", f"{pointer.field}_id"):
                yield {"row": {"model": pointer.name, "key": str(key), "field": pointer.field, "value": str(value)}}

    @property
    def digest(self) -> str:
        """Of all the lines: two of the same rows have the same."""
        return self._all.hexdigest()

    @property
    def counts(self) -> dict[str, int]:
        return {section["name"]: section["rows"] for section in self._sections}

    @property
    def files(self) -> list[StoredFile]:
        return [{"sha256": sha256, "size": size} for sha256, size in sorted(self._files.items())]

    def manifest(self, now: datetime.datetime) -> Manifest:
        return {
            "format": FORMAT,
            "version": VERSION,
            "session": str(self.context.pk),
            "madeAt": now.isoformat(),
            "firstEvent": min(self._events, default=0),
            "lastEvent": max(self._events, default=0),
            "context": sections.written(self.context),
            "sections": self._sections,
            "files": self.files,
            "digest": self.digest,
        }


def _line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass") + b"\n"


def save(written: Written, now: datetime.datetime) -> str:
    """Write the file so that it survives a loss of power, and give its name in the file storage."""
    with tempfile.TemporaryFile() as whole:
        with gzip.GzipFile(fileobj=whole, mode="wb", mtime=0) as packed:
            packed.write(_line(written.manifest(now)))
            written.lines.seek(0)
            while block := written.lines.read(1024**2):
                packed.write(block)
        whole.seek(0)
        key = written.context.pk.hex
        name = default_storage.save(f"cold/{key[:2]}/{key}-{written.digest[:16]}.jsonl.gz", File(whole))
    _settle(name)
    return name


def _settle(name: str) -> None:
    """Wait until the file and its name are on the disk; a storage that is no file system sees to that itself."""
    try:
        path = default_storage.path(name)
    except NotImplementedError:
        return
    for place, flags in ((path, os.O_RDONLY), (os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)):
        handle = os.open(place, flags)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class Reading:
    """A file that is read: its manifest, then its lines, whose digests are compared when all were read."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._lines = iter(gzip.GzipFile(fileobj=stream))
        self.manifest: Manifest = self._first()

    def _first(self) -> Manifest:
        try:
            manifest: Manifest = json.loads(next(self._lines))
            is_known = (manifest["format"], manifest["version"]) == (FORMAT, VERSION)
        except (*UNREADABLE, StopIteration) as error:
            raise DamagedArchive(DamagedArchive.__doc__) from error
        if not is_known:
            raise DamagedArchive("The file is of another format or version. Use the Parley that made it.")
        return manifest

    def rows(self) -> Iterator[tuple[str, JSON]]:
        """Each line's section and row. Raises DamagedArchive, at the latest after the last."""
        numbers: Counter[str] = Counter()
        try:
            said = {section["name"]: (section["rows"], section["sha256"]) for section in self.manifest["sections"]}
            digests = {name: hashlib.sha256() for name in said}
            for line in self._lines:
                value = json.loads(line)
                digests[value["in"]].update(line)
                numbers[value["in"]] += 1
                yield value["in"], value["row"]
        except UNREADABLE as error:
            raise DamagedArchive(DamagedArchive.__doc__) from error
        if said != {name: (numbers[name], digest.hexdigest()) for name, digest in digests.items()}:
            raise DamagedArchive(DamagedArchive.__doc__)


def verify(name: str) -> Manifest:
    """Read the whole file back. Raises DamagedArchive, also where a file that it names is not there."""
    with default_storage.open(name) as stream:
        reading = Reading(stream)
        for _ in reading.rows():
            pass
    return reading.manifest
