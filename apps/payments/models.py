"""Budgets for payments by x402, and what they paid."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Collection

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from apps.accounts.models import User, Workspace
from apps.accounts.principals import Principal
from apps.accounts.secrets.encryption import EncryptedTextField
from apps.accounts.visibility import OwnedQuerySet, VisibleQuerySet
from apps.agents.models import Agent
from apps.record.events import JSON
from apps.record.execution import MAX_ADDRESS, MAX_AMOUNT
from apps.record.models import Task
from parley import outbound
from parley.outbound import targets
from parley.work import Retried, RetriedQuerySet

UNREADABLE = "it cannot read what is asked"


def check_wallet(wallet: str) -> None:
    """Raises ValidationError unless it is a URL, or one of PAYMENT_WALLETS."""
    if wallet in settings.PAYMENT_WALLETS:
        return
    if "://" not in wallet:
        raise ValidationError("Write the URL of a wallet service, or a name in PAYMENT_WALLETS.")
    try:
        targets.parse_url(wallet)
    except outbound.Forbidden as problem:
        raise ValidationError(str(problem)) from None


class PaymentBudgetQuerySet(VisibleQuerySet["PaymentBudget"]):
    def visible_to(self, principal: Principal) -> PaymentBudgetQuerySet:
        """The person's own, and those for everybody in their workspace."""
        if not principal.is_known:
            return self.none()
        return self.filter(Q(owner=principal.user_id) | Q(owner=None), workspace=principal.workspace_id)

    def for_task(self, task: Task) -> PaymentBudgetQuerySet:
        """Those that may pay for it, the person's own first."""
        whose = Q(owner=task.owner_id) | Q(owner=None)
        rows = self.filter(whose, workspace=task.workspace_id, is_on=True)
        return rows.order_by(F("owner").asc(nulls_last=True), "pk")


class PaymentBudget(models.Model):
    """What may be paid without asking, for the tasks of a person or of everybody in a workspace."""

    class Period(models.TextChoices):
        DAY = "day"
        MONTH = "month"

        @property
        def began(self) -> datetime.date:
            """The first day of the current period, in UTC."""
            today = timezone.now().astimezone(datetime.UTC).date()
            return today if self is self.DAY else today.replace(day=1)

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="+")
    owner = models.ForeignKey(
        User,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="+",
        help_text="Whose tasks it pays for. Empty: those of everybody in the workspace.",
    )
    name = models.CharField(max_length=80)
    is_on = models.BooleanField("on", default=True, help_text="Off: people pay themselves.")
    network = models.CharField(max_length=MAX_ADDRESS, help_text="As x402 names it, such as base.")
    asset = models.CharField(max_length=MAX_ADDRESS, help_text="The token’s address on the network.")
    payment_limit = models.PositiveBigIntegerField(
        "most for one payment",
        validators=[MinValueValidator(1)],
        help_text="In the asset’s smallest unit: 10000 is 0.01 USDC.",
    )
    period_limit = models.PositiveBigIntegerField(
        "most in a period", validators=[MinValueValidator(1)], help_text="Also in the smallest unit."
    )
    period = models.CharField(max_length=5, choices=Period, default=Period.DAY, help_text="Periods begin in UTC.")
    only_named = models.BooleanField(
        "only the agents chosen below", default=False, help_text="Off: all agents are paid."
    )
    agents = models.ManyToManyField(Agent, blank=True, related_name="+")
    wallet = models.CharField(
        max_length=500,
        validators=[check_wallet],
        help_text="The URL of a service that signs payments. Parley has no keys of its own.",
    )
    secret = EncryptedTextField(blank=True, help_text="Sent to the wallet as a bearer token.")
    spent = models.PositiveBigIntegerField(default=0, editable=False)
    period_began = models.DateField(default=datetime.date.min, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = PaymentBudgetQuerySet.as_manager()
    chosen_agents: Collection[Agent] | None = None
    """The `agents` that `save_terms` stores. None: they stay."""

    class Meta:
        ordering = ["name", "pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(payment_limit__lte=F("period_limit")),
                name="a_payment_fits_into_its_period",
                violation_error_message="One payment must not be more than all in a period.",
            )
        ]

    def __str__(self) -> str:
        return self.name

    def is_for(self, agent: int) -> bool:
        """Does it pay this agent? A query if it is for named agents."""
        return not self.only_named or self.agents.filter(pk=agent).exists()

    def save_terms(self) -> None:
        """Save what people change, and leave alone what is reserved meanwhile. Call it in a transaction."""
        self.save(update_fields=self._terms if self.pk else None)
        if self.chosen_agents is not None:
            self.agents.set(self.chosen_agents)

    def changed_terms(self) -> list[str]:
        """The names of fields that are not as they are stored."""
        stored = PaymentBudget.objects.get(pk=self.pk)
        changed = [name for name in self._terms if getattr(stored, name) != getattr(self, name)]
        if self.chosen_agents is not None and set(self.chosen_agents) != set(stored.agents.all()):
            changed.append("agents")
        return changed

    @property
    def _terms(self) -> list[str]:
        kept = {"id", "spent", "period_began"}
        return [field.attname for field in self._meta.concrete_fields if field.name not in kept]

    @property
    def spent_now(self) -> int:
        """In the current period."""
        return self.spent if self.period_began >= self.Period(self.period).began else 0

    @property
    def left(self) -> int:
        """What it may still pay in the current period."""
        return max(0, self.period_limit - self.spent_now)

    def refusal(self, choice: JSON) -> str:
        """Why it does not pay a choice of what an agent asks; "" if it may."""
        amount = amount_of(choice)
        told = [str(choice.get(name, "")).casefold() for name in ("network", "asset")]
        if told != [self.network.casefold(), self.asset.casefold()]:
            return "it is for another asset or network"
        if amount is None or choice.get("scheme") != "exact" or not choice.get("payTo"):
            return UNREADABLE
        if amount > self.payment_limit:
            return f"{amount} is more than its {self.payment_limit} for one payment"
        if amount > self.left:
            return f"only {self.left} of its {self.period_limit} for this {self.period} are left"
        return ""

    def reserve(self, amount: int) -> datetime.date | None:
        """Take an amount from what is left. Returns when its period began.

        None if others were faster, or if the budget was changed meanwhile. Call it in a transaction.
        """
        rows, began = PaymentBudget.objects.filter(pk=self.pk, is_on=True), self.Period(self.period).began
        rows.filter(period_began__lt=began).update(period_began=began, spent=0)
        fits = rows.filter(period_began__gte=began, payment_limit__gte=amount, spent__lte=F("period_limit") - amount)
        is_reserved = fits.update(spent=F("spent") + amount)
        return rows.values_list("period_began", flat=True).first() if is_reserved else None

    def give_back(self, amount: int, period_began: datetime.date) -> None:
        """Undo `reserve`, in the period in which it was."""
        rows = PaymentBudget.objects.filter(pk=self.pk, period_began=period_began, spent__gte=amount)
        rows.update(spent=F("spent") - amount)


