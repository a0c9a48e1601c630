"""A person's own marks on a session. Not part of replay."""

from __future__ import annotations

from django.db import models

from apps.accounts.models import User
from apps.record.models import Context


class SessionMark(models.Model):
    """Whether a person pinned a session, and how far they have seen it."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, db_index=False, related_name="+")
    context = models.ForeignKey(Context, on_delete=models.CASCADE, related_name="marks")
    pinned_at = models.DateTimeField(null=True, blank=True)
    seen = models.PositiveBigIntegerField(default=0, help_text="Index of the newest event that the person has seen.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "context"], name="one_mark_of_a_person_per_session")]

    def __str__(self) -> str:
        return str(self.context_id)
