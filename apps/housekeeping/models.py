"""Rows of live processes and of periodic jobs, which only processes write."""

from __future__ import annotations

import datetime
from typing import Any

from django.db import models
from django.db.models.functions import Now

from apps.accounts.models import User

SEEN_WITHIN = datetime.timedelta(seconds=45)  # four heartbeats


class ServerProcesses(models.QuerySet["ServerProcess"]):
    def seen(self) -> ServerProcesses:
        """Those with a heartbeat in the last SEEN_WITHIN, by the database's clock."""
        return self.filter(seen_at__gt=Now() - SEEN_WITHIN)


class ServerProcess(models.Model):
    """A Celery worker or beat. Embedded, one process is both, with a row for each.

    `busy` runs take a slot of `capacity`; `waiting` ones have released theirs, as those of remote agents do.
    """

    class Kind(models.TextChoices):
        WORKER = "worker", "Worker"
        BEAT = "beat", "Beat"

    kind = models.CharField(max_length=10, choices=Kind)
    host = models.CharField(max_length=255)
    pid = models.PositiveBigIntegerField("process id")
    version = models.CharField(max_length=50)
    started_at = models.DateTimeField("started")
    seen_at = models.DateTimeField("last heartbeat")
    busy = models.PositiveIntegerField(default=0)
    waiting = models.PositiveIntegerField(default=0)
    capacity = models.PositiveIntegerField(default=0)
    due: models.JSONField[Any] = models.JSONField(default=dict, blank=True, help_text="Beat's next times by job.")

    objects = ServerProcesses.as_manager()

    class Meta:
        verbose_name_plural = "processes"
        default_permissions = ("view",)
        constraints = [models.UniqueConstraint(fields=["kind", "host", "pid"], name="one_row_of_a_process")]

    def __str__(self) -> str:
        return f"{self.kind} {self.host}:{self.pid}"


class PeriodicJob(models.Model):
    """The last run of one of the `periodic_jobs`. Frequent jobs write about twice a minute."""

    name = models.CharField(max_length=100, primary_key=True)
    started_at = models.DateTimeField("last run", null=True)
    seconds = models.FloatField("duration in seconds", null=True)
    has_failed = models.BooleanField("failed", default=False)
    result = models.CharField(max_length=200, blank=True)
    failures = models.PositiveBigIntegerField(default=0)
    failed_at = models.DateTimeField("last failure", null=True)
    problem = models.TextField("problem of the last failure", blank=True)
    asked_at = models.DateTimeField("asked for", null=True, help_text="While a run is to come.")
    asked_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")

    class Meta:
        ordering = ["name"]
        default_permissions = ("view", "change")

    def __str__(self) -> str:
        return self.name


class Backups(models.QuerySet["Backup"]):
    def complete(self) -> Backups:
        return self.filter(state=Backup.State.COMPLETE)


class Backup(models.Model):
    """An attempt to back up this installation. Backups leave these rows out: a restored installation has made none."""

    class State(models.TextChoices):
        RUNNING = "running", "Running"
        COMPLETE = "complete", "Complete"
        FAILED = "failed", "Failed"

    place = models.CharField(max_length=500, help_text="A folder, or an address such as s3://bucket/folder.")
    name = models.CharField("file", max_length=255)
    state = models.CharField(max_length=10, choices=State, default=State.RUNNING)
    started_at = models.DateTimeField("started")
    ended_at = models.DateTimeField("ended", null=True)
    bytes = models.PositiveBigIntegerField("size in bytes", default=0)
    is_encrypted = models.BooleanField("encrypted", default=False)
    problem = models.TextField(blank=True, help_text="Why it failed.")

    objects = Backups.as_manager()

    class Meta:
        ordering = ["-started_at", "-pk"]
        default_permissions = ("view",)
        indexes = [models.Index("state", models.F("started_at").desc(), name="newest_backup_by_state")]

    def __str__(self) -> str:
        return self.name