def amount_of(choice: JSON) -> int | None:
    """The amount of one of x402's `accepts`; None if it is no positive whole number."""
    text = choice.get("maxAmountRequired")
    is_whole = isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) <= MAX_AMOUNT
    return int(text) or None if isinstance(text, str) and is_whole else None


class BudgetPaymentQuerySet(OwnedQuerySet["BudgetPayment"], RetriedQuerySet["BudgetPayment"]):  # type: ignore[override]  # `as_manager` of two
    def unfinished(self) -> BudgetPaymentQuerySet:
        return self.filter(state=BudgetPayment.State.DUE)


class BudgetPayment(Retried):
    """What a budget pays, or why none does: once for each question. It stays when the session is deleted.

    `sealed` is what the wallet signed, encrypted, until the payment is made.
    """

    class State(models.TextChoices):
        DUE = "due", "being paid"
        PAID = "paid"
        UNKNOWN = "unknown", "perhaps paid"
        FAILED = "failed", "not paid"
        DECLINED = "declined", "left to people"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    budget = models.ForeignKey(PaymentBudget, null=True, on_delete=models.SET_NULL, related_name="payments")
    workspace = models.ForeignKey(Workspace, null=True, on_delete=models.SET_NULL, related_name="+")
    owner = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    agent = models.ForeignKey(Agent, null=True, on_delete=models.SET_NULL, related_name="+")
    task = models.UUIDField(help_text="Its key. The session may be gone.")
    asked = models.PositiveIntegerField(help_text="The index of the event that asked for it.")
    requirements = models.JSONField(default=dict, help_text="What is paid, as one of x402's `accepts`.")
    amount = models.CharField(max_length=MAX_AMOUNT, help_text="In the asset's smallest unit.")
    period_began = models.DateField(null=True, help_text="Of the budget, when it was reserved.")
    state = models.CharField(max_length=8, choices=State, default=State.DUE)
    reason = models.CharField(max_length=1000, blank=True, help_text="Why it was not paid.")
    authorization = models.CharField(max_length=64, blank=True, help_text="Digest of what the wallet signed.")
    sealed = EncryptedTextField(null=True)
    receipt = models.JSONField(null=True)
    created_at = models.DateTimeField(default=timezone.now)

    objects = BudgetPaymentQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        constraints = [models.UniqueConstraint(fields=["task", "asked"], name="a_budget_pays_a_question_once")]
        indexes = [
            models.Index(fields=["next_try_at"], condition=Q(state="due"), name="due_budget_payments"),
            models.Index(fields=["owner", "-created_at"], name="budget_payments_of_a_person"),
        ]

    def __str__(self) -> str:
        return f"{self.amount} for {self.task}: {self.get_state_display()}"
