"""Schedules and incoming webhooks, each of their due times and events, and reruns of sessions.

The rows are the truth; beat only wakes.
"""

from __future__ import annotations

import uuid

from django.conf import settings
from django.core.validators import MaxLengthValidator, MaxValueValidator, MinValueValidator
from django.db import models
from django.utils import timezone

from apps.accounts.models import Workspace
from apps.accounts.secrets.encryption import EncryptedTextField
from apps.accounts.secrets.webhook_signatures import CHOICES
from apps.accounts.visibility import OwnedQuerySet
from apps.agents.models import Agent
from apps.record.content.parts import MAX_TEXT
from apps.record.models import Context, Task
from parley.work import Work, WorkQuerySet

RUN_KEY = "schedule:"  # before a run's id


class ScheduleQuerySet(OwnedQuerySet["Schedule"], WorkQuerySet["Schedule"]):  # type: ignore[override]  # `as_manager` of two
    agent = "agent"


class Schedule(Work):
    """When an agent or a plan starts by itself, as its owner. One job at a time starts its runs."""

    class Kind(models.TextChoices):
        CRON = "cron", "At certain times"
        INTERVAL = "interval", "At an interval"
        ONCE = "once", "Once"

    class Overlap(models.TextChoices):
        SKIP = "skip", "Skip the new run"
        QUEUE = "queue", "Wait for the earlier run"
        CANCEL = "cancel", "Cancel the earlier run"

    class CatchUp(models.TextChoices):
        NONE = "none", "Do not run"
        LAST = "last", "Run once"
        ALL = "all", "Run for each missed time, up to a limit"

    class Sessions(models.TextChoices):
        NEW = "new", "A new session each time"
        SAME = "same", "The same session each time"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="schedules", editable=False
    )
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="schedules", editable=False)
    agent = models.ForeignKey(
        Agent, null=True, on_delete=models.SET_NULL, related_name="schedules", verbose_name="agent or plan"
    )
    name = models.CharField(max_length=200)
    text = models.TextField("message", blank=True, validators=[MaxLengthValidator(MAX_TEXT)])
    inputs = models.JSONField(
        "data, as JSON", default=dict, blank=True,
        help_text='A plan\'s inputs, or data that an agent gets with the message, such as {"topic": "energy"}.',
    )  # fmt: skip
    kind = models.CharField("when", max_length=10, choices=Kind)
    cron = models.CharField(
        "times", max_length=200, blank=True,
        help_text="Five fields: minute, hour, day of month, month, day of week. Or a name, such as @daily.",
    )  # fmt: skip
    every_seconds = models.PositiveIntegerField(
        "interval", null=True, blank=True, validators=[MinValueValidator(1), MaxValueValidator(2_000_000_000)],
    )  # fmt: skip
    at = models.DateTimeField(
        "date and time", null=True, blank=True,
        help_text="When it runs once, or from when the interval counts, in the schedule's time zone.",
    )  # fmt: skip
    time_zone = models.CharField(max_length=64, default="UTC", help_text="A name such as Europe/Berlin.")
    sessions = models.CharField(
        "where it runs", max_length=10, choices=Sessions, default=Sessions.NEW, db_default=Sessions.NEW
    )
    session = models.UUIDField(null=True, editable=False, help_text="The session in which its next run goes on.")
    # A plain id, as in `record.Context`.
    project = models.UUIDField(null=True, blank=True, help_text="The project that its sessions begin in.")
    overlap = models.CharField(
        "if an earlier run still works", max_length=10, choices=Overlap, default=Overlap.SKIP,
        help_text="Only with a new session each time: in the same session, messages wait in its queue.",
    )  # fmt: skip
    catch_up = models.CharField("after the server was down", max_length=10, choices=CatchUp, default=CatchUp.LAST)
    catch_up_limit = models.PositiveSmallIntegerField(
        default=10, validators=[MinValueValidator(1), MaxValueValidator(20)], help_text="The most missed times to run."
    )
    next_at = models.DateTimeField("next run", null=True, editable=False, help_text="None: it runs no more.")
    paused_at = models.DateTimeField("paused", null=True, editable=False)
    paused_because = models.CharField(
        max_length=500, editable=False, help_text="Why the server or an operator paused it. Empty if its owner did."
    )
    failures = models.PositiveSmallIntegerField(
        default=0, editable=False, help_text="The number of runs in a row that could not start."
    )
    lease_until = models.DateTimeField(null=True, blank=True, editable=False, db_column="sending_until")
    created_at = models.DateTimeField("created", default=timezone.now, editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    objects = ScheduleQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["next_at"], condition=models.Q(paused_at=None), name="schedules_by_next_time"),
            models.Index(fields=["owner", "workspace", "-created_at"], name="schedules_of_a_person"),
        ]

    def __str__(self) -> str:
        return self.name


class ScheduledRunQuerySet(OwnedQuerySet["ScheduledRun"]):
    path, agent = "schedule__", "schedule__agent"


