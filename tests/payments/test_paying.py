"""A task waits for a payment by x402, which counts once; the record has its receipt, and replay gives the same."""

import asyncio

import pytest

from apps.agents import cards
from apps.conversations.pages.session.entries import entries_of
from apps.engine import accept
from apps.engine.send import send
from apps.engine.turns.payments import NotPaid, price_in
from apps.record import errors
from apps.record.execution import Payment
from apps.record.models import Context, Event, Message, Task
from parley import db
from tests.engine.delegating import carried_on, done, ended, sent, take_turn, task_of, the_record_holds, words
from tests.payments.facilitating import PRICE, Pretending, payment

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.fixture
async def asking(seller, facilitator, ada, said):
    return await take_turn(ada.principal, seller, said())


async def pay(person, task, message):
    """The task after the message, and after its run if one follows."""
    await send(person.principal, task.agent, message | {"taskId": str(task.pk)})
    return await carried_on(task.pk)


def paying(said, *nonce, **changed):
    return said(metadata=payment(*nonce, **changed))


async def shown(task):
    """What the page of its conversation shows."""
    events = [one async for one in Event.objects.filter(context=task.context_id).order_by("index")]
    context = await Context.objects.aget(pk=task.context_id)
    return await db.run(entries_of, context, events)


def told(task):
    return task.status_message["metadata"]


def asks(task):
    return (task.state, told(task)["x402.payment.status"]) == ("input-required", "payment-required")


async def test_task_asks_for_its_price(asking):
    assert asks(asking)
    (accepted,) = told(asking)["x402.payment.required"]["accepts"]
    assert (accepted["maxAmountRequired"], accepted["asset"]) == (PRICE["amount"], PRICE["asset"])
    assert (accepted["network"], accepted["payTo"]) == (PRICE["network"], PRICE["pay_to"])
    assert accepted["resource"] == cards.agent_url(asking.agent)
    assert set(cards.X402_URIS) <= {one["uri"] for one in cards.card_extensions(asking.agent)}
    assert "x402.payment.receipts" not in told(asking)  # which the agent had claimed
    [form] = [one["form"] for one in await shown(asking) if "form" in one]
    assert all(value in form for value in (PRICE["amount"], PRICE["asset"], PRICE["network"], PRICE["pay_to"]))
    assert "<form" not in form


async def test_paid_task_goes_on_with_receipt(asking, facilitator, ada, said):
    message = paying(said)
    task = await pay(ada, asking, message)
    assert (task.state, words(task)) == ("completed", "Paid by 0xBuyer.")
    assert told(task)["x402.payment.status"] == "payment-completed"
    receipt = {"success": True, "transaction": "0xtx1", "network": "base-sepolia", "payer": "0xBuyer"}
    assert told(task)["x402.payment.receipts"] == [receipt]
    assert [path for path, _ in facilitator.asked] == ["/verify", "/settle"]
    assert (await send(ada.principal, task.agent, message | {"taskId": str(task.pk)})).repeated
    assert len(facilitator.asked) == 2
    stored = [one async for one in Event.objects.filter(task=task).values_list("payload", flat=True)]
    stored += [one async for one in Message.objects.filter(task=task).values_list("metadata", flat=True)]
    assert "0xsigned" not in f"{stored}"
    [line] = [one["receipt"] for one in await shown(task) if "receipt" in one]
    assert all(part in line for part in ("0xtx1", "0xBuyer"))
    await the_record_holds()


@pytest.mark.services("a claim is a row under each database's own constraint")
async def test_two_payments_at_once_settle_one(asking, facilitator, ada, said):
    same = [paying(said, nonce) | {"taskId": str(asking.pk)} for nonce in ("0x1", "0x1", "0x2")]
    sent = await asyncio.gather(*(send(ada.principal, asking.agent, one) for one in same), return_exceptions=True)
    refused = {type(one) for one in sent if isinstance(one, Exception)}
    assert refused <= {errors.PaymentUnderWay, errors.PaymentUsed, errors.AlreadyAnswered}
    assert len(facilitator.settled) == 1


async def test_payment_counts_for_one_task(asking, seller, ada, said):
    await pay(ada, asking, paying(said))
    other = await take_turn(ada.principal, seller, said())
    with pytest.raises(errors.PaymentUsed):
        await pay(ada, other, paying(said))
    assert (await task_of(other.pk)).state == "input-required"


