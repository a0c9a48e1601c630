"""What remote agents may still be at on our behalf, so that they are told when it is not wanted any more."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.record.lifecycle import UNFINISHED
from apps.record.models import Task


class OpenWorkQuerySet(models.QuerySet["OpenWork"]):
    def unwanted(self) -> OpenWorkQuerySet:
        """Of tasks that have ended here, or are gone, and what was given up."""
        goes_on = Exists(Task.objects.filter(pk=OuterRef("task"), state__in=UNFINISHED))
        return self.filter(Q(is_unwanted=True) | ~goes_on)


class OpenWork(models.Model):
    """A task of a remote agent that has not ended there as far as we know. Execution state, no part of replay."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    owner = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    # Plain ids: the remote task is canceled when ours is deleted, too.
    task = models.UUIDField(help_text="The task here that it is for.")
    run = models.UUIDField()
    remote_task = models.TextField()
    is_unwanted = models.BooleanField("unwanted", default=False, help_text="Given up, though our task may go on.")
    tries = models.PositiveSmallIntegerField(default=0, help_text="How often a cancel was sent.")
    next_try_at = models.DateTimeField(default=timezone.now)
    began_at = models.DateTimeField(default=timezone.now)

    objects: ClassVar[OpenWorkQuerySet] = OpenWorkQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name_plural = "open work"
        indexes = [
            models.Index(fields=["task"], name="open_work_of_a_task"),
            models.Index(fields=["next_try_at"], name="open_work_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.task} at {self.agent}"
