"""Files that are uploaded in pieces, before a message names them."""

from __future__ import annotations

import uuid

from django.db import models
from django.utils import timezone

from apps.accounts.models import User, Workspace
from apps.accounts.principals import Principal
from apps.accounts.visibility import VisibleQuerySet
from apps.record.errors import UploadNotFound


class UploadQuerySet(VisibleQuerySet["Upload"]):
    not_found = UploadNotFound

    def visible_to(self, principal: Principal) -> UploadQuerySet:
        """A caller's own uploads that have not expired."""
        found = self.filter(owner=principal.user_id, workspace=principal.workspace_id, expires_at__gt=timezone.now())
        return found if principal.is_known else self.none()

    def open(self) -> UploadQuerySet:
        return self.filter(sha256="")


class Upload(models.Model):
    """A file that is being uploaded. Only the length of the file on disk says how much was received.

    A complete upload is stored content, and counts as one use of it until it expires.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="uploads")
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="uploads")
    filename = models.CharField(max_length=200)
    claimed = models.CharField(max_length=200, blank=True, help_text="The media type that it is said to have.")
    media_type = models.CharField(max_length=200, blank=True, help_text="The one that is believed, once it is whole.")
    size = models.PositiveBigIntegerField(help_text="Bytes, of the whole.")
    expected = models.CharField(max_length=64, blank=True, help_text="The SHA-256 that it is said to have.")
    sha256 = models.CharField(max_length=64, blank=True, help_text="Empty until it is whole.")
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(db_index=True)

    objects = UploadQuerySet.as_manager()

    def __str__(self) -> str:
        return self.filename

    @property
    def is_whole(self) -> bool:
        return bool(self.sha256)
