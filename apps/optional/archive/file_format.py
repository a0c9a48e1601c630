"""The file of a session in cold storage: gzip'd JSON Lines (docs/how-to/archives.md).

The models say which rows belong to a session: its events, tasks and messages, and all rows that are deleted with those.
New tables are included automatically.
"""

from __future__ import annotations

import datetime
import gzip
import hashlib
import json
import os
import shutil
import tempfile
import uuid
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import IO, Any, NotRequired

from django.core.files import File
from django.core.files.storage import default_storage
from django.db import models
from typing_extensions import TypedDict

from apps.accounts.secrets.encryption import EncryptedTextField
from apps.record.events import JSON
from apps.record.models import Context, Event, Message, Task
from apps.record.reading.lookup import DamagedArchive

ROOTS: tuple[type[models.Model], ...] = (Event, Task, Message)
FORMAT, VERSION = "parley-session", 1
REFERENCES = "links"
READ_ERRORS = (OSError, EOFError, ValueError, LookupError, TypeError, zlib.error)
MEMORY_BYTES = 8 * 1024**2  # of a session held in memory; larger sessions use a temporary file


@dataclass(frozen=True)
class Section:
    """The rows of one model that belong to a session: `field` names the context, or a row of section `of`."""

    model: type[models.Model]
    field: str
    of: Section | None = None

    @property
    def name(self) -> str:
        return str(self.model._meta.label_lower)

    def rows(self, context: Context) -> models.QuerySet[Any]:
        whose: Any = context if self.of is None else self.of.rows(context).values("pk")
        lookup = self.field if self.of is None else f"{self.field}__in"
        return self.model._base_manager.filter(**{lookup: whose}).order_by("pk")


@dataclass(frozen=True)
class Reference:
    model: type[models.Model]
    field: str
    to: Section

    @property
    def name(self) -> str:
        return str(self.model._meta.label_lower)

    def rows(self, context: Context) -> models.QuerySet[Any]:
        found = self.model._base_manager.filter(**{f"{self.field}__in": self.to.rows(context).values("pk")})
        own = sections_by_name().get(self.name)
        return found.exclude(pk__in=own.rows(context).values("pk")) if own else found


@cache
def all_sections() -> tuple[Section, ...]:
    """All sections; each comes after those that it depends on."""
    found = [Section(model, "context") for model in ROOTS]
    for section in found:  # the list grows during the loop
        for relation in _foreign_keys_to(section.model):
            is_known = relation.related_model in (one.model for one in found)
            if not is_known and not relation.field.null and relation.on_delete is models.CASCADE:
                found.append(Section(relation.related_model, relation.field.name, section))
    return tuple(found)


@cache
def sections_by_name() -> dict[str, Section]:
    return {section.name: section for section in all_sections()}


@cache
def references() -> tuple[Reference, ...]:
    """The columns that must be null while the rows that they name are in a file."""
    return tuple(
        Reference(relation.related_model, relation.field.name, section)
        for section in all_sections()
        for relation in _foreign_keys_to(section.model)
        if relation.field.null and relation.field.db_constraint
    )


def _foreign_keys_to(model: type[models.Model]) -> Iterator[Any]:
    for relation in model._meta.get_fields(include_hidden=True):
        is_key = relation.auto_created and not relation.concrete and (relation.one_to_many or relation.one_to_one)
        related: Any = relation.related_model
        if is_key and not related._meta.proxy:
            yield relation


def holds_secrets(context: Context) -> bool:
    """Does an encrypted column of the session's rows hold a value? Such values never leave the database."""
    return any(
        any(section.rows(context).values_list(field.name, flat=True).iterator())
        for section in all_sections()
        for field in section.model._meta.local_fields
        if isinstance(field, EncryptedTextField)
    )


def serialize_row(row: models.Model) -> JSON:
    return {field.attname: _serialize_value(field.value_from_object(row)) for field in row._meta.local_concrete_fields}


def _serialize_value(value: Any) -> Any:
    if isinstance(value, uuid.UUID):
        return str(value)
    return value.isoformat() if isinstance(value, datetime.datetime) else value


def deserialize_row(model: type[models.Model], row: JSON) -> models.Model:
    fields = {field.attname: field for field in model._meta.local_concrete_fields}
    values = {name: _deserialize_value(fields[name], value) for name, value in row.items() if name in fields}
    return model(**values)


def _deserialize_value(field: Any, value: Any) -> Any:
    if isinstance(field, models.JSONField):
        return value
    return (field.target_field if field.is_relation else field).to_python(value)


class SectionSummary(TypedDict):
    name: str
    rows: int
    sha256: str


class StoredFile(TypedDict):
    sha256: str
    size: int


