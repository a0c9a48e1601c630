"""Execution state: runs, what they wait for, and which messages were accepted. Not part of replay.

Foreign keys name the record's models by their labels, because `models` imports this module.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.db import models
from django.db.models.lookups import Exact, IsNull
from django.utils import timezone

from apps.accounts.secrets.encryption import EncryptedTextField
from apps.agents.models import Agent

MAX_LANE = 100  # characters
MAX_AMOUNT = 78  # digits of 256 bits
MAX_ADDRESS = 200  # characters of an asset, a network or an address


class ErrorCode(models.Func):
    """The code in a run's `error`, in the words of its index: SQLite uses one only without parameters."""

    template = "(%(expressions)s ->> 'code')"
    output_field = models.TextField()

    def as_sqlite(self, compiler: Any, connection: Any, **more: Any) -> Any:
        return self.as_sql(compiler, connection, template="JSON_EXTRACT(%(expressions)s, '$.code')", **more)


def failed_for(code: str) -> models.Q:
    """Runs that failed with this error's code; "" for those without one."""
    coded = models.Q(Exact(ErrorCode("error"), code))
    if not code:
        coded |= models.Q(IsNull(ErrorCode("error"), True))
    return coded & models.Q(state__any_of=(Run.State.FAILED,))


class RunQuerySet(models.QuerySet["Run"]):
    def unfinished(self) -> RunQuerySet:
        return self.filter(state__any_of=(Run.State.QUEUED, Run.State.RUNNING))


class Run(models.Model):
    """The execution of one turn of a task. Not part of replay."""

    class State(models.TextChoices):
        WAITING = "waiting", "waiting for other tasks"
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        CANCELED = "canceled"

    class Priority(models.IntegerChoices):
        CONTINUED = 0, "part of a running turn"
        HIGH = 1
        NORMAL = 2
        LOW = 3

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    task = models.ForeignKey("record.Task", on_delete=models.CASCADE, db_index=False, related_name="runs")
    message = models.ForeignKey("record.Message", on_delete=models.CASCADE, related_name="runs")
    agent = models.ForeignKey(
        Agent,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        db_index=False,
        related_name="+",
        help_text="The agent that takes this turn instead of the task's agent. Empty: the task's agent.",
    )
    turn = models.PositiveIntegerField(help_text="1 for the task's first message.")
    state = models.CharField(max_length=10, choices=State, default=State.QUEUED)
    attempt = models.PositiveSmallIntegerField(default=0, help_text="Counted before the turn is executed.")
    fence = models.PositiveIntegerField(default=0, help_text="Grows with every claim. Older numbers are void.")
    worker = models.CharField(max_length=120, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    interrupted = models.BooleanField(default=False, help_text="A newer message asks this turn to stop.")
    read_until = models.PositiveBigIntegerField(
        default=0,
        db_default=0,
        help_text="The index of the newest message that the running turn has read. 0: none.",
    )
    stops_after_step = models.BooleanField(
        default=False, db_default=False, help_text="Somebody asks this turn to end after its step."
    )
    alone = models.BooleanField(
        default=False,
        db_default=False,
        help_text="A process died with it or with its agent's other runs. It has a process of its own.",
    )
    slot = models.JSONField(null=True, blank=True, help_text="The question that this turn answers.")
    resumed = models.BooleanField(default=False, help_text="It continues the message of the turn before.")
    memory = models.JSONField(default=dict, blank=True)
    input = models.JSONField(default=dict, blank=True, help_text="Snapshot of the turn's input.")
    input_hash = models.CharField(max_length=64, blank=True)
    usage = models.JSONField(default=dict, blank=True)
    error = models.JSONField(null=True, blank=True)
    notes = models.JSONField(default=list, blank=True, help_text="Events that came too late.")
    remote = models.JSONField(default=dict, blank=True, help_text="A remote agent's ids.")
    traceparent = models.CharField(max_length=55, blank=True, help_text="Its span (W3C Trace Context).")
    # A copy, so that workers choose among many thousands of queued runs by one index (`engine.fairness`).
    lane = models.CharField(
        max_length=MAX_LANE,
        blank=True,
        default="",
        db_default="",
        help_text="Whose turn it takes in the queue: workspace, agent and API key.",
    )
    priority = models.PositiveSmallIntegerField(
        choices=Priority,
        default=Priority.NORMAL,
        db_default=Priority.NORMAL,
        help_text="Within the workspace.",
    )
    queued_at = models.DateTimeField(default=timezone.now)
    published_at = models.DateTimeField(null=True, blank=True, help_text="When the sweep last sent its message.")
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
            models.Index(
                fields=["lane", "priority", "queued_at"], condition=models.Q(state="queued"), name="queued_runs"
            ),
            models.Index(fields=["-queued_at", "-id"], name="runs_by_age"),
            models.Index(
                fields=["state", "-queued_at"], condition=models.Q(state__in=["failed", "canceled"]), name="faulty_runs"
            ),
            models.Index(
                ErrorCode("error"),
                models.F("queued_at").desc(),
                condition=models.Q(state__in=["failed"]),
                name="failed_runs_by_reason",
            ),
            models.Index(fields=["finished_at"], condition=models.Q(finished_at__isnull=False), name="runs_by_end"),
        ]

    def __str__(self) -> str:
        return f"{self.task_id}, turn {self.turn}"


