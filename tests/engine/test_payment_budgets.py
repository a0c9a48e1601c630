"""A budget pays by itself what a task asks: once, up to its limits; otherwise it says why, and people pay."""

from __future__ import annotations

import asyncio
import datetime
import json

import pytest
from django.db import connection
from django.utils import timezone

import db
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.engine import accept, cancel
from apps.features.payments import paying
from apps.features.payments.models import BudgetPayment, PaymentBudget
from apps.limits.current import Exceeded
from apps.record import projection
from apps.record.errors import BudgetSpent, LimitReached, NotAccepting, StorageFull
from apps.record.execution import Payment, Run
from apps.record.models import Task
from tests.engine import facilitating as x402
from tests.working import carry_out

pytestmark = [pytest.mark.django_db(transaction=True)]
State = BudgetPayment.State


@pytest.fixture(autouse=True)
def facilitator(settings):
    x402.SIGNED.clear()
    settings.PAYMENT_WALLETS = {"test": x402.WALLET}
    with x402.facilitating() as server:
        settings.PAYMENTS_FACILITATOR = server.url
        yield server


@pytest.fixture
def seller(db):
    return register_hosted("selling", "tests.engine.facilitating:Selling")


def budget_of(person, **changed):
    fields = {
        "name": "Answers",
        "asset": x402.PRICE["asset"],
        "network": x402.PRICE["network"],
        "payment_limit": 10_000,
        "period_limit": 25_000,
        "wallet": "test",
        "owner": person,
        "workspace_id": person.principal.workspace_id,
    }
    return PaymentBudget.objects.create(**fields | changed)


@pytest.fixture
def budget(ada):
    return budget_of(ada)


async def asked(person, agent, message):
    """A task that asks to be paid."""
    receipt = await db.run(accept.accept, person.principal, agent, message)
    await carry_out(receipt.run)
    return await found(receipt.task)


def found(key):
    return db.run(Task.objects.select_related("agent", "context").get, pk=key)


async def paid(task):
    """The task after what budgets pay, and after its run if one follows."""
    await paying.pay_due()
    if (run := await db.run(Run.objects.filter(task=task.pk, state="queued").first)) is not None:
        await carry_out(run.pk)
    return await found(task.pk)


def row_of(task):
    return db.run(BudgetPayment.objects.select_related("budget").filter(task=task.pk).order_by("asked").first)


def words(task):
    return task.status_message["parts"][0]["text"]


async def test_budget_pays_once_with_receipt(ada, seller, budget, facilitator, said):
    task = await paid(await asked(ada, seller, said()))
    assert (task.state, words(task)) == ("completed", "Paid by 0xBuyer.")
    row = await row_of(task)
    assert (row.state, row.amount, row.receipt["transaction"]) == (State.PAID, "10000", "0xtx1")
    assert (row.budget.spent_now, row.budget.left) == (10_000, 15_000)
    assert row.sealed is None
    assert await paying.pay_due() == 0
    assert len(facilitator.settled) == 1
    assert await db.run(projection.differences, task.context_id) == []


async def test_nothing_is_paid_without_a_budget(ada, bob, seller, facilitator, said):
    await db.run(budget_of, bob)
    await db.run(budget_of, ada, is_on=False)
    task = await paid(await asked(ada, seller, said()))
    assert task.state == "input-required"
    assert await row_of(task) is None
    assert not facilitator.asked


async def test_workspace_budget_pays_for_its_people(ada, seller, said):
    await db.run(budget_of, ada, owner=None)
    assert (await paid(await asked(ada, seller, said()))).state == "completed"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"payment_limit": 9_999}, "10000 is more than its 9999"),
        ({"period_limit": 10_000, "spent": 1}, "only 9999 of its 10000"),
        ({"asset": "0xToy"}, "another asset or network"),
        ({"network": "base"}, "another asset or network"),
    ],
)
async def test_budget_says_why_it_pays_nothing(ada, seller, facilitator, said, changed, why):
    today = PaymentBudget.Period.DAY.began
    await db.run(budget_of, ada, **{"period_began": today, **changed})
    task = await paid(await asked(ada, seller, said()))
    assert task.state == "input-required"
    assert why in await db.run(paying.note_of, task.pk, task.status_event, task.slot)
    assert not facilitator.asked


async def test_budget_pays_only_named_agents(ada, seller, echo, budget, said):
    budget.only_named = True
    await db.run(budget.save)
    await db.run(budget.agents.set, [echo])
    task = await paid(await asked(ada, seller, said()))
    assert (await row_of(task)).state == State.DECLINED
    await db.run(budget.agents.set, [seller])
    assert (await paid(await asked(ada, seller, said()))).state == "completed"


