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
from apps.features.payments import paying
from apps.features.payments.models import BudgetPayment, PaymentBudget
from apps.record.models import Task
from tests.engine.facilitating import PRICE
from tests.web import telling

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
    "secret": "sealed-token",
}
NEW = "/settings/payments/new"


def made(browser: Client, **changed: str) -> PaymentBudget:
    assert browser.post(NEW, FIELDS | changed).status_code == 302
    return PaymentBudget.objects.latest("pk")


def address_of(budget: PaymentBudget) -> str:
    return f"/settings/payments/{budget.pk}"


def test_person_makes_and_changes_a_budget(ada: User, ada_browser: Client, echo: Agent) -> None:
    budget = made(ada_browser, only_named="on", agents=str(echo.pk))
    assert (budget.owner, budget.workspace_id, budget.secret) == (ada, ada.principal.workspace_id, "sealed-token")
    assert list(budget.agents.all()) == [echo]
    assert "Answers" in ada_browser.get("/settings/payments").text
    assert "sealed-token" not in ada_browser.get(address_of(budget)).text
    changed = FIELDS | {"period_limit": "30000", "secret": ""}
    assert ada_browser.post(address_of(budget), changed).status_code == 302
    budget.refresh_from_db()
    assert (budget.period_limit, budget.secret) == (30_000, "sealed-token")
    assert ada_browser.post(f"{address_of(budget)}/delete").status_code == 302
    assert not PaymentBudget.objects.exists()
    assert AuditEntry.objects.filter(object_type="payments.paymentbudget").count() == 3


def test_saving_keeps_retired_agents_named(ada_browser: Client, echo: Agent) -> None:
    budget = made(ada_browser, only_named="on", agents=str(echo.pk))
    Agent.objects.filter(pk=echo.pk).update(is_enabled=False)
    named = {"only_named": "on", "agents": str(echo.pk)}
    assert ada_browser.post(address_of(budget), FIELDS | named).status_code == 302
    assert list(budget.agents.all()) == [echo]


def test_all_agents_and_named_ones_are_refused(ada_browser: Client, echo: Agent) -> None:
    assert ada_browser.post(NEW, FIELDS | {"agents": str(echo.pk)}).status_code == 422


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


def test_secret_is_for_its_wallet_alone(ada_browser: Client) -> None:
    budget = made(ada_browser)
    moved = FIELDS | {"wallet": "https://thief.example/sign", "secret": ""}
    assert ada_browser.post(address_of(budget), moved).status_code == 302
    budget.refresh_from_db()
    assert budget.secret == ""


@pytest.mark.parametrize(
    "wrong",
    [
        {"payment_limit": "30000"},
        {"payment_limit": "0"},
        {"wallet": "treasury"},
        {"wallet": "ftp://wallet.example"},
        {"period_limit": "much"},
    ],
)
def test_contradictory_budgets_are_refused(ada_browser: Client, settings, wrong: dict[str, str]) -> None:
    settings.PAYMENT_WALLETS = {"treasury": "https://wallet.example"}
    assert ada_browser.post(NEW, FIELDS | wrong).status_code == 422
    assert not PaymentBudget.objects.exists()


def test_others_do_not_see_a_budget(ada_browser: Client, bob_browser: Client) -> None:
    budget = made(ada_browser)
    for address in (address_of(budget), f"{address_of(budget)}/delete"):
        assert bob_browser.post(address, FIELDS).status_code == 404
    assert "Answers" not in bob_browser.get("/settings/payments").text


def test_owner_makes_one_for_everybody(ada_browser: Client) -> None:
    assert made(ada_browser, is_for_all="on").owner is None


def test_question_says_why_nothing_pays(ada: User, ada_browser: Client, echo: Agent) -> None:
    made(ada_browser, payment_limit="9999")
    asked = PaymentRequired("It costs one cent.", **PRICE)
    price = requirements(asked)
    task = Task.objects.get(pk=telling.asked(ada, echo, {"name": "payment", "payment": price}).task)
    paying.consider(task, task.status_event, [price])
    entries = ada_browser.get(f"/sessions/{task.context_id}").context["page_state"]["entries"]
    [form] = [entry["form"] for entry in entries if "form" in entry]
    for page in (form, ada_browser.get("/inbox").text, ada_browser.get("/settings/payments").text):
        assert "more than its 9999" in page


def test_operators_see_payments_and_budgets(ada_browser: Client, admin_client: Client, ada: User) -> None:
    budget = made(ada_browser)
    BudgetPayment.objects.create(budget=budget, owner=ada, task=uuid.uuid4(), asked=1, amount="10000")
    for address in ("payments/paymentbudget/", f"payments/paymentbudget/{budget.pk}/change/", "record/payment/"):
        assert admin_client.get(f"/admin/{address}").status_code == 200
    admin = {"new_secret": "", "wallet": "https://wallet.example/sign", "workspace": budget.workspace_id}
    changed = FIELDS | admin | {"owner": ada.pk, "payment_limit": "1"}
    assert admin_client.post(f"/admin/payments/paymentbudget/{budget.pk}/change/", changed).status_code == 302
    budget.refresh_from_db()
    assert (budget.payment_limit, budget.secret) == (1, "sealed-token")
    shown = admin_client.get("/admin/payments/budgetpayment/")
    assert b"10000" in shown.content
    assert admin_client.get("/admin/record/payment/add/").status_code == 403
