"""Restoring a backup into an empty installation. The file is verified as a whole before anything is written."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from itertools import groupby
from typing import IO

from django.contrib.contenttypes.models import ContentType
from django.core.files.storage import Storage, default_storage
from django.db import DEFAULT_DB_ALIAS, IntegrityError, transaction

from apps.accounts.secrets.encryption import keyring
from apps.optional.backup import files
from apps.optional.backup.container import (
    MANIFEST,
    BadBackup,
    FileSums,
    Manifest,
    Member,
    MemberContent,
    members,
    read_manifest,
)
from apps.optional.backup.database import Filler, Progress, prepare_empty
from apps.optional.backup.places import Stored
from apps.optional.backup.sealing import SealedReader, Secret, is_sealed
from apps.optional.backup.tables import Row, all_tables
from apps.optional.backup.writing import KEYS, read_lines
from parley.db import versions
from parley.program import DISTRIBUTION
from parley.registry import optional_labels

READ_BYTES = 1024**2
TABLES = "tables/"
MAX_KEYS_BYTES = 100_000


def verify_backup(backup: Stored, secret: Secret | None, progress: Progress) -> Manifest:
    """Read a backup to its end and compare it with its manifest.

    Raises BadBackup for a damaged or truncated one, CannotOpen for a wrong secret.
    """
    found: list[Member] = []
    sums, manifest = FileSums(), None
    with _opened(backup, secret) as stream:
        for name, size, content in members(stream):
            if manifest is not None:
                raise BadBackup("The backup has members after its manifest.")
            if name == MANIFEST:
                manifest = read_manifest(content, size)
            elif name.startswith(files.FOLDER):
                files.count_file(sums, name, size, content)
            else:
                found.append({"name": name, "bytes": size, "sha256": content.digest()})
            progress(f"verifying {name}")
        if any(stream.read()):
            raise BadBackup("The backup has something behind its end.")
    if manifest is None:
        raise BadBackup("The backup is cut off: it has no manifest. Use a whole one.")
    _compare(manifest, found, sums)
    return manifest


def _compare(manifest: Manifest, found: list[Member], sums: FileSums) -> None:
    """Raises BadBackup, and names the first member that differs."""
    stated = {member["name"]: member for member in manifest["members"]}
    for member in found:
        if stated.pop(member["name"], None) != member:
            raise BadBackup(f"The backup is damaged: {member['name']} was changed. Use another one.")
    if stated or sums.summary(manifest["files"]["missing"]) != manifest["files"]:
        raise BadBackup("The backup is damaged: members are missing or were changed. Use another one.")


@contextmanager
def _opened(backup: Stored, secret: Secret | None) -> Iterator[IO[bytes]]:
    """The tar of a backup. Raises BadBackup."""
    with backup.open() as file:
        if not is_sealed(file):
            yield file
        elif secret is None:
            raise BadBackup("This backup is encrypted. Add --passphrase-file or --decrypt-with.")
        else:
            yield io.BufferedReader(SealedReader(file, secret), READ_BYTES)


def read_keys(backup: Stored, secret: Secret | None) -> dict[str, str]:
    """The keys in a backup that was made with `--with-keys`. Raises BadBackup, CannotOpen."""
    with _opened(backup, secret) as stream:
        for name, size, content in members(stream):
            if name == KEYS and size < MAX_KEYS_BYTES:
                return dict(json.loads(content.read()))
    raise BadBackup("This backup has no keys: it was made without --with-keys.")


def check_fits(manifest: Manifest, *, without_master_key: bool = False) -> None:
    """Raises BadBackup for a backup of another version, or one that needs a master key that is not here."""
    known, has = set(versions.known()), versions.named_now(manifest["migrations"])
    which = f"{manifest['parley']}; here is {version(DISTRIBUTION)}"
    here, there = ({one.split(".")[0] for one in names} for names in (known, has))
    if others := (here ^ there) & optional_labels():
        raise BadBackup(
            f"This backup is of an installation with other apps ({which}): {', '.join(sorted(others))} is on one side "
            "alone. Set PARLEY_APPS as it was there, and install the same packages."
        )
    if missing := sorted(has - known):
        raise BadBackup(
            f"This backup is of a newer version of Parley ({which}): {missing[0]} is unknown here. "
            "Install that version, and restore with it."
        )
    if newer := sorted(known - has):
        raise BadBackup(
            f"This backup is of an older version of Parley ({which}): it lacks {newer[0]}. "
            "Install that version, restore with it, then upgrade and run ./manage.py migrate."
        )
    unknown = [key for key in manifest["masterKeys"] if not keyring().knows(key)]
    if unknown and not without_master_key:
        raise BadBackup(
            f"Secrets in this backup are encrypted under the master key {unknown[0]}, which MASTER_KEY does not have. "
            "Set MASTER_KEY as it was where the backup was made. If it is lost, --without-master-key restores the rest;"
            " then give those credentials again."
        )


def restore_backup(
    backup: Stored,
    secret: Secret | None,
    progress: Progress,
    *,
    without_master_key: bool = False,
    using: str = DEFAULT_DB_ALIAS,
    storage: Storage = default_storage,
) -> Manifest:
    """Fill an empty database and an empty file storage with a backup: everything or nothing.

    Raises BadBackup, CannotOpen, NotEmpty; then the database has at most been migrated.
    """
    files.check_no_files(storage)
    manifest = verify_backup(backup, secret, progress)
    check_fits(manifest, without_master_key=without_master_key)
    prepare_empty(using, progress)
    written = files.RestoredFiles(storage, progress)
    try:
        with transaction.atomic(using=using):
            _fill(Filler(using, progress), written, manifest, backup, secret)
            written.move_into_place()
    except IntegrityError as error:
        written.undo()
        raise BadBackup(f"The rows of this backup do not belong together: {error}") from error
    except BaseException:
        written.undo()
        raise
    finally:
        written.close()
        ContentType.objects.clear_cache()
    return manifest


def _fill(
    filler: Filler, written: files.RestoredFiles, manifest: Manifest, backup: Stored, secret: Secret | None
) -> None:
    filler.begin()
    tables = {table.name: table for table in all_tables(for_file=True)}
    for table in tables.values():
        if table.name not in manifest["tables"] or manifest["tables"][table.name]["columns"] != table.columns:
            raise BadBackup(
                f"This backup is of Parley {manifest['parley']}; here is {version(DISTRIBUTION)}. Their tables "
                f"{table.name} differ. Install that version, and restore with it."
            )

    with _opened(backup, secret) as stream:
        for kind, group in groupby(members(stream), key=lambda member: _kind_of(member[0])):
            if kind == files.FOLDER:
                for name, _, content in group:
                    written.write(files.check_stored_name(name), content)
            elif kind in tables:
                filler.insert(tables[kind], _rows_of(group))
    filler.finish(list(tables.values()), manifest["tables"])


def _rows_of(pieces: Iterable[tuple[str, int, MemberContent]]) -> Iterator[Row]:
    for _, _, content in pieces:
        yield from read_lines(content)


def _kind_of(name: str) -> str:
    """A table's name, or the folder of stored files; "" for other members."""
    if name.startswith(TABLES):
        return name.split("/")[1]
    return files.FOLDER if name.startswith(files.FOLDER) else ""
