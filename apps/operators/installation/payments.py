"""Admin pages of payments, and of budgets that pay by themselves."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest

from apps.features.payments.models import BudgetPayment, PaymentBudget, check_agents
from apps.operators import columns
from apps.record.execution import Payment
from apps.record.models import Task
from console import cells
from console.admin import ConsoleAdmin, ReadOnlyAdmin, column, key_cell, related_cell, state_cell, time_cell
from console.cells import Tone

PAYMENT_TONES = {
    Payment.State.UNKNOWN: Tone.WAITING,
    Payment.State.SETTLED: Tone.WORKING,
    Payment.State.USED: Tone.DONE,
    Payment.State.SENT: Tone.DONE,
    Payment.State.FAILED: Tone.FAILED,
}
BUDGET_TONES = {
    BudgetPayment.State.DUE: Tone.WORKING,
    BudgetPayment.State.PAID: Tone.DONE,
    BudgetPayment.State.UNKNOWN: Tone.WAITING,
    BudgetPayment.State.FAILED: Tone.FAILED,
    BudgetPayment.State.DECLINED: Tone.STOPPED,
}
transaction = column("transaction", lambda row: cells.shortened(str((row.receipt or {}).get("transaction", "")), 20))


@admin.register(Payment)
class PaymentAdmin(ReadOnlyAdmin):
    """What was paid for tasks. What payers signed is never shown."""

    state = state_cell("state", PAYMENT_TONES)
    list_display = (time_cell("created_at"), state, "amount", "asset", "network", "pay_to", transaction, columns.task)
    list_filter = ("state", "network")
    ordering = ("-id",)
    search_fields = ("asset", "network", "pay_to", "authorization")
    search_help_text = "A task's id, an asset, a network, an address, or the digest of what was signed"
    id_lookups = ("task",)
    deferred = ("sealed",)


class PaymentBudgetForm(forms.ModelForm):  # type: ignore[type-arg]
    new_secret = forms.CharField(
        label="Secret of the wallet",
        required=False,
        max_length=1000,
        help_text="Sent as a bearer token. Empty: as it was.",
        widget=forms.PasswordInput({"autocomplete": "off"}),
    )

    class Meta:
        model = PaymentBudget
        fields = (
            *("name", "is_on", "workspace", "owner", "network", "asset", "payment_limit", "period_limit", "period"),
            *("only_named", "agents", "wallet"),
        )

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        check_agents(cleaned)
        return cleaned


@admin.register(PaymentBudget)
class PaymentBudgetAdmin(ConsoleAdmin):
    """Here alone a budget can name a wallet of PAYMENT_WALLETS."""

    form = PaymentBudgetForm
    spent = column("spent", lambda row: row.spent_now)
    list_display = ("name", "is_on", related_cell("workspace"), columns.owner, spent, "period_limit", "period", "asset")
    list_filter = ("is_on", "network")
    search_fields = ("name", "workspace__name", "asset")
    select_related = ("workspace", "owner")
    autocomplete_fields = ("workspace", "owner", "agents")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if given := form.cleaned_data.get("new_secret"):
            obj.secret = given
        elif "wallet" in form.changed_data:
            obj.secret = ""  # it was for another wallet
        obj.save_terms()


@admin.register(BudgetPayment)
class BudgetPaymentAdmin(ReadOnlyAdmin):
    state = state_cell("state", BUDGET_TONES)
    paid_task = key_cell(Task, "task", "task")
    why = column("reason", lambda row: cells.shortened(row.reason))
    list_display = (
        *(time_cell("created_at"), state, "amount", related_cell("budget"), columns.agent, columns.owner),
        *(transaction, why, paid_task),
    )
    list_filter = ("state",)
    ordering = ("-created_at",)
    search_fields = ("budget__name", "agent__slug", "authorization")
    search_help_text = "A budget, an agent's slug, a task's id, or the digest of what was signed"
    id_lookups = ("pk", "task")
    select_related = ("budget", "agent", "owner")
    deferred = ("sealed",)