class Manifest(TypedDict):
    """The first line. `context` is the session's own row; `digest` covers all lines after this one."""

    format: str
    version: int
    session: str
    madeAt: str
    firstEvent: int
    lastEvent: int
    context: JSON
    sections: list[SectionSummary]
    files: list[StoredFile]
    digest: NotRequired[str]


class ArchiveWriter:
    """Writes a session's lines from the tables, and collects the data for the manifest."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.lines: IO[bytes] = tempfile.SpooledTemporaryFile(MEMORY_BYTES)  # noqa: SIM115
        self._all = hashlib.sha256()
        self._events: list[int] = []
        self._files: dict[str, int] = {}
        self._sections = [self._section(one.name, self._rows(one)) for one in all_sections()]
        self._sections.append(self._section(REFERENCES, self._links()))

    def _section(self, name: str, rows: Iterable[JSON]) -> SectionSummary:
        digest, number = hashlib.sha256(), 0
        for row in rows:
            line = _json_line({"in": name, "row": row})
            digest.update(line)
            self._all.update(line)
            self.lines.write(line)
            number += 1
        return {"name": name, "rows": number, "sha256": digest.hexdigest()}

    def _rows(self, section: Section) -> Iterator[JSON]:
        for row in section.rows(self.context).iterator(chunk_size=500):
            if section.model in ROOTS:
                self._collect(row)
            yield serialize_row(row)

    def _collect(self, row: Any) -> None:
        if isinstance(row, Event):
            self._events.append(row.index)
        for part in getattr(row, "parts", []):
            if "stored" in part:
                self._files[part["stored"]["sha256"]] = part["stored"]["size"]

    def _links(self) -> Iterator[JSON]:
        for reference in references():
            rows = reference.rows(self.context).order_by("pk")
            for key, value in rows.values_list("pk", f"{reference.field}_id"):
                yield {"model": reference.name, "key": str(key), "field": reference.field, "value": str(value)}

    @property
    def digest(self) -> str:
        """The SHA-256 of all lines. The same rows give the same digest."""
        return self._all.hexdigest()

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
            "context": serialize_row(self.context),
            "sections": self._sections,
            "files": self.files,
            "digest": self.digest,
        }


def _json_line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass") + b"\n"


def save_archive(writer: ArchiveWriter, now: datetime.datetime) -> str:
    """Write the file and sync it to the disk; returns its name in the file storage."""
    with tempfile.TemporaryFile() as whole:
        with gzip.GzipFile(fileobj=whole, mode="wb", mtime=0) as packed:
            packed.write(_json_line(writer.manifest(now)))
            writer.lines.seek(0)
            shutil.copyfileobj(writer.lines, packed)
        whole.seek(0)
        key = writer.context.pk.hex
        name = default_storage.save(f"cold/{key[:2]}/{key}-{writer.digest[:16]}.jsonl.gz", File(whole))
    _sync_to_disk(name)
    return name


def _sync_to_disk(name: str) -> None:
    """Sync the file and its folder. A storage without file system does so itself."""
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


class ArchiveReader:
    """Reads the manifest, then the lines. Compares the digest after the last line."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._lines = iter(gzip.GzipFile(fileobj=stream))
        self.manifest: Manifest = self._first()

    def _first(self) -> Manifest:
        try:
            manifest: Manifest = json.loads(next(self._lines))
            is_known = (manifest["format"], manifest["version"]) == (FORMAT, VERSION)
        except (*READ_ERRORS, StopIteration) as error:
            raise DamagedArchive(DamagedArchive.__doc__) from error
        if not is_known:
            raise DamagedArchive("The file is of another format or version. Use the Parley that made it.")
        return manifest

    def rows(self) -> Iterator[tuple[str, JSON]]:
        """Each line's section and row. Raises DamagedArchive, at the latest after the last."""
        numbers: Counter[str] = Counter()
        try:
            stated = {section["name"]: (section["rows"], section["sha256"]) for section in self.manifest["sections"]}
            digests = {name: hashlib.sha256() for name in stated}
            for line in self._lines:
                value = json.loads(line)
                digests[value["in"]].update(line)
                numbers[value["in"]] += 1
                yield value["in"], value["row"]
        except READ_ERRORS as error:
            raise DamagedArchive(DamagedArchive.__doc__) from error
        if stated != {name: (numbers[name], digest.hexdigest()) for name, digest in digests.items()}:
            raise DamagedArchive(DamagedArchive.__doc__)


def verify_archive(name: str) -> Manifest:
    with default_storage.open(name) as stream:
        reader = ArchiveReader(stream)
        for _ in reader.rows():
            pass
    return reader.manifest
