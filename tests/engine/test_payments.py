"""A task waits for a payment by x402, which counts once; the record has its receipt, and replay gives the same."""

import asyncio

import pytest

import db
from agentkit import PaymentRequired, testing
from apps.agents import cards
from apps.agents.registration import register_hosted
from apps.engine import accept
from apps.engine.payments import NotPaid, price_in
from apps.engine.send import send
from apps.record import projection
from apps.record.errors import (
    AlreadyAnswered,
    FacilitatorUnreachable,
    InvalidParams,
    PaymentMissing,
    PaymentUnderWay,
    PaymentUsed,
)
from apps.record.execution import Payment, Run
from apps.record.models import Event, Message, Task
from apps.web.sessions.entries import entries_of
from tests.engine.facilitating import PRICE, Selling, facilitating, payment
from tests.working import carry_out

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.fixture
def facilitator(settings):
    with facilitating() as server:
        settings.PAYMENTS_FACILITATOR = server.url
        yield server


@pytest.fixture
def seller(db):
    return register_hosted("selling", "tests.engine.facilitating:Selling")


@pytest.fixture
async def asking(seller, facilitator, ada, said):
    return await asked(ada, seller, said())


async def asked(person, agent, message):
    receipt = await db.run(accept.accept, person.principal, agent, message)
    await carry_out(receipt.run)
    return await found(receipt.task)


def found(key):
    return db.run(Task.objects.select_related("agent", "context").get, pk=key)


async def pay(person, task, message):
    """The task after the message, and after its run if one follows."""
    await send(person.principal, task.agent, message | {"taskId": str(task.pk)})
    if (run := await db.run(Run.objects.filter(task=task.pk, state="queued").first)) is not None:
        await carry_out(run.pk)
    return await found(task.pk)


def shown(task):
    events = Event.objects.filter(context=task.context_id).order_by("index")
    return db.run(lambda: entries_of(task.context, list(events)))


def told(task):
    return task.status_message["metadata"]


def words(task):
    return task.status_message["parts"][0]["text"]


async def test_task_asks_for_its_price(asking):
    assert asking.state == "input-required"
    assert told(asking)["x402.payment.status"] == "payment-required"
    (accepted,) = told(asking)["x402.payment.required"]["accepts"]
    assert (accepted["maxAmountRequired"], accepted["asset"]) == (PRICE["amount"], PRICE["asset"])
    assert (accepted["network"], accepted["payTo"]) == (PRICE["network"], PRICE["pay_to"])
    assert accepted["resource"] == cards.agent_url(asking.agent)
    declared = [one["uri"] for one in cards.card_extensions(asking.agent)]
    assert set(cards.X402_URIS) <= set(declared)
    assert "x402.payment.receipts" not in told(asking)  # which the agent had claimed


async def test_page_shows_price_instead_of_form(asking):
    [form] = [one["form"] for one in await shown(asking) if "form" in one]
    assert all(value in form for value in (PRICE["amount"], PRICE["asset"], PRICE["network"], PRICE["pay_to"]))
    assert "<form" not in form


def test_remote_agents_price_is_shown():
    def shown_price(required, status="payment-required"):
        return price_in({}, {"metadata": {"x402.payment.status": status, "x402.payment.required": required}})

    assert shown_price({"accepts": [{"payTo": "0xSeller"}, {}]}) == {"payTo": "0xSeller"}
    assert shown_price({"accepts": [{}]}, "payment-completed") is None
    assert [shown_price(odd) for odd in ({}, [], {"accepts": {}}, {"accepts": ["x"]})] == [None] * 4


async def test_paid_task_goes_on_with_receipt(asking, facilitator, ada, said):
    paying = said(metadata=payment())
    task = await pay(ada, asking, paying)
    assert (task.state, words(task)) == ("completed", "Paid by 0xBuyer.")
    assert told(task)["x402.payment.status"] == "payment-completed"
    receipt = {"success": True, "transaction": "0xtx1", "network": "base-sepolia", "payer": "0xBuyer"}
    assert told(task)["x402.payment.receipts"] == [receipt]
    assert [path for path, _ in facilitator.asked] == ["/verify", "/settle"]
    assert (await send(ada.principal, task.agent, paying | {"taskId": str(task.pk)})).repeated
    assert len(facilitator.asked) == 2
    assert await db.run(projection.differences, task.context_id) == []
    events = await db.run(list, Event.objects.filter(task=task.pk).values_list("payload", flat=True))
    stored = await db.run(list, Message.objects.filter(task=task.pk).values_list("metadata", flat=True))
    assert "0xsigned" not in f"{events}{stored}"
    [line] = [one["receipt"] for one in await shown(task) if "receipt" in one]
    assert "0xtx1" in line
    assert "0xBuyer" in line


