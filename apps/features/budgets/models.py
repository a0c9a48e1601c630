"""Spending, budgets, and the notices that were sent about them."""

from __future__ import annotations

import datetime

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Coalesce
from django.utils import timezone

from apps.accounts.models import Workspace
from apps.accounts.principals import Principal
from apps.agents.models import Agent

NOTICE_SHARE = 0.8  # of a limit, at which its first notice is sent


def first_of_month(day: datetime.date | None = None) -> datetime.date:
    """In UTC."""
    return (day or timezone.now().astimezone(datetime.UTC).date()).replace(day=1)


class SpendingQuerySet(models.QuerySet["Spending"]):
    def visible_to(self, principal: Principal) -> SpendingQuerySet:
        return self.filter(workspace=principal.workspace_id) if principal.is_known else self.none()


class Spending(models.Model):
    """What one run used of one model. It stays when the session is deleted: the month's sum must not change."""

    run = models.UUIDField(editable=False)
    model = models.CharField(max_length=200)
    month = models.DateField(help_text="Its first day, in UTC.")
    at = models.DateTimeField(default=timezone.now)
    workspace = models.ForeignKey(Workspace, null=True, on_delete=models.SET_NULL, related_name="+")
    agent = models.ForeignKey(Agent, null=True, on_delete=models.SET_NULL, related_name="+")
    context = models.UUIDField("session", help_text="Its key. The session may be gone.")
    requests = models.BigIntegerField(default=0)
    input_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    cost = models.FloatField(default=0.0, help_text="0 where the model has no price.")

    objects = SpendingQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "spending"
        constraints = [models.UniqueConstraint(fields=["run", "model"], name="spending_of_a_run_is_unique")]
        indexes = [
            models.Index(fields=["month", "workspace", "agent", "cost"], name="spending_of_a_month"),
            models.Index(fields=["context"], name="spending_of_a_session"),
        ]

    def __str__(self) -> str:
        return f"{self.cost:.4g} for {self.model}"


class Budget(models.Model):
    """Limits of what may be spent in a month: by a workspace, by an agent, by both together, or in all."""

    workspace = models.ForeignKey(
        Workspace, null=True, blank=True, on_delete=models.CASCADE, related_name="+", help_text="Empty: all workspaces."
    )
    agent = models.ForeignKey(
        Agent, null=True, blank=True, on_delete=models.CASCADE, related_name="+", help_text="Empty: all agents."
    )
    soft_limit = models.FloatField(
        null=True,
        blank=True,
        validators=[MinValueValidator(0.0)],
        help_text="Above it operators get a notice. Nothing is refused.",
    )
    hard_limit = models.FloatField(
        null=True,
        blank=True,
        validators=[MinValueValidator(0.0)],
        help_text="Above it language models are not called until the next month. A notice is sent at 80 %.",
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                Coalesce("workspace", 0),
                Coalesce("agent", 0),
                name="budget_is_unique",
                violation_error_message="There is a budget for this already. Change that one.",
            ),
            models.CheckConstraint(
                condition=Q(soft_limit__isnull=False) | Q(hard_limit__isnull=False),
                name="budget_has_a_limit",
                violation_error_message="Give at least one limit.",
            ),
            models.CheckConstraint(
                condition=Q(soft_limit=None) | Q(hard_limit=None) | Q(soft_limit__lte=F("hard_limit")),
                name="soft_limit_is_below_hard_limit",
                violation_error_message="The soft limit must not be above the hard limit.",
            ),
        ]

    def __str__(self) -> str:
        names = [str(one) for one in (self.agent, self.workspace) if one is not None]
        return " in ".join(names) or "Everything"

    @property
    def thresholds(self) -> list[tuple[BudgetNotice.Level, float]]:
        """The amounts at which notices are sent."""
        hard, soft = self.hard_limit, self.soft_limit
        found = (
            [(BudgetNotice.Level.NEAR, NOTICE_SHARE * hard), (BudgetNotice.Level.HARD, hard)]
            if hard is not None
            else []
        )
        return found if soft is None else [(BudgetNotice.Level.SOFT, soft), *found]


class BudgetNotice(models.Model):
    """A notice that was sent: once per budget, level and month."""

    class Level(models.TextChoices):
        NEAR = "near", "80 % of the hard limit"
        SOFT = "soft", "the soft limit"
        HARD = "hard", "the hard limit"

    budget = models.ForeignKey(Budget, on_delete=models.CASCADE, related_name="notices")
    month = models.DateField()
    level = models.CharField(max_length=4, choices=Level)
    limit = models.FloatField(help_text="As it was then: a raised limit gives a new notice.")
    spent = models.FloatField()
    at = models.DateTimeField(default=timezone.now)
    sent_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["budget", "month", "level", "limit"], name="budget_notice_is_unique")
        ]

    def __str__(self) -> str:
        return f"{self.budget}: {self.get_level_display()} reached"
