"""A whole upload becomes stored content: its file is moved to its place, and nothing is copied."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.files.storage import default_storage

from apps.accounts.principals import Principal
from apps.features.uploads import opening, pieces
from apps.features.uploads.models import Upload
from apps.features.uploads.pieces import Appending
from apps.record import blobs, media_types
from apps.record.errors import InvalidParams, UploadNotFound, WrongOffset
from db.transactions import transacting


@dataclass(frozen=True, slots=True)
class Hashed:
    """What is known of a file all of whose bytes are there, while nobody else may change it."""

    file: Appending
    sha256: str
    head: bytes


def finish(upload: Upload) -> Upload:
    """Make stored content of an upload all of whose bytes are there; one that is unfinished, or finished, stays so.

    Raises InvalidParams for a file that has not the SHA-256 that it was said to have: then the upload is gone.
    """
    if found := hashed(upload):
        conclude(upload, found)
    return upload


def hashed(upload: Upload) -> Hashed | None:
    """Read all of a file that is to be finished, which takes a second for each 500 MB or so, and no database."""
    if upload.is_whole or pieces.offset_of(upload) < upload.size:
        return None
    try:
        file = Appending(upload)
    except WrongOffset:  # somebody else is at it
        return None
    return Hashed(file, *file.digest())


def conclude(upload: Upload, found: Hashed) -> None:
    """Note that it is whole, and put it where it belongs. Raises as `finish`, UploadNotFound for one given up."""
    try:
        if upload.expected not in ("", found.sha256):
            opening.discard(upload)
            raise InvalidParams("The file is not the one that was announced: its SHA-256 is another.", "sha256")
        _record(upload, found)
        _settle(upload)
    finally:
        found.file.close()


def _record(upload: Upload, found: Hashed) -> None:
    """From here on the upload is whole, wherever its file stands."""
    media_type = media_types.labels(upload.claimed, found.head)["mediaType"]
    with transacting():
        values = {"sha256": found.sha256, "media_type": media_type}
        is_new = Upload.objects.open().filter(pk=upload.pk).update(**values)
        if not is_new and not Upload.objects.filter(pk=upload.pk, **values).exists():
            raise UploadNotFound
        upload.sha256, upload.media_type = found.sha256, media_type
        if is_new:
            blobs.count_uses(upload.workspace_id, [part(upload)])


def _settle(upload: Upload) -> None:
    """Put the file where its content belongs, unless it is there. It may be called again, also after a crash."""
    target = Path(default_storage.path(blobs.path_of(upload.sha256)))
    target.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        os.replace(pieces.path_of(upload.pk), target)


def part(upload: Upload) -> dict[str, Any]:
    """What a message says of a whole upload."""
    stored = {"sha256": upload.sha256, "size": upload.size, "kind": "raw"}
    doubted = upload.claimed and upload.claimed != upload.media_type
    metadata = {"metadata": {media_types.CLAIMED: upload.claimed}} if doubted else {}
    return {"stored": stored, "filename": upload.filename, "mediaType": upload.media_type, **metadata}


def part_of(principal: Principal, upload: uuid.UUID) -> dict[str, Any]:
    """The part by which a message of the caller names a whole upload, whose file is there from then on for a while.

    Raises UploadNotFound, also for somebody else's; InvalidParams for one that is not whole.
    """
    found = finish(opening.find(principal, upload))
    if not found.is_whole:
        at = pieces.offset_of(found)
        raise InvalidParams(f"This upload is not whole. Go on with it at byte {at} of {found.size}.", "uploadId")
    _settle(found)
    if not blobs.touch(found.sha256):
        raise UploadNotFound
    return part(found)
