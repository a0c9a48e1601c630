"""Limits that operators set for one workspace, API key or agent."""

from __future__ import annotations

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

from apps.accounts.models import ApiKey, Workspace
from apps.agents.models import Agent


class Kind(models.TextChoices):
    """What is limited: the fields of `Limit`. The label completes "It may have …"."""

    REQUESTS = "requests_per_minute", "requests in a minute"
    RUNNING = "running_runs", "runs at work"
    QUEUED = "queued_runs", "runs in the queue"
    STREAMS = "open_streams", "open streams"
    STORAGE = "storage_bytes", "bytes in files"


class Whose(models.TextChoices):
    """The fields of `Limit` that say whose it is."""

    WORKSPACE = "workspace", "workspace"
    KEY = "api_key", "API key"
    AGENT = "agent", "agent"


class Limit(models.Model):
    """The limits of a workspace, an API key or an agent. All that apply count, so the tightest is in force."""

    class Priority(models.IntegerChoices):
        """Those of `record.execution.Run` that one may ask for."""

        HIGH = 1
        NORMAL = 2
        LOW = 3

    workspace = models.OneToOneField(Workspace, null=True, blank=True, on_delete=models.CASCADE, related_name="limit")
    api_key = models.OneToOneField(ApiKey, null=True, blank=True, on_delete=models.CASCADE, related_name="limit")
    agent = models.OneToOneField(Agent, null=True, blank=True, on_delete=models.CASCADE, related_name="limit")
    requests_per_minute = models.PositiveIntegerField(
        null=True, blank=True, help_text="By A2A and the client API; of an agent: messages to it. Beyond: refused."
    )
    running_runs = models.PositiveIntegerField(
        "runs at work",
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Further runs wait in the queue.",
    )
    queued_runs = models.PositiveIntegerField(
        "runs in the queue", null=True, blank=True, help_text="Further messages that start tasks are refused."
    )
    open_streams = models.PositiveIntegerField(
        null=True, blank=True, help_text="At the same time in one web process. Further ones are refused."
    )
    storage_bytes = models.PositiveBigIntegerField(
        "bytes in files", null=True, blank=True, help_text="Files over 256 KiB. Further ones are refused."
    )
    priority = models.PositiveSmallIntegerField(
        null=True, blank=True, choices=Priority, help_text="Of runs whose message asks for none. Empty: normal."
    )
    noticed_at = models.DateTimeField(null=True, editable=False, help_text="When 80 % of the storage was reported.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(workspace__isnull=False, api_key=None, agent=None)
                | Q(workspace=None, api_key__isnull=False, agent=None)
                | Q(workspace=None, api_key=None, agent__isnull=False),
                name="a_limit_is_of_one",
                violation_error_message="Choose one workspace, one API key or one agent.",
            ),
            models.CheckConstraint(
                condition=Q(storage_bytes=None) | Q(workspace__isnull=False),
                name="storage_is_of_a_workspace",
                violation_error_message="Files belong to workspaces. Set their bytes for a workspace.",
            ),
        ]

    @property
    def whose(self) -> Whose:
        return next(one for one in Whose if getattr(self, f"{one.value}_id"))

    @property
    def holder(self) -> Workspace | ApiKey | Agent:
        """Whom it limits."""
        found: Workspace | ApiKey | Agent = getattr(self, self.whose.value)
        return found

    def __str__(self) -> str:
        return f"Limits of {self.workspace or self.api_key or self.agent}"
