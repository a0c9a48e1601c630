"""Admin pages of payments, and of budgets that pay by themselves."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from apps.operators import columns
from apps.payments.budgets import TermsForm
from apps.payments.models import BudgetPayment, PaymentBudget
from apps.record.execution import Payment
from apps.record.models import Task
from parley.faces import cells
from parley.faces.admin import ConsoleAdmin, MenuItem, ReadOnlyAdmin, column, key_cell, related_cell
from parley.faces.cells import Tone

transaction = column("transaction", lambda row: cells.shortened(str((row.receipt or {}).get("transaction", "")), 20))


@admin.register(Payment)
class PaymentAdmin(ReadOnlyAdmin):
    """What was paid for tasks. What payers signed is never shown."""

    menu = MenuItem("Cost", 6, "paid")
    tones = {
        Payment.State.UNKNOWN: Tone.WAITING,
        Payment.State.SETTLED: Tone.WORKING,
        Payment.State.USED: Tone.DONE,
        Payment.State.SENT: Tone.DONE,
        Payment.State.FAILED: Tone.FAILED,
    }
    list_display = (columns.created, "state", "amount", "asset", "network", "pay_to", transaction, columns.task)
    list_filter = ("state", "network")
    ordering = ("-id",)
    search_fields = ("asset", "network", "pay_to", "authorization")
    search_help_text = "A task's id, an asset, a network, an address, or the digest of what was signed"
    id_lookups = ("task",)
    deferred = ("sealed",)


@admin.register(PaymentBudget)
class PaymentBudgetAdmin(ConsoleAdmin):
    """Here alone a budget can name a wallet of PAYMENT_WALLETS."""

    menu = MenuItem("Cost", 4, "account_balance_wallet")
    form = TermsForm
    spent = column("spent", lambda row: row.spent_now)
    list_display = ("name", "is_on", related_cell("workspace"), columns.owner, spent, "period_limit", "period", "asset")
    list_filter = ("is_on", "network")
    search_fields = ("name", "workspace__name", "asset")
    select_related = ("workspace", "owner")
    autocomplete_fields = ("workspace", "owner", "agents")
    fields = (
        "name", "is_on", "workspace", "owner", "network", "asset", "payment_limit", "period_limit", "period",
        "only_named", "agents", "wallet", "new_secret",
    )  # fmt: skip

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        obj.save_terms()


@admin.register(BudgetPayment)
class BudgetPaymentAdmin(ReadOnlyAdmin):
    menu = MenuItem("Cost", 5, "receipt_long", "Paid by budgets")
    tones = {
        BudgetPayment.State.DUE: Tone.WORKING,
        BudgetPayment.State.PAID: Tone.DONE,
        BudgetPayment.State.UNKNOWN: Tone.WAITING,
        BudgetPayment.State.FAILED: Tone.FAILED,
        BudgetPayment.State.DECLINED: Tone.STOPPED,
    }
    task = key_cell(Task, "task", "task")
    why = column("reason", lambda row: cells.shortened(row.reason))
    list_display = (columns.created, "state", "amount", "budget", "agent", "owner", transaction, why, task)
    list_filter = ("state",)
    ordering = ("-created_at",)
    search_fields = ("budget__name", "agent__slug", "authorization")
    search_help_text = "A budget, an agent's slug, a task's id, or the digest of what was signed"
    id_lookups = ("pk", "task")
    select_related = ("budget", "agent", "owner")
    deferred = ("sealed",)
