"""What the deletion of a session does to uploads: content that it named is not kept for their sake."""

from __future__ import annotations

from collections.abc import Collection

from django.db import transaction

from apps.features.uploads import pieces
from apps.features.uploads.models import Upload
from apps.record import blobs


def forget(owner: int | None, digests: Collection[str]) -> None:
    """Give up the owner's uploads of this content, inside the transaction that forgets the messages."""
    for upload in Upload.objects.filter(owner=owner, sha256__in=digests).order_by("sha256", "pk"):
        release(upload)
        upload.delete()


def release(upload: Upload) -> None:
    """Take back what a whole upload counts for, and its file if that is still where it came in."""
    blobs.release(upload.workspace_id, [{"stored": {"sha256": upload.sha256, "size": upload.size}}])
    path = pieces.path_of(upload.pk)
    transaction.on_commit(lambda: path.unlink(missing_ok=True), robust=True)
