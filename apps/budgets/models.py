"""Spending, budgets, and the notices that were sent about them."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Coalesce
from django.utils import timezone

from apps.accounts.models import ApiKey, Workspace
from apps.accounts.principals import Principal
from apps.accounts.visibility import VisibleQuerySet
from apps.agents.models import Agent
from apps.record.execution import MAX_LANE
from parley.faces.cells import money

NOTICE_SHARE = 0.8  # of a limit, at which its first notice is sent


def first_of_month(day: datetime.date | None = None) -> datetime.date:
    """In UTC."""
    return (day or timezone.now().astimezone(datetime.UTC).date()).replace(day=1)


class SpendingQuerySet(VisibleQuerySet["Spending"]):
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
    # A text, as in the run's lane: it stays when the key is deleted.
    key = models.CharField(
        "API key",
        max_length=MAX_LANE,
        blank=True,
        default="",
        db_default="",
        help_text="The public name of the key, or of the OAuth client, that sent the task.",
    )
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
            models.Index(
                fields=["month", "workspace", "agent", "key", "cost", "input_tokens", "output_tokens"],
                name="spending_in_a_month",
            ),
            models.Index(fields=["context"], name="spending_of_a_session"),
        ]

    def __str__(self) -> str:
        return f"{money(self.cost)} for {self.model}"


class Measure(models.TextChoices):
    """What a budget limits."""

    COST = "cost_per_month", "cost"
    TOKENS = "tokens_per_month", "tokens"

    def text(self, amount: float) -> str:
        """An amount for people."""
        return f"{amount:,.0f}" if self is Measure.TOKENS else money(amount)


class Budget(models.Model):
    """Limits of what may be spent in a month: by a workspace or an API key, by an agent, by both, or in all."""

    workspace = models.ForeignKey(
        Workspace, null=True, blank=True, on_delete=models.CASCADE, related_name="+", help_text="Empty: all workspaces."
    )
    agent = models.ForeignKey(
        Agent, null=True, blank=True, on_delete=models.CASCADE, related_name="+", help_text="Empty: all agents."
    )
    api_key = models.ForeignKey(
        ApiKey,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="+",
        verbose_name="API key",
        help_text="Empty: all keys, and people.",
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
    token_limit = models.PositiveBigIntegerField(
        null=True,
        blank=True,
        help_text="Tokens, in and out. Beyond it, as beyond the hard limit. A notice is sent at 80 %.",
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                Coalesce("workspace", 0),
                Coalesce("agent", 0),
                Coalesce("api_key", 0),
                name="budget_is_unique",
                violation_error_message="There is a budget for this already. Change that one.",
            ),
            models.CheckConstraint(
                condition=Q(soft_limit__isnull=False) | Q(hard_limit__isnull=False) | Q(token_limit__isnull=False),
                name="budget_has_a_limit",
                violation_error_message="Give at least one limit.",
            ),
            models.CheckConstraint(
                condition=Q(soft_limit=None) | Q(hard_limit=None) | Q(soft_limit__lte=F("hard_limit")),
                name="soft_limit_is_below_hard_limit",
                violation_error_message="The soft limit must not be above the hard limit.",
            ),
            models.CheckConstraint(
                condition=Q(workspace=None) | Q(api_key=None),
                name="budget_of_a_key_is_of_its_workspace",
                violation_error_message="A key belongs to one workspace. Leave the workspace empty.",
            ),
        ]

    def __str__(self) -> str:
        names = [str(one) for one in (self.agent, self.workspace or self.api_key) if one is not None]
        return (" in " if self.workspace else " by ").join(names) or "Everything"

    @property
    def key(self) -> str | None:
        """The public name of its API key."""
        return None if self.api_key is None else str(self.api_key)

    @property
    def limits(self) -> dict[Measure, float]:
        """Those above which models are not called."""
        found = {Measure.COST: self.hard_limit, Measure.TOKENS: self.token_limit}
        return {measure: limit for measure, limit in found.items() if limit is not None}

    @property
    def thresholds(self) -> Iterator[tuple[BudgetNotice.Level, float]]:
        """The amounts at which notices are sent."""
        level = BudgetNotice.Level
        if self.soft_limit is not None:
            yield level.SOFT, self.soft_limit
        if self.hard_limit is not None:
            yield from [(level.NEAR, NOTICE_SHARE * self.hard_limit), (level.HARD, self.hard_limit)]
        if self.token_limit is not None:
            yield from [(level.TOKENS_NEAR, NOTICE_SHARE * self.token_limit), (level.TOKENS, self.token_limit)]


class BudgetNotice(models.Model):
    """A notice that was sent: once per budget, level and month."""

    class Level(models.TextChoices):
        NEAR = "near", "80 % of the hard limit"
        SOFT = "soft", "the soft limit"
        HARD = "hard", "the hard limit"
        TOKENS_NEAR = "tokens_near", "80 % of the token limit"
        TOKENS = "tokens", "the token limit"

        @property
        def measure(self) -> Measure:
            return Measure.TOKENS if self in (self.TOKENS_NEAR, self.TOKENS) else Measure.COST

        @property
        def is_final(self) -> bool:
            """Are models not called any more?"""
            return self in (self.HARD, self.TOKENS)

    budget = models.ForeignKey(Budget, on_delete=models.CASCADE, related_name="notices")
    month = models.DateField()
    level = models.CharField(max_length=11, choices=Level)
    limit = models.FloatField(help_text="As it was then: a raised limit gives a new notice.")
    spent = models.FloatField(help_text="The cost, or the tokens.")
    at = models.DateTimeField(default=timezone.now)
    sent_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["budget", "month", "level", "limit"], name="budget_notice_is_unique")
        ]

    def __str__(self) -> str:
        return f"{self.budget}: {self.get_level_display()} reached"
