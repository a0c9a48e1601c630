"""What people say about budgets that pay: who may change which, its form, and its acts. Each change is in the audit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import F

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User
from apps.accounts.people.erasure import Remains
from apps.accounts.permissions import Permission, Role
from apps.accounts.principals import Principal
from apps.accounts.resources import Act, Resource
from apps.payments.models import BudgetPayment, PaymentBudget
from apps.record.errors import UnsupportedOperation
from parley.db.sql import write_transaction

MOST_BUDGETS = 20  # of a person, or of a workspace
READ_ONLY = "Your role in this workspace does not permit this. Ask its owner."


class TooManyBudgets(UnsupportedOperation):
    __doc__ = f"There are {MOST_BUDGETS} budgets already. Change or delete one."


class TermsForm(forms.ModelForm):  # type: ignore[type-arg]
    """The terms of a budget. Its stored secret is never shown, and goes only to the wallet that it was given for."""

    new_secret = forms.CharField(
        label="Secret of the wallet",
        required=False,
        max_length=1000,
        help_text="Sent as a bearer token.",
        widget=forms.PasswordInput({"autocomplete": "off"}),
    )

    def __init__(self, *data: Any, **options: Any) -> None:
        super().__init__(*data, **options)
        if self.instance.secret and "new_secret" in self.fields:
            self.fields["new_secret"].help_text = "One is stored. Type another to replace it."

    def clean_new_secret(self) -> str:
        is_same = self.cleaned_data.get("wallet") == self.instance.wallet
        return str(self.cleaned_data["new_secret"] or (self.instance.secret if is_same else ""))

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or self.cleaned_data
        if given.get("agents") and not given.get("only_named"):
            raise ValidationError({"only_named": "Check this, or choose no agents: then all are paid."})
        self.instance.secret = given.get("new_secret", "")
        return given


def may_change(principal: Principal, budget: PaymentBudget) -> bool:
    """Their own, if they may send; the workspace's, if they own it."""
    if budget.owner_id is None:
        return principal.role == Role.OWNER
    return budget.owner_id == principal.user_id and principal.can(Permission.SEND)


def check_may_change(principal: Principal, budget: PaymentBudget) -> None:
    """Raises PermissionDenied."""
    if not may_change(principal, budget):
        raise PermissionDenied(READ_ONLY)


def save(principal: Principal, budget: PaymentBudget) -> PaymentBudget:
    """Save a new or a changed budget. Raises PermissionDenied, TooManyBudgets."""
    check_may_change(principal, budget)
    with write_transaction():
        if budget._state.adding:
            same = PaymentBudget.objects.filter(workspace=budget.workspace_id, owner=budget.owner_id)
            if same.count() >= MOST_BUDGETS:
                raise TooManyBudgets
            budget.save_terms()
            audit.record(AuditAction.ADMIN_CREATED, actor=principal, object=budget)
        else:
            changed = budget.changed_terms()
            budget.save_terms()
            audit.record(AuditAction.ADMIN_CHANGED, actor=principal, object=budget, details={"fields": changed})
    return budget


def _delete(budget: PaymentBudget, principal: Principal) -> PaymentBudget:
    """What its wallet has signed already is still paid; what it has only reserved is not."""
    check_may_change(principal, budget)
    with write_transaction():
        audit.record(AuditAction.ADMIN_DELETED, actor=principal, object=budget)
        budget.delete()
    return budget


DELETE = Act[PaymentBudget](
    "delete",
    "Delete",
    _delete,
    "Delete a budget",
    "What its wallet has signed already is still paid.",
    lambda budget: f"The budget “{budget.name}” is deleted.",
    permission=Permission.READ,
    is_grave=True,
)
BUDGETS = Resource(
    "payments",
    "budget",
    PaymentBudget,
    save,
    (DELETE,),
    order=(F("owner").asc(nulls_last=True), "name", "pk"),
    permission=Permission.READ,
)


def remains_of(person: User) -> Iterator[Remains]:
    """See `account_remains`."""
    if paid := BudgetPayment.objects.filter(owner=person).count():
        yield Remains("Payments", paid, "with their receipts and the account's number. They show what was paid.")
