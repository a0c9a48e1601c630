"""Rollouts: which version new sessions try."""

from __future__ import annotations

import uuid
from typing import Any

from django.apps import apps
from django.core.validators import MaxValueValidator
from django.db import models
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.accounts.visibility import VisibleQuerySet


class RolloutQuerySet(VisibleQuerySet["Rollout"]):
    def visible_to(self, principal: Principal) -> RolloutQuerySet:
        """Those of agents whose versions the caller may see."""
        agents: Any = apps.get_model("agents", "Agent").objects
        return self.filter(agent__in=agents.with_versions_for(principal))


class Rollout(models.Model):
    """A version of an agent that a part of its new sessions gets. `Agent.rollout` is the one under way."""

    class Outcome(models.TextChoices):
        UNDER_WAY = "under_way", "under way"
        PROMOTED = "promoted", "promoted: all sessions get it"
        ABANDONED = "abandoned", "abandoned: no session gets it"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey("agents.Agent", on_delete=models.CASCADE, related_name="rollouts")
    candidate = models.ForeignKey("agents.AgentVersion", on_delete=models.CASCADE, related_name="rollouts")
    percent = models.PositiveSmallIntegerField(
        "percent",
        validators=[MaxValueValidator(100)],
        help_text="Of new sessions: 0 to 100. Sessions keep what they got.",
    )
    outcome = models.CharField(max_length=9, choices=Outcome, default=Outcome.UNDER_WAY, editable=False)
    started_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+", editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    ended_at = models.DateTimeField(null=True, editable=False)

    objects = RolloutQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["agent"], condition=models.Q(outcome="under_way"), name="an_agent_has_one_rollout_at_a_time"
            )
        ]

    def __str__(self) -> str:
        return f"{self.candidate} for {self.percent} %"

    @property
    def is_under_way(self) -> bool:
        return self.outcome == Rollout.Outcome.UNDER_WAY
