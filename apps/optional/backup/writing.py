"""Making a backup: rows of one moment, and the files that they name, in one file."""

from __future__ import annotations

import datetime
import gzip
import io
import json
import types
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import IO, cast

from django.conf import settings
from django.core.files.storage import default_storage

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.secrets.encryption import is_encrypted, key_id_of
from apps.housekeeping import backups
from apps.housekeeping.models import Backup
from apps.optional.backup import files
from apps.optional.backup.container import (
    FORMAT,
    VERSION,
    BadBackup,
    ContainerWriter,
    FilesSummary,
    FileSums,
    Manifest,
    TableSummary,
)
from apps.optional.backup.database import Progress, Snapshot, is_migrated
from apps.optional.backup.keeping import Pruned, prune
from apps.optional.backup.places import Stored, refused
from apps.optional.backup.sealing import SealedWriter, Secret
from apps.optional.backup.tables import Row, Table, all_tables
from parley.db import versions
from parley.program import DISTRIBUTION

PIECE_BYTES = 8 * 1024**2  # of rows before they are compressed: one piece is in memory
COMPRESSION = 3
SNAPSHOTS = 3  # tries, where files are deleted just before they are held
KEYS = "keys.json"


class MissingFiles(BadBackup):
    """Rows name files that do not exist."""

    def __init__(self, names: list[str]) -> None:
        some = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
        super().__init__(
            f"{len(names)} stored files are missing in DATA_DIR/files ({some}). Bring them back from an older backup,"
            " or leave them out with --skip-missing-files."
        )


@dataclass(frozen=True, slots=True)
class Choices:
    """What a backup has. `secret` encrypts it; `with_keys` puts MASTER_KEY and SECRET_KEY into it."""

    secret: Secret | None = None
    with_keys: bool = False
    skip_missing_files: bool = False


@dataclass(frozen=True, slots=True)
class Made:
    """A backup that was made, and what its place does not have any more."""

    manifest: Manifest
    row: Backup
    pruned: Pruned


def make_backup(
    target: Stored, choices: Choices, progress: Progress, rules: Mapping[str, int] = types.MappingProxyType({})
) -> Made:
    """Write a backup, note it, and then delete those that no rule keeps (`keeping.PERIODS`).

    Raises BadBackup for an existing or unwritable file, missing migrations and missing files; BackupRunning.
    """
    check_possible(choices)
    with files.HeldFiles(default_storage) as held:
        details = {"encrypted": choices.secret is not None, "keys": choices.with_keys}
        audit.record(AuditAction.BACKUP_MADE, object=audit.Subject("file", label=target.label), details=details)
        killed, place = backups.note_killed(), target.place
        with backups.noted(place.label, target.name, is_encrypted=choices.secret is not None) as row:
            for one in killed:
                if one.place == place.label:
                    with suppress(BadBackup):  # some storages cannot list what they have of uploads
                        place.discard(one.name)
            place.check_free(target.name)
            with place.writing(target.name) as out, refused("read", "A stored file"):
                manifest = _write(cast(IO[bytes], out), held, choices, progress)
            row.bytes = out.bytes
        return Made(manifest, row, prune(place, rules))


def check_possible(choices: Choices) -> None:
    """Raises BadBackup if such a backup cannot be made."""
    if choices.with_keys and choices.secret is None:
        raise BadBackup("Keys go only into an encrypted backup: add --passphrase-file or --encrypt-to.")
    if not is_migrated():
        raise BadBackup("The database lacks migrations of this version. Run ./manage.py migrate first.")


def _write(out: IO[bytes], held: files.HeldFiles, choices: Choices, progress: Progress) -> Manifest:
    with Snapshot() as before:
        held.hold(files.named_files(before))
    for tries_left in reversed(range(SNAPSHOTS)):
        with Snapshot() as snapshot:
            missing = held.hold(files.named_files(snapshot))
            if missing and tries_left:
                continue  # perhaps deleted just now: then the next snapshot does not name it
            if missing and not choices.skip_missing_files:
                raise MissingFiles(missing)
            return _write_sealed(out, snapshot, held, missing, choices, progress)
    raise AssertionError("the last try returns or raises")