@pytest.mark.services("a claim is a row under each database's own constraint")
async def test_two_payments_at_once_settle_one(asking, facilitator, ada, said):
    same = [said(metadata=payment(nonce)) | {"taskId": str(asking.pk)} for nonce in ("0x1", "0x1", "0x2")]
    sent = await asyncio.gather(*(send(ada.principal, asking.agent, one) for one in same), return_exceptions=True)
    refused = {type(one) for one in sent if isinstance(one, Exception)}
    assert refused <= {PaymentUnderWay, PaymentUsed, AlreadyAnswered}
    assert len(facilitator.settled) == 1


async def test_payment_counts_for_one_task(asking, seller, ada, said):
    await pay(ada, asking, said(metadata=payment()))
    other = await asked(ada, seller, said())
    with pytest.raises(PaymentUsed):
        await pay(ada, other, said(metadata=payment()))
    assert (await found(other.pk)).state == "input-required"


@pytest.mark.parametrize("changed", [{"value": "1"}, {"to": "0xThief"}, {"network": "base"}, {"asset": "0xToy"}])
async def test_another_payment_than_asked_is_refused(asking, facilitator, ada, said, changed):
    metadata = payment(**changed)
    if "asset" in changed:
        metadata["x402.payment.payload"]["payload"]["asset"] = "0xToy"
    with pytest.raises(InvalidParams, match="asks for"):
        await pay(ada, asking, said(metadata=metadata))
    assert not facilitator.asked
    assert (await found(asking.pk)).status_event == asking.status_event


async def test_words_pay_nothing(asking, ada, said):
    for message in (said("I paid!"), said(metadata={"x402.payment.authorization": "", "x402.payment.receipts": [1]})):
        with pytest.raises(PaymentMissing, match="x402"):
            await pay(ada, asking, message)
    assert not await db.run(accept.resume, asking.pk, because="An operator continues.")


async def test_failed_settlement_asks_again(asking, facilitator, ada, said):
    facilitator.refusal = "insufficient_funds"
    task = await pay(ada, asking, said(metadata=payment()))
    assert (task.state, words(task)) == ("input-required", "The payment failed: insufficient_funds.")
    assert told(task)["x402.payment.status"] == "payment-failed"
    assert told(task)["x402.payment.error"] == "insufficient_funds"
    assert told(task)["x402.payment.required"] == told(asking)["x402.payment.required"]
    facilitator.refusal = ""
    task = await pay(ada, asking, said(metadata=payment()))
    assert words(task) == "Paid by 0xBuyer."
    assert await db.run(projection.differences, task.context_id) == []


async def test_unreachable_facilitator_took_nothing(asking, settings, facilitator, ada, said):
    settings.PAYMENTS_FACILITATOR = "http://127.0.0.1:1"
    with pytest.raises(NotPaid):
        await pay(ada, asking, said(metadata=payment()))
    settings.PAYMENTS_FACILITATOR = facilitator.url
    assert words(await pay(ada, asking, said(metadata=payment("0x2")))) == "Paid by 0xBuyer."


async def test_unknown_result_blocks_other_payments(asking, facilitator, ada, said):
    facilitator.is_away = True
    with pytest.raises(FacilitatorUnreachable):
        await pay(ada, asking, said(metadata=payment()))
    facilitator.is_away = False
    for nonce in ("0x1", "0x2"):
        with pytest.raises(PaymentUnderWay):
            await pay(ada, asking, said(metadata=payment(nonce)))
    assert len(facilitator.settled) == 1
    await db.run(Payment.objects.update, claimed_until=asking.created_at)
    task = await pay(ada, asking, said(metadata=payment()))
    assert "An earlier try may have paid" in words(task)


async def test_agent_cannot_forge_payments(facilitator, ada, said):
    agent = await db.run(register_hosted, "pretending", "tests.engine.facilitating:Pretending")
    task = await asked(ada, agent, said())
    task = await pay(ada, task, said(metadata=payment()))
    assert words(task) == "None"
    assert not facilitator.asked
    assert not [name for name in told(task) if name.startswith("x402.")]


async def test_switched_off_while_it_waits(asking, settings, ada, said):
    settings.PAYMENTS_FACILITATOR = ""
    with pytest.raises(PaymentMissing, match="takes none"):
        await pay(ada, asking, said(metadata=payment()))


async def test_without_a_facilitator_it_fails(seller, ada, said):
    task = await asked(ada, seller, said())
    assert (task.state, told(task)["error"]["code"]) == ("failed", "payments_off")
    assert "PAYMENTS_FACILITATOR" in words(task)


def test_price_must_be_whole_and_complete():
    for changed in ({"amount": "0"}, {"amount": "1.5"}, {"pay_to": ""}):
        with pytest.raises(ValueError, match="payment"):
            PaymentRequired("Pay.", **PRICE | changed)


async def test_handler_is_tested_without_a_host():
    run = await testing.run(Selling(), "hello")
    paid = await run.answer(payment={"payer": "0xBuyer"})
    assert paid.said == "Paid by 0xBuyer."
