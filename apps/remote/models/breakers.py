"""The circuit breakers of remote agents: rows that all processes share (`apps.remote.breaker`)."""

from __future__ import annotations

import datetime

from django.db import models
from django.utils import timezone

from apps.agents.models import Agent


class Breaker(models.Model):
    """What is remembered of an agent whose calls fail. An agent without a row, or without failures, is called."""

    class State(models.TextChoices):
        CLOSED = "closed", "closed: calls go through"
        OPEN = "open", "open: no call goes through"
        HALF_OPEN = "half-open", "half-open: one call may try"

    agent = models.OneToOneField(Agent, on_delete=models.CASCADE, primary_key=True, related_name="breaker")
    failures = models.PositiveIntegerField(default=0, help_text="Calls in a row that failed.")
    failing_since = models.DateTimeField(null=True)
    opened_at = models.DateTimeField(null=True)
    openings = models.PositiveIntegerField(default=0, help_text="How often it was opened with no success in between.")
    retry_at = models.DateTimeField(
        null=True, help_text="When the next call may try. Whoever moves it on is that call."
    )
    trial_at = models.DateTimeField(null=True, help_text="When the newest trial began.")
    error = models.TextField(blank=True)

    def __str__(self) -> str:
        return f"breaker of {self.agent_id}"

    @property
    def state(self) -> State:
        return self.state_at(timezone.now())

    def state_at(self, now: datetime.datetime) -> State:
        if self.opened_at is None or self.retry_at is None:
            return Breaker.State.CLOSED
        return Breaker.State.OPEN if now < self.retry_at and self.trial_at is None else Breaker.State.HALF_OPEN
