"""Which uploads there are: how many one person may have, and for how long."""

from __future__ import annotations

import datetime
import uuid

from django.conf import settings
from django.db import transaction
from django.db.models import Sum
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.accounts.quotas import TooMuch
from apps.features.uploads import forgetting, pieces
from apps.features.uploads.models import Upload
from apps.record import unused_blobs
from apps.record.errors import FileTooLarge, InvalidParams, UploadNotFound
from apps.record.media_types import file_name
from db.transactions import transacting

RETRY_SECONDS = 60  # a guess: nobody knows when the caller finishes or deletes one
MEGABYTE = 1024**2
SWEPT_AT_ONCE = 100


def begin(principal: Principal, filename: str, size: int, media_type: str = "", sha256: str = "") -> Upload:
    """Take a file of `size` bytes that is to come from a known caller. Raises FileTooLarge, TooMuch, InvalidParams."""
    assert principal.user_id is not None
    assert principal.workspace_id is not None
    if size < 1:
        raise InvalidParams("An empty file cannot be sent. Choose one that has something in it.", "size")
    if size > settings.MAX_UPLOAD_BYTES:
        raise FileTooLarge(f"A file may have at most {settings.MAX_UPLOAD_BYTES / MEGABYTE:g} MB.")
    with transacting():
        User.objects.select_for_update(no_key=True).get(pk=principal.user_id)  # one after another
        _check_room(principal, size)
        pieces.make(key := uuid.uuid4())
        return Upload.objects.create(
            pk=key,
            owner_id=principal.user_id,
            workspace_id=principal.workspace_id,
            filename=file_name(filename),
            claimed=media_type,
            size=size,
            expected=sha256.lower(),
            expires_at=timezone.now() + datetime.timedelta(seconds=settings.UPLOAD_SECONDS),
        )


def _check_room(principal: Principal, size: int) -> None:
    mine = Upload.objects.filter(owner=principal.user_id, expires_at__gt=timezone.now())
    if mine.open().count() >= settings.MAX_OPEN_UPLOADS:
        raise TooMuch(
            f"You have {settings.MAX_OPEN_UPLOADS} uploads that are not finished. Finish or delete one first.",
            RETRY_SECONDS,
        )
    room = settings.MAX_UPLOADED_BYTES - (mine.aggregate(sum=Sum("size"))["sum"] or 0)
    if size > room:
        raise FileTooLarge(
            f"Your uploads may have {settings.MAX_UPLOADED_BYTES / MEGABYTE:g} MB together, and there is room for"
            f" {max(0, room)} bytes. Delete some, or wait until they expire."
        )


def find(principal: Principal, upload: uuid.UUID) -> Upload:
    """The caller's upload. Raises UploadNotFound."""
    found = Upload.objects.visible_to(principal).filter(pk=upload).first()
    if found is None:
        raise UploadNotFound
    return found


def discard(upload: Upload) -> None:
    """Give it up. Messages that name its content keep that."""
    with transacting():
        if not Upload.objects.filter(pk=upload.pk).delete()[0]:
            return
        if upload.is_whole:
            forgetting.release(upload)
            transaction.on_commit(lambda: unused_blobs.delete([upload.sha256]), robust=True)
    pieces.path_of(upload.pk).unlink(missing_ok=True)


def sweep() -> None:
    """Give up what expired, and delete files of uploads that are gone."""
    for upload in Upload.objects.filter(expires_at__lte=timezone.now()).order_by("expires_at")[:SWEPT_AT_ONCE]:
        discard(upload)
    folder = pieces.path_of(uuid.UUID(int=0)).parent
    files = {path.name: path for path in folder.iterdir()} if folder.is_dir() else {}
    old = timezone.now().timestamp() - settings.UPLOAD_SECONDS
    known = {key.hex for key in Upload.objects.values_list("pk", flat=True)} if files else set()
    for path in (path for name, path in files.items() if name not in known and path.stat().st_mtime < old):
        path.unlink(missing_ok=True)