class Suspension(models.Model):
    """A task that asks its child's question, until somebody answers. Not part of replay."""

    task = models.OneToOneField("record.Task", on_delete=models.CASCADE, related_name="suspension")
    child = models.ForeignKey(
        "record.Task", null=True, on_delete=models.SET_NULL, related_name="suspends", help_text="None: it was deleted."
    )
    asked_at = models.DateTimeField(help_text="The time of the child's status that is the question.")

    def __str__(self) -> str:
        return f"{self.task_id} waits for {self.child_id}"


class Effect(models.Model):
    """An outside effect of a task, which happens at most once (see `engine.turns.effects`). Not part of replay."""

    task = models.ForeignKey("record.Task", on_delete=models.CASCADE, db_index=False, related_name="effects")
    name = models.CharField(max_length=100)
    key = models.CharField(max_length=200)
    claim = models.UUIDField(unique=True, help_text="Of the attempt that runs it; the id of its tool call in the log.")
    result = models.JSONField(null=True)
    started_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, help_text="Empty: it is under way, or unknown.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["task", "name", "key"], name="an_effect_happens_once")]

    def __str__(self) -> str:
        return f"{self.name} {self.key}"


class Payment(models.Model):
    """What a client paid for a task (see `engine.turns.payments`). Not part of replay: the log has the receipt.

    `sealed` is what its payer signed, encrypted, until it is handed to the agent that it is for.
    """

    class State(models.TextChoices):
        UNKNOWN = "unknown", "under way, or unknown"
        SETTLED = "settled", "settled, its message not yet recorded"
        USED = "used"
        FAILED = "failed"
        SENT = "sent", "sent to a remote agent"

    task = models.ForeignKey("record.Task", on_delete=models.CASCADE, related_name="payments")
    amount = models.CharField(
        max_length=MAX_AMOUNT, blank=True, default="", db_default="", help_text="In the asset's smallest unit."
    )
    asset = models.CharField(max_length=MAX_ADDRESS, blank=True, default="", db_default="")
    network = models.CharField(max_length=MAX_ADDRESS, blank=True, default="", db_default="")
    pay_to = models.CharField("to", max_length=MAX_ADDRESS, blank=True, default="", db_default="")
    authorization = models.CharField(max_length=64, unique=True, help_text="Digest of what its payer signed.")
    asked = models.PositiveIntegerField(help_text="The index of the event that asked for it.")
    state = models.CharField(max_length=10, choices=State, default=State.UNKNOWN)
    claimed_until = models.DateTimeField(help_text="Until when the facilitator may be asked.")
    receipt = models.JSONField(default=dict, blank=True)
    error = models.CharField(max_length=500, blank=True)
    sealed = EncryptedTextField(null=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["task"], condition=models.Q(state="unknown"), name="one_unknown_payment_per_task"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task_id}: {self.state}"


class Withheld(models.Model):
    """What an agent said that nobody may read until somebody decides (see `engine.turns.guarding`). Not part of replay.

    `content`: JSON, encrypted; empty when somebody has decided.
    """

    task = models.OneToOneField("record.Task", on_delete=models.CASCADE, related_name="withheld")
    content = EncryptedTextField()
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name_plural = "withheld answers"

    def __str__(self) -> str:
        return str(self.task_id)


class Dependency(models.Model):
    """A submitted task that starts when another one is completed. Not part of replay."""

    task = models.ForeignKey("record.Task", on_delete=models.CASCADE, related_name="dependencies")
    on = models.ForeignKey(
        "record.Task",
        null=True,
        on_delete=models.SET_NULL,
        related_name="dependents",
        help_text="None: it was deleted.",
    )

    class Meta:
        verbose_name_plural = "dependencies"

    def __str__(self) -> str:
        return f"{self.task_id} depends on {self.on_id}"


class Accepted(models.Model):
    """Idempotency: the result of a known sender's message. Not on Message, because forks share messages."""

    sender = models.CharField(max_length=60)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    message_id = models.CharField(max_length=200)
    body_hash = models.CharField(max_length=64)
    task = models.ForeignKey("record.Task", null=True, on_delete=models.CASCADE, related_name="+")
    answer = models.ForeignKey("record.Message", null=True, on_delete=models.CASCADE, related_name="+")
    claimed_until = models.DateTimeField(null=True, help_text="Until when a worker may answer without a task.")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name_plural = "accepted messages"
        constraints = [
            models.UniqueConstraint(fields=["sender", "agent", "message_id"], name="a_message_is_accepted_once")
        ]

    def __str__(self) -> str:
        return self.message_id
