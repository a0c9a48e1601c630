"""Read-only links to a session as it was at an event."""

from __future__ import annotations

import datetime
import hashlib
import uuid

from django.db import models
from django.utils import timezone

from apps.accounts.models import User
from apps.record.models import Context


class Share(models.Model):
    """A link by which anybody may read a session as it was. Only the SHA-256 of the link's token is stored."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    context = models.ForeignKey(Context, on_delete=models.CASCADE, related_name="shares")
    upto = models.PositiveBigIntegerField(help_text="Index of the last event that is shown.")
    title = models.CharField(max_length=200, blank=True, help_text="What the session was called then.")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    with_artifacts = models.BooleanField(default=False, help_text="Are files and artifacts shown?")
    with_branches = models.BooleanField(default=False, help_text="Are its forks shown?")
    branches = models.JSONField(default=dict, help_text="The forks that are shown: by their keys, up to which event.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return f"share of {self.context_id}"

    @staticmethod
    def digest_of(token: str) -> str:
        return hashlib.sha256(token.encode(errors="replace")).hexdigest()

    def is_open(self, now: datetime.datetime) -> bool:
        return self.revoked_at is None and now < self.expires_at


class Presence(models.Model):
    """A person who has a shared session open. The page's connection renews it; it is no part of the record."""

    context = models.ForeignKey(Context, on_delete=models.CASCADE, db_index=False, related_name="+")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    seen_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "presences"
        constraints = [models.UniqueConstraint(fields=["context", "user"], name="present_once")]

    def __str__(self) -> str:
        return f"{self.user_id} in {self.context_id}"