async def test_deleting_the_named_agent_names_no_other(ada, seller, echo, said):
    budget = await db.run(budget_of, ada, only_named=True)
    await db.run(budget.agents.set, [echo])
    await db.run(Agent.objects.filter(pk=echo.pk).delete)
    assert (await row_of(await asked(ada, seller, said()))).state == State.DECLINED


@pytest.mark.services("each database has its own way to swap")
async def test_two_tasks_at_once_cannot_overspend(ada, seller, facilitator, said):
    budget = await db.run(budget_of, ada, period_limit=10_000)
    tasks = await asyncio.gather(*(asked(ada, seller, said()) for _ in range(4)))
    await asyncio.gather(paying.pay_due(), paying.pay_due())
    states = [(await row_of(task)).state for task in tasks]
    assert sorted(states) == [State.DECLINED] * 3 + [State.PAID]
    assert len(facilitator.settled) == 1
    await db.run(budget.refresh_from_db)
    assert budget.left == 0


async def test_limit_is_whole_again_next_day(ada, seller, budget):
    budget.period_limit = 10_000
    await db.run(budget.save)
    assert await db.run(budget.reserve, 10_000)
    assert not await db.run(budget.reserve, 1)
    yesterday = PaymentBudget.Period.DAY.began - datetime.timedelta(days=1)
    await db.run(PaymentBudget.objects.update, period_began=yesterday)
    assert await db.run(budget.reserve, 10_000)


async def test_late_process_does_not_reset_the_period(ada):
    tomorrow = PaymentBudget.Period.DAY.began + datetime.timedelta(days=1)  # as another process sees it at midnight
    budget = await db.run(budget_of, ada, spent=25_000, period_began=tomorrow)
    assert not await db.run(budget.reserve, 1)
    await db.run(budget.refresh_from_db)
    assert (budget.spent, budget.period_began) == (25_000, tomorrow)


async def test_crash_after_signing_pays_once(ada, seller, budget, facilitator, said, monkeypatch):
    task = await asked(ada, seller, said())

    async def crash(*_, **__):
        raise RuntimeError("The process is gone.")

    with monkeypatch.context() as patch:
        patch.setattr(paying, "send", crash)
        await paying.pay_due()
    assert (await row_of(task)).sealed
    await db.run(BudgetPayment.objects.update, next_try_at=task.created_at)
    assert words(await paid(task)) == "Paid by 0xBuyer."
    assert (len(x402.SIGNED), len(facilitator.settled)) == (1, 1)


async def test_crash_after_settling_pays_once(ada, seller, budget, facilitator, said, monkeypatch):
    task = await asked(ada, seller, said())
    with monkeypatch.context() as patch:
        patch.setattr(paying, "_close", lambda *_: None)  # the process ends before it has recorded the payment
        await paying.pay_due()
    await db.run(BudgetPayment.objects.update, next_try_at=task.created_at)
    assert words(await paid(task)) == "Paid by 0xBuyer."
    assert (await row_of(task)).state == State.PAID
    assert len(facilitator.settled) == 1


@pytest.mark.parametrize(
    "refusal",
    [
        LimitReached(Exceeded("Too many messages.", "messages", "agent", 1, 1, 60)),
        BudgetSpent(Exceeded("The budget is spent.", "cost", "workspace", 1, 1, 60)),
        StorageFull(Exceeded("The storage is full.", "storage", "workspace", 1, 1, 0)),
        NotAccepting(),
    ],
    ids=lambda one: type(one).__name__,
)
async def test_settled_payment_reaches_its_task_later(ada, seller, budget, facilitator, said, monkeypatch, refusal):
    task = await asked(ada, seller, said())

    def refuse(*_):
        raise refusal

    with monkeypatch.context() as patch:
        patch.setattr(accept, "check_obstacles", refuse)
        for _ in range(paying.MOST_TRIES + 2):
            await db.run(BudgetPayment.objects.update, next_try_at=task.created_at)
            await paying.pay_due()
    assert (await row_of(task)).state == State.DUE
    await db.run(BudgetPayment.objects.update, next_try_at=task.created_at)
    assert words(await paid(task)) == "Paid by 0xBuyer."
    assert (await row_of(task)).state == State.PAID
    assert len(facilitator.settled) == 1


async def test_settled_payment_of_canceled_task_is_closed(ada, seller, budget, said, monkeypatch):
    task = await asked(ada, seller, said())

    def refuse(*_):
        raise NotAccepting

    with monkeypatch.context() as patch:
        patch.setattr(accept, "check_obstacles", refuse)
        await paying.pay_due()
    await db.run(cancel.cancel_for, ada.principal, task)
    await db.run(BudgetPayment.objects.update, next_try_at=task.created_at)
    await paying.pay_due()
    row = await row_of(task)
    assert (row.state, row.sealed, row.receipt["transaction"]) == (State.PAID, None, "0xtx1")
    assert row.reason
    assert "description" not in row.requirements