def _write_sealed(
    out: IO[bytes],
    snapshot: Snapshot,
    held: files.HeldFiles,
    missing: list[str],
    choices: Choices,
    progress: Progress,
) -> Manifest:
    if choices.secret is None:
        return _Writer(ContainerWriter(out), snapshot, progress).write(held, missing, choices)
    sealed = SealedWriter(out, choices.secret)
    manifest = _Writer(ContainerWriter(cast(IO[bytes], sealed)), snapshot, progress).write(held, missing, choices)
    sealed.finish()
    return manifest


class _Writer:
    def __init__(self, container: ContainerWriter, snapshot: Snapshot, progress: Progress) -> None:
        self._container, self._snapshot, self._progress = container, snapshot, progress
        self._master_keys: set[str] = set()

    def write(self, held: files.HeldFiles, missing: list[str], choices: Choices) -> Manifest:
        made_at = datetime.datetime.now(datetime.UTC)
        tables = {table.name: self._table(table) for table in all_tables(for_file=True)}
        if choices.with_keys:
            keys = {"MASTER_KEY": settings.MASTER_KEY, "SECRET_KEY": settings.SECRET_KEY}
            self._container.add(KEYS, json.dumps(keys).encode())
        manifest: Manifest = {
            "format": FORMAT,
            "version": VERSION,
            "parley": version(DISTRIBUTION),
            "madeAt": made_at.isoformat(),
            "vendor": self._snapshot.database.vendor,
            "migrations": versions.known(),
            "masterKeys": sorted(self._master_keys),
            "tables": tables,
            "files": self._files(held, missing),
        }
        self._container.finish(manifest)
        return manifest

    def _table(self, table: Table) -> TableSummary:
        count = piece = 0
        for content, rows in _pieces(self._rows(table)):
            piece, count = piece + 1, count + rows
            self._container.add(f"tables/{table.name}/{piece:06}.jsonl.gz", content)
            self._progress(f"{table.name}: {count:,} rows")
        return {"columns": table.columns, "rows": count, "lastKey": self._snapshot.last_key(table)}

    def _rows(self, table: Table) -> Iterator[Row]:
        encrypted = table.encrypted
        for row in self._snapshot.rows(table):
            self._master_keys.update(key_id_of(row[place]) for place in encrypted if is_encrypted(row[place] or ""))
            yield row

    def _files(self, held: files.HeldFiles, missing: list[str]) -> FilesSummary:
        sums, left_out = FileSums(), set(missing)
        for name in files.named_files(self._snapshot):
            if name in left_out:
                continue
            try:
                file, size = held.open(name)
            except FileNotFoundError:
                raise MissingFiles([name]) from None
            with file:
                sums.add(name, size, self._container.copy(files.FOLDER + name, file, size))
            if sums.count % 100 == 0:
                self._progress(f"{sums.count:,} files, {sums.bytes / 1024**2:,.0f} MB")
        return sums.summary(missing)


def _pieces(rows: Iterator[Row]) -> Iterator[tuple[bytes, int]]:
    """Compressed lines, and their number."""
    waiting = bytearray()
    count = 0
    for row in rows:
        waiting += json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        count += 1
        if len(waiting) >= PIECE_BYTES:
            yield gzip.compress(waiting, COMPRESSION, mtime=0), count
            waiting.clear()
            count = 0
    if count:
        yield gzip.compress(waiting, COMPRESSION, mtime=0), count


def read_lines(content: io.RawIOBase) -> Iterator[Row]:
    """The rows of a piece. Raises BadBackup."""
    try:
        with gzip.GzipFile(fileobj=content) as lines:
            yield from map(json.loads, lines)
    except (OSError, EOFError, ValueError) as error:
        raise BadBackup("The backup is damaged. Use another one.") from error
