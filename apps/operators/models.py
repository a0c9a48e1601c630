"""What operators did to many rows, the filters that they saved, and what they noted of failures."""

from __future__ import annotations

import datetime
import uuid

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Count
from django.utils import timezone

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.analytics.models import MAX_LABEL
from parley.work import Work, WorkQuerySet

MAX_CHOSEN = 500  # characters


class BulkActionQuerySet(WorkQuerySet["BulkAction"]):
    def unfinished(self) -> BulkActionQuerySet:
        return self.filter(state=BulkAction.State.RUNNING)


class BulkAction(Work):
    """An action on chosen rows. A process that holds the lease works off its rows in order."""

    class State(models.TextChoices):
        ASKED = "asked", "not started"
        RUNNING = "running"
        DONE = "done"
        STOPPED = "stopped"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    action = models.CharField(max_length=60, help_text="The key of the action (see `apps.operators.bulk`).")
    label = models.CharField("action", max_length=80)
    operator = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    chosen = models.CharField(
        max_length=MAX_CHOSEN, blank=True, help_text="The filter of the list, as its query string."
    )
    total = models.PositiveIntegerField()
    state = models.CharField(max_length=10, choices=State, default=State.RUNNING)
    why = models.CharField(max_length=300, blank=True, help_text="Why it was stopped.")
    created_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = BulkActionQuerySet.as_manager()

    class Meta:
        verbose_name = "bulk action"
        indexes = [
            models.Index(fields=["lease_until"], condition=models.Q(state="running"), name="running_bulk_actions"),
            models.Index(fields=["-created_at"], name="bulk_actions_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.label}, {self.total:,} rows"

    @property
    def is_running(self) -> bool:
        return self.state == BulkAction.State.RUNNING

    def counts(self) -> dict[str, int]:
        """The number of rows by outcome."""
        counted = self.rows.order_by().values_list("outcome").annotate(Count("pk"))
        return dict(counted)


class BulkRow(models.Model):
    class Outcome(models.TextChoices):
        WAITING = "waiting"
        STARTED = "started"
        DONE = "done"
        SKIPPED = "skipped"
        FAILED = "failed"

    bulk = models.ForeignKey(BulkAction, on_delete=models.CASCADE, db_index=False, related_name="rows")
    number = models.PositiveIntegerField(help_text="Counts from 1.")
    key = models.CharField(max_length=64, help_text="The primary key of the row.")
    outcome = models.CharField(max_length=10, choices=Outcome, default=Outcome.WAITING)
    note = models.CharField(max_length=300, blank=True)
    before = models.CharField(max_length=64, blank=True, help_text="The action's mark of the row before the first try.")

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["bulk", "number"], name="rows_of_a_bulk_action_in_order")]
        indexes = [models.Index(fields=["bulk", "outcome", "number"], name="rows_of_a_bulk_action")]

    def __str__(self) -> str:
        return self.key


class SavedFilter(models.Model):
    """A list's filters and order under a name, for one operator."""

    operator = models.ForeignKey(User, on_delete=models.CASCADE, db_index=False, related_name="+")
    model = models.CharField(max_length=80, help_text="The list, such as `record.task`.")
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=1000, help_text="The list's query string.")

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["operator", "model", "name"], name="one_filter_of_a_name_in_a_list")
        ]
        permissions = [("export_rows", "Can export lists")]

    def __str__(self) -> str:
        return self.name


class FailureGroup(models.Model):
    """Runs of an agent that fail for one reason, as far as operators muted or assigned them."""

    reason = models.CharField(max_length=MAX_LABEL, help_text="The code of the error.")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, db_index=False, related_name="+")
    is_muted = models.BooleanField("muted", default=False, help_text="The dashboard counts it, and does not show it.")
    muted_until = models.DateTimeField(null=True, blank=True, help_text="In UTC. Empty: for ever.")
    assignee = models.ForeignKey(
        User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", verbose_name="assigned to",
        limit_choices_to={"is_staff": True, "is_active": True},
    )  # fmt: skip

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "reason"],
                name="one_group_of_a_reason_and_agent",
                violation_error_message="These failures were muted or assigned already. Find them in the list.",
            )
        ]

    def __str__(self) -> str:
        return f"{self.reason} of {self.agent}"

    def clean(self) -> None:
        if self.muted_until and not self.is_muted:
            raise ValidationError({"muted_until": "Mark it as muted, or leave this empty."})
        if self.muted_until and self.muted_until <= timezone.now():
            raise ValidationError({"muted_until": "Choose a time in the future, or leave it empty to mute for ever."})

    def is_muted_at(self, now: datetime.datetime) -> bool:
        return self.is_muted and (self.muted_until is None or self.muted_until > now)