async def test_failed_payment_is_left_to_people(ada, seller, budget, facilitator, said):
    facilitator.refusal = "insufficient_funds"
    task = await paid(await asked(ada, seller, said()))
    assert task.state == "input-required"
    assert "insufficient_funds" in (await row_of(task)).reason
    await db.run(budget.refresh_from_db)
    assert budget.left == budget.period_limit
    assert await paying.pay_due() == 0  # nothing tries it again


async def test_unknown_result_counts_as_spent(ada, seller, budget, facilitator, said):
    facilitator.is_away = True
    task = await asked(ada, seller, said())
    for _ in range(paying.MOST_TRIES):
        await db.run(BudgetPayment.objects.update, next_try_at=task.created_at)
        await paying.pay_due()
    assert (await row_of(task)).state == State.UNKNOWN
    await db.run(budget.refresh_from_db)
    assert budget.spent_now == 10_000


async def test_wallet_that_signs_otherwise_pays_nothing(ada, seller, budget, facilitator, said, settings):
    settings.PAYMENT_WALLETS = {"test": "tests.engine.test_payment_budgets.sign_for_thief"}
    task = await paid(await asked(ada, seller, said()))
    assert task.state == "input-required"
    assert "signed something else" in (await row_of(task)).reason
    assert not facilitator.asked
    await db.run(budget.refresh_from_db)
    assert budget.spent_now == 0


async def sign_for_thief(requirements, key):
    return await x402.sign({**requirements, "payTo": "0xThief"}, key)


async def test_wallet_that_hangs_is_asked_again(ada, seller, budget, said, settings):
    settings.PAYMENT_WALLETS = {"test": "tests.engine.test_payment_budgets.sign_never"}
    settings.PAYMENT_SECONDS = 0.01
    task = await paid(await asked(ada, seller, said()))
    row = await row_of(task)
    assert (row.state, row.tries, row.authorization) == (State.DUE, 1, "")
    assert row.reason


async def sign_never(requirements, key):
    await asyncio.Event().wait()


async def test_late_signature_stays_out_of_closed_payment(ada, seller, budget, facilitator, said, settings):
    settings.PAYMENT_WALLETS = {"test": "tests.engine.test_payment_budgets.sign_after_close"}
    task = await paid(await asked(ada, seller, said()))
    row = await row_of(task)
    assert (row.state, row.sealed) == (State.FAILED, None)
    assert not facilitator.asked


async def sign_after_close(requirements, key):
    await db.run(BudgetPayment.objects.filter(pk=key).update, state=State.FAILED)
    return await x402.sign(requirements, key)


@pytest.mark.parametrize(("success", "state"), [(True, State.PAID), (False, State.UNKNOWN)])
def test_late_receipt_counts_as_it_says(ada, echo, budget, said, success, state):
    task = Task.objects.get(pk=accept.accept(ada.principal, echo, said()).task)
    receipt = {"success": success, "errorReason": "", "transaction": "0xtx"}
    sent = {"state": Payment.State.SENT, "claimed_until": timezone.now(), "asked": 1}
    Payment.objects.create(task=task, authorization="0x1", receipt=receipt, **sent)
    row = BudgetPayment.objects.create(task=task.pk, asked=1, amount="1", authorization="0x1", state=State.PAID)
    paying.publish_due()
    row.refresh_from_db()
    assert (row.state, row.receipt) == (state, receipt)


async def test_budget_leaves_a_paid_task_alone(ada, seller, budget, facilitator, said):
    task = await asked(ada, seller, said())
    message = said(metadata=x402.payment("0xabc"), taskId=str(task.pk))
    await paying.send(ada.principal, seller, message)
    await paid(task)
    assert (await row_of(task)).state == State.FAILED
    assert len(facilitator.settled) == 1
    await db.run(budget.refresh_from_db)
    assert budget.spent_now == 0


async def test_signature_is_not_in_the_clear(ada, seller, budget, said, facilitator):
    facilitator.is_away = True
    task = await asked(ada, seller, said())
    await paying.pay_due()

    def stored():
        with connection.cursor() as cursor:
            cursor.execute("SELECT sealed FROM payments_budgetpayment")
            return cursor.fetchone()[0]

    sealed = await db.run(stored)
    assert "0xsigned" not in sealed
    assert json.loads((await row_of(task)).sealed)["payload"]["signature"] == "0xsigned"
    assert await db.run(Payment.objects.filter(task=task.pk, sealed__isnull=False).count) == 0
