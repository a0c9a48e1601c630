"""People make budgets that pay: their own, and owners those of their workspace; others do not see or change them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from django.db.models.signals import pre_save
from django.test import Client

from agentkit import PaymentRequired
from apps.accounts.audit_models import AuditEntry
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.engine.payments import requirements
from apps.payments import paying
from apps.payments.models import BudgetPayment, PaymentBudget
from apps.record.models import Task
from tests.clients import telling
from tests.payments.facilitating import PRICE

pytestmark = pytest.mark.django_db(transaction=True)
FIELDS = {
    "name": "Answers",
    "is_on": "on",
    "network": PRICE["network"],
    "asset": PRICE["asset"],
    "payment_limit": "10000",
    "period_limit": "20000",
    "period": "day",
    "wallet": "https://wallet.example/sign",
    "new_secret": "sealed-token",
}
NEW = "/settings/payments/new"


def made(browser: Client, **changed: str) -> PaymentBudget:
    assert browser.post(NEW, FIELDS | changed).status_code == 302
    return PaymentBudget.objects.latest("pk")


def address_of(budget: PaymentBudget) -> str:
    return f"/settings/payments/{budget.pk}"


def test_secret_is_for_its_wallet_alone(ada: User, ada_browser: Client, echo: Agent) -> None:
    assert made(ada_browser, is_for_all="on").owner is None
    budget = made(ada_browser, only_named="on", agents=str(echo.pk))
    assert (budget.owner, list(budget.agents.all()), budget.secret) == (ada, [echo], "sealed-token")
    assert "sealed-token" not in ada_browser.get(address_of(budget)).text
    for wallet, secret in ((FIELDS["wallet"], "sealed-token"), ("https://thief.example/sign", "")):
        assert ada_browser.post(address_of(budget), FIELDS | {"wallet": wallet, "new_secret": ""}).status_code == 302
        budget.refresh_from_db()
        assert budget.secret == secret


def test_audit_names_agents_and_retired_ones_stay(ada_browser: Client, echo: Agent) -> None:
    budget = made(ada_browser)
    named = {"only_named": "on", "agents": str(echo.pk), "new_secret": ""}
    for _ in range(2):
        assert ada_browser.post(address_of(budget), FIELDS | named).status_code == 302
        Agent.objects.filter(pk=echo.pk).update(is_enabled=False)
    changes = AuditEntry.objects.filter(action="admin.changed").order_by("pk")
    assert [entry.details["fields"] for entry in changes] == [["only_named", "agents"], []]
    assert list(budget.agents.all()) == [echo]


@pytest.fixture
def reserving() -> Iterator[None]:
    """Something is reserved after a page has read a budget, and before it saves it."""

    def reserve(instance: PaymentBudget, **_: object) -> None:
        instance.reserve(1)

    pre_save.connect(reserve, PaymentBudget)
    yield
    pre_save.disconnect(reserve, PaymentBudget)


@pytest.mark.usefixtures("reserving")
def test_saving_keeps_what_is_reserved_meanwhile(ada: User, ada_browser: Client, admin_client: Client) -> None:
    budget = made(ada_browser)
    admin = {"new_secret": "", "workspace": budget.workspace_id, "owner": ada.pk}
    assert ada_browser.post(address_of(budget), FIELDS).status_code == 302
    budget.refresh_from_db()
    assert budget.spent_now == 1
    assert admin_client.post(f"/admin/payments/paymentbudget/{budget.pk}/change/", FIELDS | admin).status_code == 302
    budget.refresh_from_db()
    assert budget.spent_now == 2


def test_contradictory_budgets_are_refused(ada_browser: Client, echo: Agent, settings) -> None:
    settings.PAYMENT_WALLETS = {"treasury": "https://wallet.example"}
    for wrong in (
        {"payment_limit": "30000"},
        {"payment_limit": "0"},
        {"wallet": "treasury"},
        {"wallet": "ftp://wallet.example"},
        {"period_limit": "much"},
        {"agents": str(echo.pk)},  # for all and for named ones
    ):
        assert ada_browser.post(NEW, FIELDS | wrong).status_code == 422, wrong
    assert not PaymentBudget.objects.exists()


def test_question_says_why_nothing_pays(ada: User, ada_browser: Client, echo: Agent) -> None:
    made(ada_browser, payment_limit="9999")
    price = requirements(PaymentRequired("It costs one cent.", **PRICE))
    task = Task.objects.get(pk=telling.asked(ada, echo, {"name": "payment", "payment": price}).task)
    paying.consider(task, task.status_event, [price])
    for page in (f"/sessions/{task.context_id}", "/inbox", "/settings/payments"):
        assert "more than its 9999" in ada_browser.get(page).text, page


def test_operators_see_payments_and_budgets(ada_browser: Client, admin_client: Client, ada: User) -> None:
    budget = made(ada_browser)
    BudgetPayment.objects.create(budget=budget, owner=ada, task=uuid.uuid4(), asked=1, amount="10000")
    address = f"/admin/payments/paymentbudget/{budget.pk}/change/"
    for page in ("/admin/payments/paymentbudget/", address, "/admin/record/payment/"):
        assert admin_client.get(page).status_code == 200
    changed = FIELDS | {"new_secret": "", "workspace": budget.workspace_id, "owner": ada.pk, "payment_limit": "1"}
    assert admin_client.post(address, changed).status_code == 302
    budget.refresh_from_db()
    assert (budget.payment_limit, budget.secret) == (1, "sealed-token")
    assert b"10000" in admin_client.get("/admin/payments/budgetpayment/").content
    assert admin_client.get("/admin/record/payment/add/").status_code == 403
