"""Budgets that pay by themselves: the person's own, those of the workspace, and what they paid lately."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import F, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from apps.accounts.permissions import Permission, Role
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.features.payments.models import BudgetPayment, BudgetPaymentQuerySet, PaymentBudget, check_agents
from apps.web.settings.account import saved
from apps.web.settings.sections import person_of, private_view, settings_page
from db.sql import write_transaction

MOST_BUDGETS = 20  # of a person, or of a workspace
MOST_SHOWN = 50  # payments, the newest
READ_ONLY = "Your role in this workspace does not permit this. Ask its owner."


def may_change(principal: Principal, budget: PaymentBudget) -> bool:
    """Their own, if they may send; the workspace's, if they own it."""
    if budget.owner_id is None:
        return principal.role == Role.OWNER
    return budget.owner_id == principal.user_id and principal.can(Permission.SEND)


class BudgetForm(forms.ModelForm):  # type: ignore[type-arg]
    """A stored secret is never shown. Names of PAYMENT_WALLETS are for operators, in admin."""

    secret = forms.CharField(
        label="Secret of the wallet",
        required=False,
        max_length=1000,
        help_text="Sent as a bearer token.",
        widget=forms.PasswordInput({"autocomplete": "off"}),
    )
    is_for_all = forms.BooleanField(
        label="For everybody in this workspace", required=False, help_text="Otherwise it pays for your own tasks."
    )

    class Meta:
        model = PaymentBudget
        fields = (
            *("name", "is_on", "network", "asset", "payment_limit", "period_limit", "period"),
            *("only_named", "agents", "wallet"),
        )
        widgets = {"period": forms.RadioSelect, "agents": forms.CheckboxSelectMultiple}

    def __init__(self, principal: Principal, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.principal = principal
        self.stored_wallet, self.stored_secret = self.instance.wallet, self.instance.secret
        visible = Q(pk__in=Agent.objects.visible_to(principal).values("pk"))
        chosen = Q(pk__in=self.instance.agents.values("pk") if self.instance.pk else ())  # retired ones, too
        self.fields["agents"].queryset = Agent.objects.filter(visible | chosen).order_by("name")  # type: ignore[attr-defined]
        if self.instance.pk or principal.role != Role.OWNER:
            del self.fields["is_for_all"]
        if self.stored_secret:
            self.fields["secret"].help_text = "One is stored. Type another to replace it."

    def clean_wallet(self) -> str:
        wallet = str(self.cleaned_data["wallet"])
        if "://" not in wallet and wallet != self.stored_wallet:
            raise ValidationError("Write the URL of a wallet service.")
        return wallet

    def clean_secret(self) -> str:
        """A stored secret goes only to the wallet that it was given for."""
        is_same = self.cleaned_data.get("wallet") == self.stored_wallet
        return str(self.cleaned_data["secret"] or (self.stored_secret if is_same else ""))

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        check_agents(cleaned)
        if not self.instance.pk:
            self.instance.workspace_id = self.principal.workspace_id
            self.instance.owner_id = None if cleaned.get("is_for_all") else self.principal.user_id
            same = {"workspace": self.instance.workspace_id, "owner": self.instance.owner_id}
            if PaymentBudget.objects.filter(**same).count() >= MOST_BUDGETS:
                raise ValidationError(f"There are {MOST_BUDGETS} budgets already. Change or delete one.")
        return cleaned


@private_view
def payments(request: HttpRequest) -> HttpResponse:
    """The budgets, and what they paid for the person's tasks."""
    principal = person_of(request).principal
    rows = PaymentBudget.objects.visible_to(principal).order_by(F("owner").asc(nulls_last=True), "name", "pk")
    budgets = [(one, may_change(principal, one)) for one in rows.prefetch_related("agents")]
    return settings_page(request, "payments", budgets=budgets, paid=_paid(principal), may_add=_may_add(principal))


def _paid(principal: Principal) -> BudgetPaymentQuerySet:
    newest = BudgetPayment.objects.visible_to(principal).select_related("budget", "agent").order_by("-created_at")
    return newest[:MOST_SHOWN]


def _may_add(principal: Principal) -> bool:
    return principal.can(Permission.SEND)


@private_view
def add(request: HttpRequest) -> HttpResponse:
    if not _may_add(person_of(request).principal):
        raise PermissionDenied(READ_ONLY)
    return _form_page(request, PaymentBudget())


@private_view
def change(request: HttpRequest, number: int) -> HttpResponse:
    return _form_page(request, _own(request, number))


@private_view
def delete(request: HttpRequest, number: int) -> HttpResponse:
    """What its wallet has signed already is still paid; what it has only reserved is not."""
    budget = _own(request, number)
    if request.method != "POST":
        return redirect("web:settings-payment-budget", number)
    with write_transaction():
        admin.site.get_model_admin(PaymentBudget).log_deletions(request, PaymentBudget.objects.filter(pk=budget.pk))
        budget.delete()
    return saved(request, "payments", f"The budget “{budget.name}” is deleted.")


def _own(request: HttpRequest, number: int) -> PaymentBudget:
    """Raises NotFound, PermissionDenied."""
    principal = person_of(request).principal
    budget = PaymentBudget.objects.find(principal, number)
    if not may_change(principal, budget):
        raise PermissionDenied(READ_ONLY)
    return budget


def _form_page(request: HttpRequest, budget: PaymentBudget) -> HttpResponse:
    data, is_new = request.POST if request.method == "POST" else None, not budget.pk
    form = BudgetForm(person_of(request).principal, data, instance=budget)
    if data is not None and form.is_valid():
        form.instance.secret = form.cleaned_data["secret"]
        noted = admin.site.get_model_admin(PaymentBudget)
        with write_transaction():
            row = form.save(commit=False)
            row.save_terms()
            form.save_m2m()
            if is_new:
                noted.log_addition(request, row, [{"added": {}}])
            else:
                noted.log_change(request, row, [{"changed": {"fields": form.changed_data}}])
        return saved(request, "payments", f"The budget “{row.name}” is saved.")
    about = {"form": form, "budget": budget, "section_title": f"Change {budget.name}" if budget.pk else "New budget"}
    return settings_page(request, "payments", form, template="web/settings_payment_budget.html", **about)
