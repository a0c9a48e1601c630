"""What a called agent asks to be paid is asked in its caller's conversation, and paid there or by a budget."""

from __future__ import annotations

import asyncio

import pytest

import db
from apps.agents.registration import register_hosted
from apps.engine.payments import price_in
from apps.features.payments.models import BudgetPayment, PaymentBudget
from apps.record import projection
from apps.record.errors import PaymentMissing
from apps.record.execution import Payment
from apps.record.models import Context, Event, Task
from apps.web.sessions.entries import entries_of
from tests.engine import facilitating as x402
from tests.engine.delegating import done, ended, sent, until, words

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("worker"),
    pytest.mark.services("parents and children race over the broker and the database"),
]


@pytest.fixture(autouse=True)
def facilitator(settings):
    x402.SIGNED.clear()
    settings.PAYMENT_WALLETS = {"test": x402.WALLET}
    with x402.facilitating() as server:
        settings.PAYMENTS_FACILITATOR = server.url
        yield server


@pytest.fixture
def caller(cast):
    register_hosted("selling", "tests.engine.facilitating:Selling")
    return cast["caller"]


async def asked(person, caller, message):
    parent = await done(person.principal, caller, message)
    assert parent.state == "input-required", words(parent)
    return parent


async def pay(person, caller, parent, message):
    return await ended(await sent(person.principal, caller, message | {"taskId": str(parent.pk)}))


def seller_of(parent):
    return Task.objects.get(agent__slug="selling", owner=parent.owner_id)


async def the_record_holds():
    for context in await db.run(list, Context.objects.all()):
        assert await db.run(projection.differences, context.pk) == []


@pytest.mark.parametrize("text", ["selling: x", "caller: selling: x"])
async def test_called_agents_price_is_paid_above(ada, caller, facilitator, said, text):
    parent = await asked(ada, caller, said(text))
    metadata = parent.status_message["metadata"]
    assert metadata["x402.payment.status"] == "payment-required"
    assert price_in(parent.slot, parent.status_message)["payTo"] == x402.PRICE["pay_to"]
    parent = await pay(ada, caller, parent, said(metadata=x402.payment()))
    assert parent.state == "completed"
    assert "Paid by 0xBuyer." in words(parent)
    assert len(facilitator.settled) == 1
    child = await db.run(seller_of, parent)
    row = await db.run(Payment.objects.get)
    assert (row.task_id, row.state, row.amount, row.pay_to) == (child.pk, "used", "10000", "0xSeller")
    assert row.sealed is None
    stored = await db.run(list, Event.objects.values_list("payload", flat=True))
    assert "0xsigned" not in f"{stored}"
    await the_record_holds()


async def test_callers_page_shows_the_price(ada, caller, said):
    parent = await asked(ada, caller, said("selling: x"))
    events = await db.run(list, Event.objects.filter(context=parent.context_id).order_by("index"))
    context = await db.run(Context.objects.get, pk=parent.context_id)
    [form] = [one["form"] for one in await db.run(entries_of, context, events) if "form" in one]
    assert x402.PRICE["amount"] in form
    assert "<form" not in form


async def test_words_do_not_pay_a_called_agent(ada, caller, said):
    parent = await asked(ada, caller, said("selling: x"))
    with pytest.raises(PaymentMissing):
        await sent(ada.principal, caller, said("I paid!", taskId=str(parent.pk)))


async def test_failed_payment_is_asked_above_again(ada, caller, facilitator, said):
    parent = await asked(ada, caller, said("selling: x"))
    facilitator.refusal = "insufficient_funds"
    parent = await pay(ada, caller, parent, said(metadata=x402.payment()))
    assert parent.state == "input-required"
    assert parent.status_message["metadata"]["x402.payment.error"] == "insufficient_funds"
    facilitator.refusal = ""
    parent = await pay(ada, caller, parent, said(metadata=x402.payment("0x2")))
    assert parent.state == "completed"


async def test_budget_pays_a_called_agent(ada, caller, facilitator, said):
    whose = {"owner": ada, "workspace_id": ada.principal.workspace_id, "wallet": "test", "name": "Answers"}
    price = {"asset": x402.PRICE["asset"], "network": x402.PRICE["network"]}
    await db.run(PaymentBudget.objects.create, **whose, **price, payment_limit=10_000, period_limit=10_000)
    receipt = await sent(ada.principal, caller, said("selling: x"))
    await until(lambda: Task.objects.filter(pk=receipt.task, state="completed").exists())
    async with asyncio.timeout(20):
        await until(lambda: BudgetPayment.objects.filter(state=BudgetPayment.State.PAID).exists())
    assert len(facilitator.settled) == 1
    await the_record_holds()
