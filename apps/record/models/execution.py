"""Who works on which turn until when, what is remembered of messages, and what is kept in files: no part of replay."""

from __future__ import annotations

import uuid

from django.db import models
from django.utils import timezone

from apps.accounts.models import Workspace
from apps.agents.models import Agent
from apps.record.models.record import Context, Message, Task


class RunQuerySet(models.QuerySet["Run"]):
    def unfinished(self) -> RunQuerySet:
        return self.filter(state__in=(Run.State.QUEUED, Run.State.RUNNING))


class Run(models.Model):
    """One turn of a task being executed: who works on it and until when. Execution state, no part of replay."""

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        CANCELED = "canceled"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    task = models.ForeignKey(Task, on_delete=models.CASCADE, db_index=False, related_name="runs")
    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="runs")
    agent = models.ForeignKey(
        Agent,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        db_index=False,
        related_name="+",
        help_text="Who takes the turn in the place of the task's agent; empty: that one itself.",
    )
    turn = models.PositiveIntegerField(help_text="1 for the task's first message.")
    state = models.CharField(max_length=10, choices=State, default=State.QUEUED)
    attempt = models.PositiveSmallIntegerField(default=0, help_text="Counted before the turn is executed.")
    fence = models.PositiveIntegerField(default=0, help_text="Grows with every claim; an older number is void.")
    worker = models.CharField(max_length=120, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    interrupted = models.BooleanField(default=False, help_text="A newer message wants this turn to stop.")
    slot = models.JSONField(null=True, blank=True, help_text="The question that this turn answers.")
    resumed = models.BooleanField(default=False, help_text="It has no message of its own, but that of the turn before.")
    memory = models.JSONField(default=dict, blank=True)
    input = models.JSONField(default=dict, blank=True, help_text="Snapshot of what the turn was given.")
    input_hash = models.CharField(max_length=64, blank=True)
    usage = models.JSONField(default=dict, blank=True)
    error = models.JSONField(null=True, blank=True)
    notes = models.JSONField(default=list, blank=True, help_text="What came too late, and from whom.")
    remote = models.JSONField(default=dict, blank=True, help_text="A remote agent's ids.")
    traceparent = models.CharField(max_length=55, blank=True, help_text="Its span (W3C Trace Context).")
    queued_at = models.DateTimeField(default=timezone.now)
    published_at = models.DateTimeField(null=True, blank=True, help_text="When its wake-up was last sent by the sweep.")
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["task", "turn"], name="one_run_per_turn"),
            models.UniqueConstraint(
                fields=["task"],
                condition=models.Q(state__in=["queued", "running"]),
                name="one_unfinished_run_per_task",
            ),
        ]
        indexes = [
            models.Index(
                fields=["state", "lease_until"],
                condition=models.Q(state__in=["queued", "running"]),
                name="unfinished_runs",
            ),
            models.Index(fields=["-queued_at", "-id"], name="runs_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.task_id}, turn {self.turn}"

    @property
    def is_first(self) -> bool:
        """Nothing was done for the task before this claim; a run that was given back counts an attempt less."""
        return self.turn == 1 and self.fence <= 1


class Suspension(models.Model):
    """A task that asks what a child of it asks, until somebody answers. Execution state, no part of replay."""

    task = models.OneToOneField(Task, on_delete=models.CASCADE, related_name="suspension")
    child = models.ForeignKey(
        Task, null=True, on_delete=models.SET_NULL, related_name="suspends", help_text="None: it was cleared."
    )
    asked_at = models.DateTimeField(help_text="The time of the child's status that is the question.")

    def __str__(self) -> str:
        return f"{self.task_id} waits for {self.child_id}"


class Accepted(models.Model):
    """Idempotency: what a known sender's message led to. A table of its own: forks share messages."""

    sender = models.CharField(max_length=60)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    message_id = models.CharField(max_length=200)
    body_hash = models.CharField(max_length=64)
    task = models.ForeignKey(Task, null=True, on_delete=models.CASCADE, related_name="+")
    answer = models.ForeignKey(Message, null=True, on_delete=models.CASCADE, related_name="+")
    claimed_until = models.DateTimeField(null=True, help_text="Until when somebody works on an answer without a task.")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name_plural = "accepted messages"
        constraints = [
            models.UniqueConstraint(fields=["sender", "agent", "message_id"], name="a_message_is_accepted_once")
        ]

    def __str__(self) -> str:
        return self.message_id


class Blob(models.Model):
    """Content too large for a row: kept in file storage under its SHA-256, counted per workspace."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, db_index=False, related_name="blobs")
    sha256 = models.CharField(max_length=64)
    size = models.PositiveBigIntegerField(help_text="Bytes.")
    uses = models.PositiveIntegerField(default=0, help_text="Parts of this workspace that name it.")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workspace", "sha256"], name="one_count_per_workspace")]

    def __str__(self) -> str:
        return self.sha256[:12]


class ColdKey(models.Model):
    """Where a row is by whose key alone somebody may ask, while its session is in cold storage."""

    context = models.ForeignKey(Context, on_delete=models.CASCADE, related_name="cold_keys")
    kind = models.CharField(max_length=40, help_text="The model, such as `record.task`.")
    key = models.CharField(max_length=40)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "key"], name="a_row_is_in_one_cold_file")]

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"
