"""Comparisons, and their sides: each is a branch of a session."""

from __future__ import annotations

import uuid
from typing import Self

from django.conf import settings
from django.db import models
from django.utils import timezone

from apps.accounts.models import Workspace
from apps.accounts.principals import Principal
from apps.accounts.visibility import OwnedQuerySet
from apps.agents.models import Agent, AgentVersion
from apps.record.models import Context


class ComparisonQuerySet(OwnedQuerySet["Comparison"]):
    def visible_to(self, principal: Principal) -> Self:
        """Those whose agents the credential reaches, all of them."""
        own = super().visible_to(principal)
        if principal.agents is None:
            return own
        others = Side.objects.exclude(agent__slug__in=principal.agents)
        return own.exclude(models.Exists(others.filter(comparison=models.OuterRef("pk"))))


class Comparison(models.Model):
    """One message to several answerers, and which answer its owner chose."""

    class Choice(models.TextChoices):
        OPEN = "", "not chosen yet"
        ONE = "one", "one is better"
        BOTH = "both", "all are good"
        NEITHER = "neither", "none is good"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="comparisons")
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="comparisons")
    session = models.ForeignKey(Context, on_delete=models.CASCADE, related_name="comparisons")
    digest = models.CharField(max_length=64, editable=False, help_text="SHA-256 of what was asked for.")
    blind = models.BooleanField(default=False, help_text="Whether names were hidden until the choice.")
    choice = models.CharField(max_length=7, choices=Choice, default=Choice.OPEN, blank=True)
    chosen_at = models.DateTimeField("chosen", null=True)
    created_at = models.DateTimeField("created", default=timezone.now, editable=False)

    objects = ComparisonQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["owner", "workspace", "-created_at"], name="comparisons_of_a_person")]

    def __str__(self) -> str:
        return f"{self.session} ({self.get_choice_display()})"

    @property
    def hides_names(self) -> bool:
        return self.blind and not self.choice


class Side(models.Model):
    """An answerer. `position`: its place on the page, from 1. `message_id`: of the compared message in its branch."""

    comparison = models.ForeignKey(Comparison, on_delete=models.CASCADE, related_name="sides")
    position = models.PositiveSmallIntegerField()
    session = models.ForeignKey(Context, on_delete=models.CASCADE, related_name="+")
    message_id = models.CharField(max_length=200)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="compared")
    version = models.ForeignKey(AgentVersion, null=True, on_delete=models.SET_NULL, related_name="+")  # that answers
    model = models.CharField(max_length=200, blank=True, help_text="The language model that was chosen for it.")
    is_chosen = models.BooleanField(default=False)

    class Meta:
        ordering = ["comparison", "position"]
        constraints = [
            models.UniqueConstraint(fields=["comparison", "position"], name="one_side_at_a_place"),
            models.UniqueConstraint(
                fields=["comparison"], condition=models.Q(is_chosen=True), name="one_chosen_side_of_a_comparison"
            ),
        ]
        indexes = [models.Index(fields=["agent", "version"], name="compared_versions")]

    def __str__(self) -> str:
        return f"Answer {self.letter}"

    @property
    def letter(self) -> str:
        return chr(ord("A") + self.position - 1)

    @property
    def label(self) -> str:
        """Who answers: the agent, its version, and the model that was chosen for it."""
        version = f", version {self.version.number}" if self.version else ""
        return f"{self.agent.name}{version}{f', {self.model}' if self.model else ''}"
