"""Budgets that pay by themselves: the person's own, those of the workspace, and what they paid lately."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Q
from django.http import HttpRequest, HttpResponse

from apps.accounts.models import User
from apps.accounts.pages.account import saved
from apps.accounts.permissions import Permission, Role
from apps.agents.models import Agent
from apps.payments.budgets import BUDGETS, READ_ONLY, TermsForm, check_may_change, may_change
from apps.payments.models import BudgetPayment, PaymentBudget
from apps.web.resources import ResourceForm
from apps.web.settings.resources import SectionPages
from apps.web.settings.sections import person_of, settings_page

MOST_SHOWN = 50  # payments, the newest


class BudgetForm(TermsForm, ResourceForm):
    """Names of PAYMENT_WALLETS are for operators, in admin."""

    is_for_all = forms.BooleanField(
        label="For everybody in this workspace", required=False, help_text="Otherwise it pays for your own tasks."
    )

    class Meta:
        model = PaymentBudget
        fields = (
            "name", "is_on", "network", "asset", "payment_limit", "period_limit", "period", "only_named", "agents",
            "wallet",
        )  # fmt: skip
        widgets = {"period": forms.RadioSelect, "agents": forms.CheckboxSelectMultiple}

    def __init__(self, user: User, *data: Any, **options: Any) -> None:
        super().__init__(user, *data, **options)
        principal = user.principal
        chosen = Q(pk__in=self.instance.agents.values("pk") if self.instance.pk else ())  # retired ones, too
        visible = Q(pk__in=Agent.objects.visible_to(principal).values("pk"))
        agents: Any = self.fields["agents"]
        agents.queryset = Agent.objects.filter(visible | chosen).order_by("name")
        if self.instance.pk or principal.role != Role.OWNER:
            del self.fields["is_for_all"]

    def clean_wallet(self) -> str:
        wallet = str(self.cleaned_data["wallet"])
        if "://" not in wallet and wallet != self.instance.wallet:
            raise ValidationError("Write the URL of a wallet service.")
        return wallet

    def clean(self) -> dict[str, Any]:
        given = super().clean()
        self.instance.chosen_agents = given.get("agents", ())
        if not self.instance.pk:
            self.instance.workspace_id = self.user.principal.workspace_id
            self.instance.owner_id = None if given.get("is_for_all") else self.user.pk
        return given


class BudgetPages(SectionPages[PaymentBudget]):
    def list(self, request: HttpRequest) -> HttpResponse:
        """The budgets, and what they paid for the person's tasks."""
        principal = person_of(request).principal
        rows = self.resource.visible_to(principal).prefetch_related("agents")
        paid = BudgetPayment.objects.visible_to(principal).select_related("budget", "agent").order_by("-created_at")
        return settings_page(
            request,
            self.section,
            budgets=[(one, may_change(principal, one)) for one in rows],
            paid=paid[:MOST_SHOWN],
            may_add=principal.can(Permission.SEND),
        )

    def edit(self, request: HttpRequest, **key: Any) -> HttpResponse:
        principal = person_of(request).principal
        if key:
            check_may_change(principal, self.find(request, **key))
        elif not principal.can(Permission.SEND):
            raise PermissionDenied(READ_ONLY)
        return super().edit(request, **key)

    def saved(self, request: HttpRequest, row: PaymentBudget, *, is_new: bool) -> HttpResponse:
        return saved(request, self.section, f"The budget “{row.name}” is saved.")


pages = BudgetPages(BUDGETS, BudgetForm, section="payments")
urlpatterns = pages.urls()
