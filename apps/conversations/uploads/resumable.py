"""Resumable uploads: large files come in pieces, may be cut off at any byte, and continue from there.

An upload continues at the length of its file, also after a crash. The file of a complete upload is moved into the file
storage as stored content, which messages name.
"""

from __future__ import annotations

import datetime
import fcntl
import hashlib
import os
import uuid
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.files.storage import default_storage
from django.db import transaction
from django.db.models import Count, Sum
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.people.erasure import Person
from apps.accounts.principals import Principal
from apps.accounts.requests.quotas import QuotaExceeded
from apps.conversations.uploads.models import Upload
from apps.record.content import blobs, parts
from apps.record.content.parts import HEAD_BYTES, safe_file_name
from apps.record.errors import FileTooLarge, InvalidParams, UploadNotFound, WrongOffset
from parley.db.sql import write_transaction

RETRY_SECONDS = 60  # a guess
MEGABYTE = 1024**2
SWEPT_AT_ONCE = 100


def begin_upload(principal: Principal, filename: str, size: int, media_type: str = "", sha256: str = "") -> Upload:
    """Begin an upload of `size` bytes for a known caller.

    Raises FileTooLarge, StorageFull, QuotaExceeded, InvalidParams.
    """
    if size < 1:
        raise InvalidParams("An empty file cannot be sent. Choose one that has something in it.", "size")
    if size > settings.MAX_UPLOAD_BYTES:
        raise FileTooLarge(f"A file may have at most {settings.MAX_UPLOAD_BYTES / MEGABYTE:g} MB.")
    path = path_of(key := uuid.uuid4())
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.touch(mode=0o600)  # a disk may be slow, so before the transaction
    try:
        return _record(key, principal, filename, size, media_type, sha256)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _record(key: uuid.UUID, principal: Principal, filename: str, size: int, media_type: str, sha256: str) -> Upload:
    assert principal.user_id is not None
    assert principal.workspace_id is not None
    with write_transaction():
        User.objects.select_for_update(no_key=True).get(pk=principal.user_id)  # serializes the check of the free space
        _check_room(principal, size)
        blobs.check_room(principal.workspace_id, (), more=size)
        return Upload.objects.create(
            pk=key,
            owner_id=principal.user_id,
            workspace_id=principal.workspace_id,
            filename=safe_file_name(filename),
            claimed=media_type,
            size=size,
            expected=sha256.lower(),
            expires_at=timezone.now() + datetime.timedelta(seconds=settings.UPLOAD_SECONDS),
        )


def _check_room(principal: Principal, size: int) -> None:
    mine = Upload.objects.filter(owner=principal.user_id, expires_at__gt=timezone.now())
    if mine.open().count() >= settings.MAX_OPEN_UPLOADS:
        raise QuotaExceeded(
            f"You have {settings.MAX_OPEN_UPLOADS} uploads that are not finished. Finish or delete one first.",
            RETRY_SECONDS,
        )
    room = settings.MAX_UPLOADED_BYTES - (mine.aggregate(sum=Sum("size"))["sum"] or 0)
    if size > room:
        raise FileTooLarge(
            f"Your uploads may have {settings.MAX_UPLOADED_BYTES / MEGABYTE:g} MB together, and there is room for"
            f" {max(0, room)} bytes. Delete some, or wait until they expire."
        )


def path_of(upload: uuid.UUID) -> Path:
    return Path(settings.UPLOADS_DIR) / upload.hex


def offset_of(upload: Upload) -> int:
    if upload.is_whole:
        return upload.size
    try:
        return path_of(upload.pk).stat().st_size
    except FileNotFoundError:
        return 0


class AppendableFile:
    """The file of an upload, locked for one writer until it is closed or the process dies.

    Every method blocks: call it in a thread.
    """

    def __init__(self, upload: Upload, offset: int | None = None) -> None:
        """Open the file at `offset`, or at its end. Raises WrongOffset."""
        self.upload = upload
        path = path_of(upload.pk)
        try:
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except FileNotFoundError:
            raise WrongOffset(offset_of(upload)) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.start = self.offset = os.fstat(self._file).st_size
            if offset is not None and offset != self.offset:
                raise WrongOffset(self.offset)
            if not os.path.samestat(os.fstat(self._file), path.stat()):
                raise WrongOffset(self.offset)  # it was finished in the meantime
        except (BlockingIOError, FileNotFoundError):
            self.close()
            raise WrongOffset(offset_of(upload)) from None
        except WrongOffset:
            self.close()
            raise

    def write(self, content: bytes) -> None:
        """Append content. Raises FileTooLarge for more than was announced; then nothing since `start` is kept."""
        if self.offset + len(content) > self.upload.size:
            os.ftruncate(self._file, self.start)
            raise FileTooLarge(f"The file was announced with {self.upload.size} bytes, and this is more.")
        left = memoryview(content)
        while left:
            written = os.write(self._file, left)
            self.offset += written
            left = left[written:]

    def sync(self) -> None:
        """Wait until the written bytes would survive a crash of the machine."""
        os.fsync(self._file)

    def digest(self) -> tuple[str, bytes]:
        """The SHA-256 of the whole file, and its beginning."""
        with open(self._file, "rb", closefd=False) as file:
            file.seek(0)
            return hashlib.file_digest(file, "sha256").hexdigest(), os.pread(self._file, HEAD_BYTES, 0)

    def close(self) -> None:
        os.close(self._file)


