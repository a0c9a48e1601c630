"""Exports: archives of all data of an account, which a job makes. Their rows are the truth; a message only wakes."""

from __future__ import annotations

import datetime
import uuid

from django.db import models
from django.utils import timezone

from apps.accounts.errors import NotFound
from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.accounts.visibility import VisibleQuerySet
from parley.work import Work, WorkQuerySet


class ExportNotFound(NotFound):
    """There is no such export, or it has expired. Start a new one."""


class ExportQuerySet(VisibleQuerySet["Export"], WorkQuerySet["Export"]):  # type: ignore[override]  # `as_manager` of two
    not_found = ExportNotFound

    def visible_to(self, principal: Principal) -> ExportQuerySet:
        """A person's own, whatever their workspace: an export has the data of all."""
        if not principal.is_known:
            return self.none()
        return self.filter(owner=principal.user_id).exclude(state=Export.State.DELETED)

    def unfinished(self) -> ExportQuerySet:
        return self.filter(state__in=Export.UNFINISHED)

    def due(self, now: datetime.datetime | None = None) -> ExportQuerySet:
        return super().due(now).filter(owner__is_active=True).order_by("created_at")


class Export(Work):
    class State(models.TextChoices):
        WAITING = "waiting", "waits for a worker"
        WORKING = "working", "is being made"
        DONE = "done", "can be downloaded"
        FAILED = "failed", "could not be made"
        DELETED = "deleted", "is kept for the count of a day"

    UNFINISHED = (State.WAITING, State.WORKING)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="exports")
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    fence = models.PositiveSmallIntegerField(
        "attempt",
        default=0,
        editable=False,
        db_column="attempt",
        help_text="Jobs that began it. The newest one writes it.",
    )
    sessions = models.PositiveIntegerField(default=0, help_text="How many it will have.")
    sessions_done = models.PositiveIntegerField(default=0)
    file = models.CharField(max_length=200, blank=True, help_text="The name in the file storage.")
    size = models.PositiveBigIntegerField(default=0, help_text="Bytes of the file.")
    problem = models.CharField(max_length=500, blank=True, help_text="Why it could not be made. Empty if it could.")
    created_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True, help_text="When it is deleted.")

    objects = ExportQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner"],
                condition=models.Q(state__in=["waiting", "working"]),
                name="one_unfinished_export_of_a_person",
            )
        ]
        indexes = [models.Index(fields=["owner", "-created_at"], name="exports_of_a_person")]

    def __str__(self) -> str:
        return f"{self.owner_id}, {self.created_at:%Y-%m-%d %H:%M}"

    @property
    def is_finished(self) -> bool:
        return self.state not in self.UNFINISHED

    @property
    def percent(self) -> int:
        return 100 * self.sessions_done // self.sessions if self.sessions else 0