class ScheduledRun(models.Model):
    """One due time of a schedule. Its id is in the message's idempotency key, so it starts once."""

    class State(models.TextChoices):
        WAITING = "waiting", "is about to start"
        STARTED = "started"
        SKIPPED = "skipped"
        FAILED = "failed", "could not start"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    schedule = models.ForeignKey(Schedule, on_delete=models.CASCADE, related_name="runs")
    due_at = models.DateTimeField()
    is_manual = models.BooleanField(default=False, help_text="Whether a person started it.")
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    agent = models.ForeignKey(Agent, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    text = models.TextField(blank=True)
    inputs = models.JSONField(default=dict, blank=True)
    task = models.ForeignKey(Task, null=True, blank=True, on_delete=models.SET_NULL, related_name="scheduled_runs")
    reason = models.CharField(
        max_length=500, blank=True, help_text="Why it waits, was skipped, could not start, or began a new session."
    )
    try_at = models.DateTimeField(null=True, blank=True, help_text="Not before; a limit was reached.")
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)

    objects = ScheduledRunQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["schedule", "due_at"], name="one_run_for_each_due_time")]
        indexes = [
            models.Index(
                fields=["schedule", "due_at"], condition=models.Q(state="waiting"), name="scheduled_runs_that_wait"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.schedule_id}, {self.due_at:%Y-%m-%d %H:%M}"

    @property
    def key(self) -> str:
        """The messageId of what it starts."""
        return f"{RUN_KEY}{self.pk}"


class IncomingWebhookQuerySet(OwnedQuerySet["IncomingWebhook"]):
    agent = "agent"


class IncomingWebhook(models.Model):
    """An address at which events of another system start an agent or a plan, as its owner."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="incoming_webhooks", editable=False
    )
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="incoming_webhooks", editable=False)
    agent = models.ForeignKey(
        Agent, null=True, on_delete=models.SET_NULL, related_name="incoming_webhooks", verbose_name="agent or plan"
    )
    name = models.CharField(max_length=200)
    scheme = models.CharField(
        "who sends", max_length=10, choices=CHOICES, help_text="How the sender shows that it knows the secret."
    )
    signature = models.JSONField(null=True, blank=True, help_text="How the sender signs; only of the scheme `hmac`.")
    secret = EncryptedTextField(blank=True, editable=False)
    old_secret = EncryptedTextField(blank=True, editable=False)
    old_secret_until = models.DateTimeField(
        null=True, editable=False, help_text="Until when the secret before counts as well."
    )
    text = models.TextField(
        "message", blank=True, validators=[MaxLengthValidator(MAX_TEXT)],
        help_text="A template, such as: Review {{ body.pull_request.html_url }}. Without it, the agent gets the event "
        "as data. It may use body, headers (by lower-case names), event.id and event.type.",
    )  # fmt: skip
    inputs = models.JSONField(
        "inputs, as JSON", default=dict, blank=True,
        help_text="A plan's inputs, or data that an agent gets beside the message. Its texts are templates, too.",
    )  # fmt: skip
    only_if = models.CharField(
        max_length=1000, blank=True,
        help_text="An expression, such as: event.type == 'pull_request' and body.action == 'opened'. "
        "Events for which it does not hold start nothing.",
    )  # fmt: skip
    paused_at = models.DateTimeField("paused", null=True, editable=False)
    last_event_at = models.DateTimeField("last event", null=True, editable=False)
    created_at = models.DateTimeField("created", default=timezone.now, editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    objects = IncomingWebhookQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["owner", "workspace", "-created_at"], name="webhooks_of_a_person")]

    def __str__(self) -> str:
        return self.name


class IncomingEventQuerySet(OwnedQuerySet["IncomingEvent"]):
    path, agent = "webhook__", "webhook__agent"


class IncomingEvent(models.Model):
    """One event that came in, or was sent again by a person. Its id is in the message's idempotency key."""

    class State(models.TextChoices):
        WAITING = "waiting", "is about to start"
        STARTED = "started"
        IGNORED = "ignored"
        FAILED = "failed", "could not start"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    webhook = models.ForeignKey(IncomingWebhook, on_delete=models.CASCADE, related_name="events")
    event_id = models.CharField(max_length=200, help_text="The sender's id.")
    digest = models.CharField(
        max_length=64, blank=True, db_default="", help_text="Of a body that is signed without the id; else empty."
    )
    kind = models.CharField(max_length=200, blank=True, help_text="What happened, as the sender names it.")
    body = models.JSONField(null=True, help_text="Null if that is what was sent.")
    headers = models.JSONField(default=dict)
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    reason = models.CharField(max_length=500, blank=True, help_text="Why it was ignored or could not start.")
    agent = models.ForeignKey(Agent, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    text = models.TextField(blank=True)
    inputs = models.JSONField(default=dict, blank=True)
    task = models.ForeignKey(Task, null=True, blank=True, on_delete=models.SET_NULL, related_name="incoming_events")
    repeats = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="+", help_text="The event sent again."
    )
    is_repeat = models.BooleanField(default=False, help_text="Whether a person sent it again.")
    received_at = models.DateTimeField(default=timezone.now)

    objects = IncomingEventQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["webhook", "event_id"], condition=models.Q(is_repeat=False), name="an_event_comes_once"
            )
        ]
        indexes = [
            models.Index(fields=["webhook", "-received_at", "-id"], name="events_of_a_webhook"),
            models.Index(fields=["received_at"], condition=models.Q(state="waiting"), name="events_that_wait"),
        ]

    def __str__(self) -> str:
        return self.event_id

    @property
    def key(self) -> str:
        """The messageId of what it starts."""
        return f"webhook:{self.pk}"


class Rerun(models.Model):
    """A session that got the messages of another again. Not part of replay."""

    session = models.OneToOneField(Context, primary_key=True, on_delete=models.CASCADE, related_name="rerun")
    source = models.ForeignKey(Context, on_delete=models.CASCADE, related_name="reruns")
    started_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"{self.session_id} after {self.source_id}"