def store_at_once(principal: Principal, filename: str, size: int, pieces: Iterable[bytes]) -> Upload:
    """A complete upload of a file that is there. Raises what `begin_upload` does."""
    upload = begin_upload(principal, filename, size)
    file = AppendableFile(upload, 0)
    try:
        for piece in pieces:
            file.write(piece)
        file.sync()
    finally:
        file.close()
    return finish_upload(upload)


@dataclass(frozen=True, slots=True)
class HashedFile:
    file: AppendableFile
    sha256: str
    head: bytes


def finish_upload(upload: Upload) -> Upload:
    """Store an upload that has all its bytes; any other stays as it is.

    Raises InvalidParams if the file's SHA-256 is not the announced one; then the upload is deleted.
    """
    if found := hash_upload(upload):
        store_upload(upload, found)
    return upload


def hash_upload(upload: Upload) -> HashedFile | None:
    if upload.is_whole or offset_of(upload) < upload.size:
        return None
    try:
        file = AppendableFile(upload)
    except WrongOffset:  # another process has the file
        return None
    return HashedFile(file, *file.digest())


def store_upload(upload: Upload, found: HashedFile) -> None:
    """Mark the upload as complete and move its file into place. Raises InvalidParams, UploadNotFound."""
    try:
        if upload.expected not in ("", found.sha256):
            discard_upload(upload)
            raise InvalidParams("The file is not the one that was announced: its SHA-256 is another.", "sha256")
        _mark_whole(upload, found)
        _move_into_place(upload)
    finally:
        found.file.close()


def message_part(principal: Principal, upload: uuid.UUID) -> dict[str, Any]:
    """The part by which a message of the caller names a complete upload. Its file then stays for a while.

    Raises UploadNotFound, and InvalidParams for an incomplete upload.
    """
    found = finish_upload(Upload.objects.find(principal, upload))
    if not found.is_whole:
        at = offset_of(found)
        raise InvalidParams(f"This upload is not whole. Go on with it at byte {at} of {found.size}.", "uploadId")
    _move_into_place(found)
    if not blobs.touch(found.sha256):
        raise UploadNotFound
    return _part_of(found)


def _mark_whole(upload: Upload, found: HashedFile) -> None:
    """Raises UploadNotFound."""
    media_type = parts.media_type_fields(upload.claimed, found.head)["mediaType"]
    with write_transaction():
        values = {"sha256": found.sha256, "media_type": media_type}
        is_new = Upload.objects.open().filter(pk=upload.pk).update(**values)
        if not is_new and not Upload.objects.filter(pk=upload.pk, **values).exists():
            raise UploadNotFound
        upload.sha256, upload.media_type = found.sha256, media_type
        if is_new:
            blobs.count_uses(upload.workspace_id, [_part_of(upload)])


def _move_into_place(upload: Upload) -> None:
    """Move the file to where its content is stored. It is safe to repeat this, also after a crash."""
    target = Path(default_storage.path(blobs.path_of(upload.sha256)))
    target.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        os.replace(path_of(upload.pk), target)


def _part_of(upload: Upload) -> dict[str, Any]:
    stored = {"sha256": upload.sha256, "size": upload.size, "kind": "raw"}
    doubted = upload.claimed and upload.claimed != upload.media_type
    metadata = {"metadata": {parts.CLAIMED_TYPE: upload.claimed}} if doubted else {}
    return {"stored": stored, "filename": upload.filename, "mediaType": upload.media_type, **metadata}


def discard_upload(upload: Upload) -> None:
    """Delete an upload. Messages that name its content keep it."""
    with write_transaction():
        found = Upload.objects.select_for_update().filter(pk=upload.pk).first()
        if found is None:
            return
        if found.is_whole:
            _release_content(found)
            transaction.on_commit(lambda: blobs.delete_unused([found.sha256]), robust=True)
        found.delete()
        transaction.on_commit(lambda: path_of(upload.pk).unlink(missing_ok=True), robust=True)


def discard_all(person: Person) -> None:
    """Delete the person's uploads (`account_erasers`)."""
    for upload in Upload.objects.filter(owner=person.row).order_by("sha256", "pk"):
        discard_upload(upload)


def stored_size() -> tuple[str, int, int]:
    """For `storage_meters`: name, bytes and number of uploads that have not expired."""
    found = Upload.objects.filter(expires_at__gt=timezone.now()).aggregate(rows=Count("pk"), bytes=Sum("size"))
    return "uploads", found["bytes"] or 0, found["rows"]


def delete_expired() -> None:
    """Deletes expired uploads, and files whose uploads are gone."""
    for upload in Upload.objects.filter(expires_at__lte=timezone.now()).order_by("expires_at")[:SWEPT_AT_ONCE]:
        discard_upload(upload)
    folder = path_of(uuid.UUID(int=0)).parent
    files = {path.name: path for path in folder.iterdir()} if folder.is_dir() else {}
    old = timezone.now().timestamp() - settings.UPLOAD_SECONDS
    known = {key.hex for key in Upload.objects.values_list("pk", flat=True)} if files else set()
    for path in (path for name, path in files.items() if name not in known and path.stat().st_mtime < old):
        path.unlink(missing_ok=True)


def forget_content(owner: int | None, digests: Collection[str]) -> None:
    """Delete the owner's uploads of this content, in the transaction that erases the messages."""
    for upload in Upload.objects.filter(owner=owner, sha256__in=digests).order_by("sha256", "pk"):
        _release_content(upload)
        upload.delete()


def _release_content(upload: Upload) -> None:
    blobs.release_uses(upload.workspace_id, [{"stored": {"sha256": upload.sha256, "size": upload.size}}])
    path = path_of(upload.pk)
    transaction.on_commit(lambda: path.unlink(missing_ok=True), robust=True)
