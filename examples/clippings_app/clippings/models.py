"""What agents kept for people."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from apps.accounts.visibility import OwnedQuerySet


class ClippingQuerySet(OwnedQuerySet["Clipping"]):
    agent = "agent"


class Clipping(models.Model):
    """A text, for the owner of the task in which it was kept."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    workspace = models.ForeignKey("accounts.Workspace", on_delete=models.CASCADE, related_name="+")
    agent = models.ForeignKey("agents.Agent", on_delete=models.CASCADE, related_name="+")
    session = models.UUIDField(help_text="Where it was kept.")
    text = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)

    objects = ClippingQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return self.text[:80]
