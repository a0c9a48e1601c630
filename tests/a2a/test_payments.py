"""A client pays a task over A2A, as the x402 extension says."""

import pytest

import db
from apps.agents.registration import register_hosted
from tests.a2a.calling import message, text_of
from tests.engine.facilitating import facilitating, payment

pytestmark = pytest.mark.django_db(transaction=True)


async def test_client_pays_or_declines_a_task(worker, settings, ada_at):
    with facilitating() as facilitator:
        settings.PAYMENTS_FACILITATOR = facilitator.url
        caller = ada_at((await db.run(register_hosted, "selling", "tests.engine.facilitating:Selling")).slug)
        asked, other = [(await caller.send(message("Sell!"))).result["task"] for _ in range(2)]
        metadata = asked["status"]["message"]["metadata"]
        assert metadata["x402.payment.required"]["accepts"] == [metadata["slot"]["payment"]]
        wrong = await caller.send(message("Here.", taskId=asked["id"], metadata=payment(value="1")))
        assert (wrong.code, wrong.fields) == (-32602, ["metadata.x402.payment.payload"])
        assert (await caller.send(message("I paid!", taskId=asked["id"]))).code == -32004
        paid = (await caller.send(message("Here.", taskId=asked["id"], metadata=payment()))).result["task"]
        assert text_of(paid["status"]["message"]) == "Paid by 0xBuyer."
        rejected = {"x402.payment.status": "payment-rejected"}
        declined = (await caller.send(message("No.", taskId=other["id"], metadata=rejected))).result["task"]
        assert declined["status"]["state"] == "TASK_STATE_CANCELED"
        assert len(facilitator.settled) == 1
