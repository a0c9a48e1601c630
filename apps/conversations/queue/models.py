from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.db import models
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.models import User
from apps.agents.models import AgentVersion
from apps.record.execution import MAX_LANE
from apps.record.models import UNFINISHED_STATES, Context, Task, TaskState

HELD_AFTER = (TaskState.FAILED, TaskState.REJECTED, TaskState.CANCELED)
"""The states of a task after which the person decides what is sent next."""


class QueuedMessageQuerySet(models.QuerySet["QueuedMessage"]):
    def free(self) -> QueuedMessageQuerySet:
        """Messages that no process is sending."""
        return self.filter(models.Q(claimed_until=None) | models.Q(claimed_until__lt=Now()))

    def due(self) -> QueuedMessageQuerySet:
        """Messages of sessions that wait for none, where no message has a problem, and the owner is active."""
        beside = {"context": models.OuterRef("context")}
        tasks = Task.objects.filter(**beside)
        newest = tasks.order_by("-created_at", "-pk").values("state")[:1]
        stuck = QueuedMessage.objects.filter(**beside).exclude(problem="")
        return (
            self.filter(context__cold_file="", context__deleted_at=None, owner__is_active=True)
            .annotate(newest=models.Subquery(newest))
            .filter(
                ~models.Exists(tasks.filter(state__in=UNFINISHED_STATES))
                | models.Q(is_answer=True, newest=TaskState.INPUT_REQUIRED),
                ~models.Exists(stuck),
            )
            .exclude(newest__in=HELD_AFTER)
        )


class WaitingManager(models.Manager["QueuedMessage"]):
    """Leaves out deleted messages. `is_being_sent` uses the database's clock."""

    def get_queryset(self) -> QueuedMessageQuerySet:
        found = QueuedMessageQuerySet(self.model, using=self._db).filter(removed_at=None)
        claimed = {"is_being_sent": models.Q(claimed_until__isnull=False, claimed_until__gt=Now())}
        return found.annotate(**claimed)

    def all(self) -> QueuedMessageQuerySet:
        return self.get_queryset()

    def free(self) -> QueuedMessageQuerySet:
        return self.get_queryset().free()


class QueuedMessage(models.Model):
    """A message to be sent when the agent is done. Not part of replay. Content in files is counted as used.

    Deleted messages stay for a while, so that deletion can be undone: `objects` leaves them out, `everything` has them.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    context = models.ForeignKey(Context, on_delete=models.CASCADE, db_index=False, related_name="queued")
    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    message_id = models.CharField(max_length=200, help_text="Under which it is sent, however often.")
    message = models.JSONField(help_text="A2A parts, referenceTaskIds, metadata.")
    api_key = models.CharField(
        "API key",
        max_length=MAX_LANE,
        blank=True,
        default="",
        db_default="",
        help_text="The public name of the key that queued it: the task counts for the key's limits.",
    )
    is_answer = models.BooleanField(
        default=False, db_default=False, help_text="Of a rerun: to the agent's question. It goes away if none comes."
    )
    version = models.ForeignKey(
        AgentVersion,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        db_index=False,
        related_name="+",
        help_text="Of a rerun: that the agent uses. Empty: the current one.",
    )
    problem = models.TextField(blank=True, help_text="Why it could not be sent, for people.")
    claimed_until = models.DateTimeField(null=True, blank=True, help_text="Until when somebody is sending it.")
    queued_at = models.DateTimeField(default=timezone.now)
    removed_at = models.DateTimeField(null=True, blank=True, help_text="When its owner deleted it.")

    is_being_sent: bool  # set by `objects`

    objects: ClassVar[WaitingManager] = WaitingManager()
    everything = QueuedMessageQuerySet.as_manager()

    class Meta:
        ordering = ["queued_at", "pk"]
        constraints = [models.UniqueConstraint(fields=["context", "message_id"], name="a_message_is_queued_once")]
        indexes = [models.Index(fields=["context", "queued_at", "id"], name="queue_of_a_context")]

    def __str__(self) -> str:
        return self.message_id

    @property
    def parts(self) -> list[dict[str, Any]]:
        return list(self.message["parts"])