@pytest.mark.parametrize("changed", [{"value": "1"}, {"to": "0xThief"}, {"network": "base"}, {"asset": "0xToy"}])
async def test_another_payment_than_asked_is_refused(asking, facilitator, ada, said, changed):
    metadata = payment(**changed)
    if "asset" in changed:
        metadata["x402.payment.payload"]["payload"]["asset"] = "0xToy"
    with pytest.raises(errors.InvalidParams, match="asks for"):
        await pay(ada, asking, said(metadata=metadata))
    assert not facilitator.asked
    assert (await task_of(asking.pk)).status_event == asking.status_event


async def test_words_pay_nothing(asking, settings, ada, said):
    for message in (said("I paid!"), said(metadata={"x402.payment.authorization": "", "x402.payment.receipts": [1]})):
        with pytest.raises(errors.PaymentMissing, match="x402"):
            await pay(ada, asking, message)
    assert not await db.run(accept.resume, asking.pk, because="An operator continues.")
    settings.PAYMENTS_FACILITATOR = ""
    with pytest.raises(errors.PaymentMissing, match="takes none"):
        await pay(ada, asking, paying(said))


async def test_failed_settlement_asks_again(asking, facilitator, ada, said):
    facilitator.refusal = "insufficient_funds"
    task = await pay(ada, asking, paying(said))
    assert (task.state, words(task)) == ("input-required", "The payment failed: insufficient_funds.")
    assert told(task)["x402.payment.status"] == "payment-failed"
    assert told(task)["x402.payment.error"] == "insufficient_funds"
    assert told(task)["x402.payment.required"] == told(asking)["x402.payment.required"]
    facilitator.refusal = ""
    assert words(await pay(ada, asking, paying(said))) == "Paid by 0xBuyer."
    await the_record_holds()


async def test_unreachable_facilitator_took_nothing(asking, settings, facilitator, ada, said):
    settings.PAYMENTS_FACILITATOR = "http://127.0.0.1:1"
    with pytest.raises(NotPaid):
        await pay(ada, asking, paying(said))
    settings.PAYMENTS_FACILITATOR = facilitator.url
    assert words(await pay(ada, asking, paying(said, "0x2"))) == "Paid by 0xBuyer."


async def test_unknown_result_blocks_other_payments(asking, facilitator, ada, said):
    facilitator.is_away = True
    with pytest.raises(errors.FacilitatorUnreachable):
        await pay(ada, asking, paying(said))
    facilitator.is_away = False
    for nonce in ("0x1", "0x2"):
        with pytest.raises(errors.PaymentUnderWay):
            await pay(ada, asking, paying(said, nonce))
    assert len(facilitator.settled) == 1
    await Payment.objects.aupdate(claimed_until=asking.created_at)
    assert "An earlier try may have paid" in words(await pay(ada, asking, paying(said)))


async def test_agent_cannot_forge_payments(facilitator, agent, ada, said):
    task = await take_turn(ada.principal, await agent(Pretending), said())
    task = await pay(ada, task, paying(said))
    assert words(task) == "None"
    assert not facilitator.asked
    assert not [name for name in told(task) if name.startswith("x402.")]


async def test_without_a_facilitator_it_fails(seller, ada, said):
    task = await take_turn(ada.principal, seller, said())
    assert (task.state, told(task)["error"]["code"]) == ("failed", "payments_off")
    assert "PAYMENTS_FACILITATOR" in words(task)


# Of a called agent


@pytest.mark.services("parents and children race over the broker and the database")
async def test_called_agents_price_is_paid_above(ada, worker, cast, seller, facilitator, said):
    async def answered(message):
        return await ended(await sent(ada.principal, cast["caller"], message | {"taskId": str(parent.pk)}))

    parent = await done(ada.principal, cast["caller"], said("caller: selling: x"))
    assert asks(parent)
    assert price_in(parent.slot, parent.status_message)["payTo"] == PRICE["pay_to"]
    [form] = [one["form"] for one in await shown(parent) if "form" in one]
    assert (PRICE["amount"] in form, "<form" in form) == (True, False)
    with pytest.raises(errors.PaymentMissing):
        await answered(said("I paid!"))
    facilitator.refusal = "insufficient_funds"
    parent = await answered(paying(said))
    assert (parent.state, told(parent)["x402.payment.error"]) == ("input-required", "insufficient_funds")
    facilitator.refusal = ""
    parent = await answered(paying(said, "0x2"))
    assert (parent.state, "Paid by 0xBuyer." in words(parent)) == ("completed", True)
    assert len(facilitator.settled) == 1
    child, row = await Task.objects.aget(agent=seller), await Payment.objects.aget(state="used")
    assert (row.task_id, row.amount, row.pay_to, row.sealed) == (child.pk, "10000", "0xSeller", None)
    stored = [one async for one in Event.objects.values_list("payload", flat=True)]
    assert "0xsigned" not in f"{stored}"
    await the_record_holds()
