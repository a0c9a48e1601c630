"""People make budgets that pay: their own, and owners those of their workspace; others do not see or change them."""

from __future__ import annotations

import pytest
from django.db.models.signals import pre_save
from django.test import Client

from apps.payments.models import PaymentBudget
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


def test_secret_is_for_its_wallet_alone(ada, ada_browser, echo):
    assert made(ada_browser, is_for_all="on").owner is None
    budget = made(ada_browser, only_named="on", agents=str(echo.pk))
    assert (budget.owner, list(budget.agents.all()), budget.secret) == (ada, [echo], "sealed-token")
    assert "sealed-token" not in ada_browser.get(address_of(budget)).text
    for wallet, secret in ((FIELDS["wallet"], "sealed-token"), ("https://thief.example/sign", "")):
        assert ada_browser.post(address_of(budget), FIELDS | {"wallet": wallet, "new_secret": ""}).status_code == 302
        budget.refresh_from_db()
        assert budget.secret == secret


@pytest.fixture
def reserving():
    """Something is reserved after a page has read a budget, and before it saves it."""

    def reserve(instance: PaymentBudget, **_: object) -> None:
        instance.reserve(1)

    pre_save.connect(reserve, PaymentBudget)
    yield
    pre_save.disconnect(reserve, PaymentBudget)


@pytest.mark.usefixtures("reserving")
def test_saving_keeps_what_is_reserved_meanwhile(ada, ada_browser, admin_client):
    budget = made(ada_browser)
    admin = {"new_secret": "", "workspace": budget.workspace_id, "owner": ada.pk}
    assert ada_browser.post(address_of(budget), FIELDS).status_code == 302
    budget.refresh_from_db()
    assert budget.spent_now == 1
    assert admin_client.post(f"/admin/payments/paymentbudget/{budget.pk}/change/", FIELDS | admin).status_code == 302
    budget.refresh_from_db()
    assert budget.spent_now == 2


def test_contradictory_budgets_are_refused(ada_browser, echo, settings):
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
