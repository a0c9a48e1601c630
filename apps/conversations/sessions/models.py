"""A person's own marks on a session, and legal holds. Not part of replay."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from apps.accounts.models import User, Workspace
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


class LegalHold(models.Model):
    """Keeps the sessions of a person, of a workspace, or one session, until an operator deletes this row.

    The database refuses to delete what a hold names.
    """

    user = models.ForeignKey(User, null=True, blank=True, on_delete=models.PROTECT, related_name="legal_holds")
    workspace = models.ForeignKey(
        Workspace, null=True, blank=True, on_delete=models.PROTECT, related_name="legal_holds"
    )
    context = models.ForeignKey(
        Context, null=True, blank=True, on_delete=models.PROTECT, related_name="legal_holds", verbose_name="session"
    )
    reason = models.CharField(max_length=500, help_text="For operators, such as the number of the case.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(user=None, workspace=None, context__isnull=False)
                | models.Q(user=None, workspace__isnull=False, context=None)
                | models.Q(user__isnull=False, workspace=None, context=None),
                name="a_hold_is_on_one_thing",
                violation_error_message="Choose one of them: a person, a workspace or a session.",
            )
        ]

    def __str__(self) -> str:
        if self.context_id:
            return f"legal hold on session {self.context_id}"
        return f"legal hold on {self.user or self.workspace}"
