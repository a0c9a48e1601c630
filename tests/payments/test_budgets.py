"""A budget pays by itself what a task asks: once, up to its limits; otherwise it says why, and people pay."""

from __future__ import annotations

import asyncio
import datetime
import json

import pytest
from django.db import connection
from django.utils import timezone

from apps.agents.models import Agent
from apps.engine import accept, cancel
from apps.limits.current import Exceeded
from apps.payments import paying
from apps.payments.models import BudgetPayment, PaymentBudget
from apps.record.errors import LimitReached, NotAccepting
from apps.record.execution import Payment
from apps.record.models import Task
from parley import db
from tests.engine.delegating import carried_on, take_turn, the_record_holds, words
from tests.payments import facilitating as x402
from tests.work.hand import work_off

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("facilitator")]
State = BudgetPayment.State


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


@pytest.fixture
async def task(ada, seller, said):
    """A task that asks to be paid; nobody has looked for a budget."""
    return await asked(ada, seller, said)


async def asked(person, agent, said):
    return await take_turn(person.principal, agent, said())


async def paid(task):
    """The task after what budgets pay, and after its run if one follows."""
    await work_off(paying.PAYMENTS)
    return await carried_on(task.pk)


async def tried_again(times=1):
    for _ in range(times):
        past = timezone.now() - datetime.timedelta(hours=1)
        await BudgetPayment.objects.aupdate(next_try_at=past, lease_until=None)
        await work_off(paying.PAYMENTS)


async def row_of(task):
    return await BudgetPayment.objects.select_related("budget").filter(task=task.pk).order_by("asked").afirst()


async def assert_paid_once(task, facilitator):
    assert words(await paid(task)) == "Paid by 0xBuyer."
    row = await row_of(task)
    assert (row.state, row.amount, row.receipt["transaction"], row.sealed) == (State.PAID, "10000", "0xtx1", None)
    assert (row.budget.spent_now, row.budget.left) == (10_000, 15_000)
    assert (len(x402.SIGNED), len(facilitator.settled)) == (1, 1)


@pytest.mark.parametrize("owner", ["theirs", "everybody's"])
async def test_budget_pays_once_with_receipt(ada, seller, facilitator, said, owner):
    await db.run(budget_of, ada, **({} if owner == "theirs" else {"owner": None}))
    task = await asked(ada, seller, said)
    await assert_paid_once(task, facilitator)
    assert await work_off(paying.PAYMENTS) == 0
    await the_record_holds()


async def test_nothing_is_paid_without_a_budget(ada, bob, seller, facilitator, said):
    await db.run(budget_of, bob)
    await db.run(budget_of, ada, is_on=False)
    task = await paid(await asked(ada, seller, said))
    assert (task.state, await row_of(task), facilitator.asked) == ("input-required", None, [])


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
    task = await paid(await asked(ada, seller, said))
    assert (task.state, facilitator.asked) == ("input-required", [])
    assert why in await db.run(paying.note_of, task.pk, task.status_event, task.slot)


async def test_budget_pays_only_named_agents(ada, seller, echo, said):
    budget = await db.run(budget_of, ada, only_named=True)
    await budget.agents.aset([seller])
    assert (await paid(await asked(ada, seller, said))).state == "completed"
    await budget.agents.aset([echo])
    assert (await row_of(await asked(ada, seller, said))).state == State.DECLINED
    await Agent.objects.filter(pk=echo.pk).adelete()
    assert (await row_of(await asked(ada, seller, said))).state == State.DECLINED, "without names it names none"


@pytest.mark.services("each database has its own way to swap")
async def test_two_tasks_at_once_cannot_overspend(ada, seller, facilitator, said):
    budget = await db.run(budget_of, ada, period_limit=10_000)
    tasks = await asyncio.gather(*(asked(ada, seller, said) for _ in range(4)))
    await asyncio.gather(work_off(paying.PAYMENTS), work_off(paying.PAYMENTS))
    states = [(await row_of(task)).state for task in tasks]
    assert sorted(states) == [State.DECLINED] * 3 + [State.PAID]
    assert len(facilitator.settled) == 1
    await budget.arefresh_from_db()
    assert budget.left == 0


def test_limit_is_whole_again_next_day(ada):
    budget, day = budget_of(ada, period_limit=10_000), datetime.timedelta(days=1)
    assert [bool(budget.reserve(amount)) for amount in (10_000, 1)] == [True, False]
    today = PaymentBudget.Period.DAY.began
    PaymentBudget.objects.update(period_began=today - day)
    assert budget.reserve(10_000)
    PaymentBudget.objects.update(period_began=today + day)  # as another process sees it at midnight
    assert not budget.reserve(1)
    budget.refresh_from_db()
    assert (budget.spent, budget.period_began) == (10_000, today + day)


