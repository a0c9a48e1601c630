"""What regular checks of remote agents found: how each stands, the newest checks, and their numbers by the hour."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from apps.agents.models import Agent

Result = int | None
"""What a round of checks came to: the milliseconds that it took, None where it failed."""


class Checkup(models.Model):
    """How an agent is checked, and how it stands. Whoever moves `next_check_at` on has the round to itself."""

    agent = models.OneToOneField(Agent, on_delete=models.CASCADE, primary_key=True, related_name="checkup")
    probe = models.TextField(
        blank=True,
        help_text="A message that the agent is sent now and then, to see that it answers; empty: none. "
        "The agent may charge for each.",
    )
    next_check_at = models.DateTimeField(default=timezone.now, editable=False)
    next_probe_at = models.DateTimeField(default=timezone.now, editable=False)
    checked_at = models.DateTimeField(null=True, editable=False)
    newest: models.JSONField[list[Result], list[Result]] = models.JSONField(
        default=list, editable=False, help_text="Milliseconds of the newest rounds, the newest last; null: it failed."
    )
    answers = models.BooleanField(
        default=True, editable=False, help_text="Did it answer at all, the last time that a check failed?"
    )
    last_error = models.TextField(blank=True, editable=False)
    last_error_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        verbose_name = "checkup"
        indexes = [models.Index(fields=["next_check_at"], name="due_checkups")]

    def __str__(self) -> str:
        return f"checkup of {self.agent_id}"


class CheckQuerySet(models.QuerySet["Check"]):
    def of(self, agent: Agent) -> CheckQuerySet:
        """The newest first."""
        return self.filter(agent=agent).order_by("-at")


class Check(models.Model):
    """One look at an agent. It is kept for two days (`checking.KEPT`); after that its hour says what is left of it."""

    class Kind(models.TextChoices):
        CARD = "card", "fetched its card"
        ADDRESS = "address", "called its address"
        PROBE = "probe", "sent it a message"

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="checks")
    at = models.DateTimeField()
    kind = models.CharField(max_length=10, choices=Kind)
    ok = models.BooleanField()
    milliseconds = models.PositiveIntegerField(help_text="Until it was answered, or given up.")
    error = models.TextField(blank=True)

    objects = CheckQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["agent", "-at"], name="checks_of_an_agent")]

    def __str__(self) -> str:
        return f"{self.kind} at {self.at:%Y-%m-%d %H:%M:%S}"


class CheckedHour(models.Model):
    """How many rounds of checks an agent had in one hour, and how many of them failed: uptime is the sum of these."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="checked_hours")
    hour = models.DateTimeField()
    rounds = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "hour"], name="an_hour_of_an_agent_is_one_row")]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H}:00"
