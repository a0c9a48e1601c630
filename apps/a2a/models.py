"""Webhooks and their deliveries."""

from __future__ import annotations

import datetime
import uuid

from django.db import models
from django.utils import timezone

from apps.accounts.secrets.encryption import EncryptedTextField
from apps.record.models import Task
from parley.db import sql
from parley.work import Work, WorkQuerySet


class PushConfigQuerySet(WorkQuerySet["PushConfig"]):
    def due(self, now: datetime.datetime | None = None) -> PushConfigQuerySet:
        now = now or sql.database_time()
        return super().due(now).filter(due_at__lte=now).order_by("due_at")


class PushConfig(Work):
    """A webhook of a task, and its queue. The holder of the lease sends it in order."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="push_configs")
    config_id = models.CharField(max_length=200, help_text="A2A id: the client's own, or the primary key.")
    url = models.CharField(max_length=2048)
    token = EncryptedTextField(blank=True, help_text="Sent as X-A2A-Notification-Token.")
    scheme = models.CharField(max_length=64, blank=True, help_text="Of the Authorization header.")
    credentials = EncryptedTextField(blank=True)
    version = models.CharField(max_length=3, default="1.0", help_text="The version of A2A in which it is called.")
    created_at = models.DateTimeField(default=timezone.now)
    due_at = models.DateTimeField(null=True, blank=True, help_text="When the first in the queue is to be tried.")

    objects = PushConfigQuerySet.as_manager()

    class Meta:
        verbose_name = "webhook"
        constraints = [models.UniqueConstraint(fields=["task", "config_id"], name="config_id_is_unique_in_its_task")]
        indexes = [
            models.Index(fields=["due_at"], condition=models.Q(due_at__isnull=False), name="due_webhooks"),
            models.Index(fields=["-created_at", "-id"], name="webhooks_by_age"),
        ]

    def __str__(self) -> str:
        return self.config_id


class Delivery(models.Model):
    """One event for a webhook."""

    class State(models.TextChoices):
        WAITING = "waiting"
        DELIVERED = "delivered"
        DEAD = "dead", "given up"

    config = models.ForeignKey(PushConfig, on_delete=models.CASCADE, related_name="deliveries")
    event_index = models.PositiveBigIntegerField(help_text="Of the event in the context's log.")
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    attempts = models.PositiveIntegerField(default=0)
    last_status = models.PositiveSmallIntegerField(null=True, blank=True, help_text="HTTP status of the last answer.")
    last_error = models.CharField(max_length=500, blank=True, help_text="Why there was no answer.")
    created_at = models.DateTimeField(default=timezone.now)
    queued_at = models.DateTimeField(default=timezone.now, help_text="Since when it is tried.")
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [models.UniqueConstraint(fields=["config", "event_index"], name="an_event_is_told_once")]
        indexes = [
            models.Index(
                fields=["config", "event_index"], condition=models.Q(state="waiting"), name="waiting_deliveries"
            ),
            models.Index(fields=["-id"], condition=models.Q(state="dead"), name="dead_deliveries"),
        ]

    def __str__(self) -> str:
        return f"event {self.event_index}"