@pytest.mark.parametrize("step", ["send", "_close"], ids=["signing", "settling"])
async def test_crash_after_a_step_pays_once(budget, task, facilitator, monkeypatch, step):
    async def crash(*_, **__):
        raise RuntimeError("The process is gone.")

    with monkeypatch.context() as patch:
        patch.setattr(paying, step, crash if step == "send" else lambda *_: None)
        await work_off(paying.PAYMENTS)
    assert (await row_of(task)).sealed
    await tried_again()
    await assert_paid_once(task, facilitator)


REFUSALS = [
    LimitReached(Exceeded("Too many messages.", "messages", "agent", 1, 1, 60)),
    NotAccepting(),
]


def refusing(refusal):
    def refuse(*_):
        raise refusal

    return refuse


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda one: type(one).__name__)
async def test_settled_payment_reaches_its_task_later(budget, task, facilitator, monkeypatch, refusal):
    with monkeypatch.context() as patch:
        patch.setattr(accept, "check_obstacles", refusing(refusal))
        await tried_again(paying.MOST_TRIES + 2)
    assert (await row_of(task)).state == State.DUE
    await tried_again()
    await assert_paid_once(task, facilitator)


async def test_settled_payment_of_canceled_task_is_closed(ada, budget, task, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(accept, "check_obstacles", refusing(NotAccepting()))
        await work_off(paying.PAYMENTS)
    await db.run(cancel.cancel_for, ada.principal, task)
    await tried_again()
    row = await row_of(task)
    assert (row.state, row.sealed, row.receipt["transaction"]) == (State.PAID, None, "0xtx1")
    assert row.reason
    assert "description" not in row.requirements


async def test_failed_payment_is_left_to_people(budget, task, facilitator):
    facilitator.refusal = "insufficient_funds"
    assert (await paid(task)).state == "input-required"
    row = await row_of(task)
    assert "insufficient_funds" in row.reason
    assert row.budget.left == budget.period_limit
    assert await work_off(paying.PAYMENTS) == 0  # nothing tries it again


async def test_unknown_result_counts_as_spent(budget, task, facilitator):
    facilitator.is_away = True
    await tried_again(paying.MOST_TRIES)
    row = await row_of(task)
    assert (row.state, row.budget.spent_now) == (State.UNKNOWN, 10_000)


async def sign_for_thief(requirements, key):
    return await x402.sign({**requirements, "payTo": "0xThief"}, key)


async def sign_never(requirements, key):
    await asyncio.Event().wait()


async def sign_after_close(requirements, key):
    await BudgetPayment.objects.filter(pk=key).aupdate(state=State.FAILED)
    return await x402.sign(requirements, key)


@pytest.mark.parametrize(
    ("wallet", "state", "reason"),
    [
        (sign_for_thief, State.FAILED, "signed something else"),
        (sign_never, State.DUE, ""),
        (sign_after_close, State.FAILED, ""),
    ],
)
async def test_unfit_signature_pays_nothing(budget, task, facilitator, settings, wallet, state, reason):
    settings.PAYMENT_WALLETS = {"test": f"{__name__}.{wallet.__name__}"}
    settings.PAYMENT_SECONDS = 0.01 if wallet is sign_never else 5
    assert (await paid(task)).state == "input-required"
    row = await row_of(task)
    assert (row.state, row.sealed, row.authorization) == (state, None, "")
    assert reason in row.reason
    assert wallet is not sign_for_thief or row.budget.spent_now == 0
    assert not facilitator.asked


@pytest.mark.parametrize(("success", "state"), [(True, State.PAID), (False, State.UNKNOWN)])
def test_late_receipt_counts_as_it_says(ada, echo, budget, said, success, state):
    task = Task.objects.get(pk=accept.accept(ada.principal, echo, said()).task)
    receipt = {"success": success, "errorReason": "", "transaction": "0xtx"}
    sent = {"state": Payment.State.SENT, "claimed_until": timezone.now(), "asked": 1}
    Payment.objects.create(task=task, authorization="0x1", receipt=receipt, **sent)
    row = BudgetPayment.objects.create(task=task.pk, asked=1, amount="1", authorization="0x1", state=State.PAID)
    paying.note_receipts()
    row.refresh_from_db()
    assert (row.state, row.receipt) == (state, receipt)


async def test_budget_leaves_a_paid_task_alone(ada, seller, budget, task, facilitator, said):
    await paying.send(ada.principal, seller, said(metadata=x402.payment("0xabc"), taskId=str(task.pk)))
    await paid(task)
    row = await row_of(task)
    assert (row.state, row.budget.spent_now, len(facilitator.settled)) == (State.FAILED, 0, 1)


async def test_signature_is_not_in_the_clear(budget, task, facilitator):
    def stored():
        with connection.cursor() as cursor:
            cursor.execute("SELECT sealed FROM payments_budgetpayment")
            return cursor.fetchone()[0]

    facilitator.is_away = True
    await work_off(paying.PAYMENTS)
    assert "0xsigned" not in await db.run(stored)
    assert json.loads((await row_of(task)).sealed)["payload"]["signature"] == "0xsigned"
    assert await Payment.objects.filter(task=task, sealed__isnull=False).acount() == 0
