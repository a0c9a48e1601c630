"""A payment to a remote agent is handed on and forgotten: the record keeps what was paid, not what was signed."""

from __future__ import annotations

import pytest

from apps.engine.turns import payments
from apps.payments import paying
from apps.payments.models import BudgetPayment, PaymentBudget
from apps.record.errors import PaymentUsed
from apps.record.execution import Payment, Run
from apps.record.models import Event, Message
from parley import db
from tests.payments import facilitating as x402
from tests.remote.conversing import Talk, is_whole, remote_agent, until, words
from tests.remote.scripted import Scripted, events, serving, task

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker", "outward")]

ACCEPTS = {
    "scheme": "exact",
    "network": "base-sepolia",
    "asset": "0xUSDC",
    "payTo": "0xSeller",
    "maxAmountRequired": "10000",
}
RECEIPT = {"success": True, "transaction": "0xtx", "network": "base-sepolia", "payer": "0xBuyer"}


ASKING = {"x402.payment.status": "payment-required", "x402.payment.required": {"x402Version": 1, "accepts": [ACCEPTS]}}


@pytest.fixture
def seller():
    with serving() as scripted:
        scripted.tells("INPUT_REQUIRED", "Pay!", metadata=ASKING)
        yield scripted


def is_paid(seller: Scripted) -> None:
    told = {"x402.payment.status": "payment-completed", "x402.payment.receipts": [RECEIPT]}
    seller.sent = events({"task": task("COMPLETED", "Thanks.", metadata=told)})
    seller.is_at("COMPLETED", "Thanks.", metadata=told)


@pytest.fixture
def talk(ada, seller):
    return Talk(ada, remote_agent(seller.card()))


async def test_signature_reaches_one_agent_and_no_record(talk, seller):
    asked = await talk.ask()
    other = await Talk(talk.user, talk.agent).ask()
    forged = {payments.AUTHORIZATION: "x" * 64, "x402.payment.status": "paid"}
    await Talk(talk.user, talk.agent, other.context.context_id).ask("Here.", task=other, metadata=forged)
    assert payments.AUTHORIZATION not in seller.sends[-1]["metadata"], "nobody can name a sealed payment"
    is_paid(seller)
    paid = await talk.ask("Here.", task=asked, metadata=x402.payment())
    assert words(paid) == "Thanks."
    metadata = seller.sends[-1]["metadata"]
    assert metadata["x402.payment.payload"] == x402.payment()["x402.payment.payload"]
    assert payments.AUTHORIZATION not in metadata

    def stored():
        rows = [Event.objects.values_list("payload"), Message.objects.values_list("metadata", "parts")]
        return [list(one) for one in (*rows, Run.objects.values_list("input", "memory", "remote", "slot"))]

    assert "0xsigned" not in f"{await db.run(stored)}"
    row = await db.run(Payment.objects.get)
    assert (row.amount, row.asset, row.network, row.pay_to) == ("10000", "0xUSDC", "base-sepolia", "0xSeller")
    assert (row.state, row.sealed, row.receipt) == (Payment.State.SENT, None, RECEIPT)
    assert await db.run(is_whole, paid)
    with pytest.raises(PaymentUsed):
        await talk.ask("Here.", task=other, metadata=x402.payment())


async def test_signature_is_forgotten_with_a_canceled_task(talk, seller):
    asked = await talk.ask()
    payload = x402.payment()["x402.payment.payload"]

    def sealed():
        payments.seal(asked.pk, asked.status_event, [ACCEPTS], payload).save()
        return Payment.objects.get().sealed

    assert "0xsigned" in await db.run(sealed)
    await talk.cancel(asked)
    await db.run(payments.forget_unneeded)
    assert (await db.run(Payment.objects.get)).sealed is None


async def test_budget_pays_a_remote_agent(talk, seller, settings):
    settings.PAYMENT_WALLETS = {"test": x402.WALLET}
    whose = {"owner": talk.user, "workspace_id": talk.user.principal.workspace_id, "wallet": "test", "name": "Far"}
    price = {"asset": "0xUSDC", "network": "base-sepolia", "payment_limit": 10_000, "period_limit": 10_000}
    await db.run(PaymentBudget.objects.create, **whose, **price)

    async def sell(params):
        if "x402.payment.payload" in params["message"].get("metadata", {}):
            is_paid(seller)
        yield {"task": seller.task}

    seller.sent = sell
    first = await talk.say()
    await until(lambda: BudgetPayment.objects.filter(task=first.pk, state=BudgetPayment.State.PAID).first())
    await talk.settled(first)
    await db.run(paying.note_receipts)
    row = await db.run(BudgetPayment.objects.get)
    assert row.receipt == RECEIPT
