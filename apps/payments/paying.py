"""Pays by budgets: what a task asks is reserved with the question, signed by a wallet, and sent to the task once.

The row of the reservation is also the work to be done. A crash leaves it due, and the sweep publishes it again:

- before the signature is stored, nothing was paid, and the wallet signs the same for the same key;
- afterwards the same signature is sent again, which counts once (see `engine.turns.payments`, and `messageId`);
- what was settled is sent until the task takes it or no longer asks for it.

An amount is given back only where it is certain that nothing was paid.
"""

from __future__ import annotations

import datetime
import json
import logging
import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import OuterRef, Subquery

from apps.accounts.principals import Principal
from apps.engine.send import send
from apps.engine.turns import payments
from apps.engine.turns.questions import asking_task
from apps.payments import wallets
from apps.payments.models import UNREADABLE, BudgetPayment, PaymentBudget, amount_of
from apps.payments.wallets import NotSigned
from apps.record.content.composing import compose
from apps.record.error_table import UNFORESEEN
from apps.record.errors import (
    BudgetSpent,
    FacilitatorUnreachable,
    InvalidParams,
    NotAccepting,
    PaymentMissing,
    PaymentUnderWay,
    Refusal,
    StorageFull,
)
from apps.record.events import JSON
from apps.record.execution import Payment
from apps.record.models import Task
from parley import db
from parley.db import sql
from parley.db.sql import write_transaction
from parley.work import WorkList

log = logging.getLogger("parley.payments")

MOST_TRIES = 8
LONGEST_WAIT = 600.0  # seconds
RECEIPT_DAYS = 30  # in which a remote agent may still give a receipt
MOST_RECEIPTS = 500  # in one sweep
MAX_REASON = 1000
MOST_BUDGETS, MOST_CHOICES = 20, 10  # that are looked at for one question
GONE = "The task no longer takes a payment."
PASSING = (NotAccepting, PaymentUnderWay, BudgetSpent, StorageFull)
"""Refusals that may end by themselves, also after the facilitator has settled."""
TERMS = ("scheme", "network", "asset", "payTo", "maxAmountRequired")
State = BudgetPayment.State


def consider(task: Task, asked: int, choices: Sequence[JSON]) -> None:
    """Reserve what a task asks, or note why no budget pays it (see `parley.registry`). One query without a budget."""
    reasons: list[str] = []
    for budget in PaymentBudget.objects.for_task(task)[:MOST_BUDGETS] if task.owner_id is not None else ():
        refusals = _refusals(budget, task, choices[:MOST_CHOICES])
        chosen = next((choice for why, choice in refusals if not why), None)
        if chosen is not None and (began := budget.reserve(amount_of(chosen) or 0)):
            due = {"budget": budget, "period_began": began, "next_try_at": sql.database_time()}
            row = _row(task, asked, chosen, **due)
            row.save(force_insert=True)
            transaction.on_commit(partial(PAYMENTS.publish, row.pk), robust=True)
            return
        why = "; ".join(dict.fromkeys(why or "others were faster" for why, _ in refusals))
        reasons.append(f"The budget “{budget.name}” does not pay this: {why}.")
    if reasons:
        price = choices[0] if choices else {}
        _row(task, asked, _kept(price), state=State.DECLINED, reason=" ".join(reasons)[:MAX_REASON]).save(
            force_insert=True
        )


def _refusals(budget: PaymentBudget, task: Task, choices: Sequence[JSON]) -> list[tuple[str, JSON]]:
    """Why a budget does not pay each choice; "" for one that it may pay."""
    if not budget.is_for(task.agent_id):
        return [("it is for other agents", {})]
    return [(budget.refusal(choice), choice) for choice in choices] or [(UNREADABLE, {})]


def _row(task: Task, asked: int, choice: JSON, **more: Any) -> BudgetPayment:
    whose = {"workspace_id": task.workspace_id, "owner_id": task.owner_id, "agent_id": task.agent_id, "task": task.pk}
    amount = str(amount_of(choice) or "")
    return BudgetPayment(asked=asked, requirements=choice, amount=amount, **whose, **more)


def _kept(choice: JSON) -> JSON:
    """What stays of a choice when nothing is signed for it any more: no words of the session."""
    return {name: choice[name] for name in TERMS if name in choice}


async def pay(key: uuid.UUID) -> None:
    """Makes a payment that a budget has reserved."""
    due = BudgetPayment.objects.select_related("budget").filter(pk=key)
    for row in await db.run(due.claim, datetime.timedelta(seconds=_first_wait())):
        await _pay(row)


def _wallet_of(key: uuid.UUID) -> str:
    """ "" where the budget is gone."""
    return BudgetPayment.objects.filter(pk=key).values_list("budget__wallet", flat=True).first() or ""


PAYMENTS = WorkList("payments", "payments.pay_one", pay, BudgetPayment, host_of=_wallet_of, at_once=20)


def _first_wait() -> float:
    return 5 * settings.PAYMENT_SECONDS


async def _pay(row: BudgetPayment) -> None:
    """Sign and send one payment. What goes wrong in passing is tried again."""
    try:
        task = await db.run(Task.objects.select_related("agent", "context", "owner").filter(pk=row.task).first)
        if task is None or task.status_event != row.asked:
            await db.run(_close, row, GONE)
            return
        payload = json.loads(row.sealed) if row.sealed else await _signed(row)
        if payload is None:
            return
        await send(_principal_of(task), task.agent, _message(row, task, payload), question_index=row.asked)
        await db.run(_close, row, GONE)
    except PASSING as passing:
        await db.run(_try_again, row, str(passing))
    except NotSigned as problem:
        await db.run(_close if problem.is_final else _try_again, row, str(problem))
    except Refusal as refusal:
        await db.run(_close, row, str(refusal))
    except Exception:
        log.exception("a payment by a budget failed; it is tried again")
        await db.run(_try_again, row, UNFORESEEN[1])


async def _signed(row: BudgetPayment) -> JSON | None:
    """What the wallet signs, stored before anybody else sees it. None if others were faster. Raises NotSigned."""
    budget = row.budget
    if budget is None or not budget.is_on:
        raise NotSigned("The budget was switched off or deleted.", is_final=True)
    payload = await wallets.sign(budget, row.requirements, str(row.pk))
    try:
        payments.check_payload(row.requirements, {"metadata": {payments.PAYLOAD: payload}})
    except (InvalidParams, PaymentMissing) as wrong:
        raise NotSigned(f"Its wallet signed something else. {wrong}", is_final=True) from wrong
    unsigned = BudgetPayment.objects.unfinished().filter(pk=row.pk, sealed__isnull=True)
    row.authorization = payments.authorization_of(payload)
    stored = await db.run(unsigned.update, authorization=row.authorization, sealed=json.dumps(payload))
    return payload if stored else None


def _principal_of(task: Task) -> Principal:
    name = task.owner.short_name if task.owner else ""
    return Principal(task.owner_id, task.workspace_id, name=name)


def _message(row: BudgetPayment, task: Task, payload: JSON) -> JSON:
    words = f"The budget “{row.budget}” pays this." if row.budget else "A budget pays this."
    metadata = {payments.STATUS: "payment-submitted", payments.PAYLOAD: payload}
    return compose([{"text": words}], key=f"budget:{row.pk}", task=task.pk, metadata=metadata)


def _try_again(row: BudgetPayment, problem: str) -> None:
    """Later, unless it was tried often."""
    if row.tries >= MOST_TRIES:
        _close(row, problem)
    else:
        _note(row, problem)


def _note(row: BudgetPayment, problem: str) -> None:
    row.retry(_first_wait(), LONGEST_WAIT, reason=problem[:MAX_REASON])


def _close(row: BudgetPayment, reason: str) -> None:
    """Record what became of a payment. `reason` counts if it was not made; then its amount is left again.

    A settled payment that the task still waits for stays due: the money must reach the task.
    """
    paid = Payment.objects.filter(authorization=row.authorization).first() if row.authorization else None
    values: dict[str, Any] = {"state": State.FAILED, "reason": reason[:MAX_REASON]}
    if paid is not None and paid.state == Payment.State.SETTLED:
        if Task.objects.filter(pk=row.task, status_event=row.asked).exists():
            _note(row, reason)
            return
        values |= {"state": State.PAID, "receipt": paid.receipt or None}  # the reason says why the task lacks it
    elif paid is not None and paid.state in (Payment.State.USED, Payment.State.SENT):
        values |= _made(paid.receipt)
    elif paid is not None and (paid.state == Payment.State.UNKNOWN or payments.PAID_BEFORE in paid.error):
        values |= {"state": State.UNKNOWN, "reason": FacilitatorUnreachable.__doc__ or ""}
    elif paid is not None and paid.error:
        values |= {"reason": f"The payment failed: {paid.error}."[:MAX_REASON], "receipt": paid.receipt or None}
    values |= {"sealed": None, "requirements": _kept(row.requirements)}
    with write_transaction():
        # Unless another process has signed meanwhile.
        closed = BudgetPayment.objects.unfinished().filter(pk=row.pk, authorization=row.authorization).update(**values)
        if closed and values["state"] == State.FAILED and row.budget and row.period_began:
            row.budget.give_back(int(row.amount), row.period_began)


def _made(receipt: JSON | None) -> JSON:
    """The fields of a payment that was handed over. That it failed is only a remote agent's word."""
    if not receipt or receipt.get("success") is not False:
        return {"state": State.PAID, "receipt": receipt or None, "reason": ""}
    why = f"The agent says that the payment failed: {receipt.get('errorReason') or 'it does not say why'}."
    return {"state": State.UNKNOWN, "receipt": receipt, "reason": why[:MAX_REASON]}


def note_receipts() -> None:
    """Copy the receipts that remote agents gave meanwhile: a sweep (`parley.registry`)."""
    since = sql.database_time() - datetime.timedelta(days=RECEIPT_DAYS)
    receipts = Payment.objects.filter(authorization=OuterRef("authorization")).exclude(receipt={}).values("receipt")
    waiting = BudgetPayment.objects.filter(state=State.PAID, receipt__isnull=True, created_at__gt=since)
    given = waiting.annotate(given=Subquery(receipts)).filter(given__isnull=False).order_by("created_at")
    for key, receipt in given.values_list("pk", "given")[:MOST_RECEIPTS]:
        waiting.filter(pk=key).update(**_made(receipt))


def note_of(task: uuid.UUID | None, asked: int, slot: JSON | None) -> str:
    """What a question's page says about budgets; "" if there is nothing. A query, and more for a called agent's."""
    if (asking := asking_task(slot)) is not None:
        task, asked = asking.pk, asking.status_event
    rows = BudgetPayment.objects.select_related("budget")
    row = rows.filter(task=task, asked=asked).first() if task is not None else None
    if row is None:
        return ""
    name = f"The budget “{row.budget}”" if row.budget else "A budget"
    match row.state:
        case State.DUE:
            return f"{name} is paying this. {row.reason}".strip()
        case State.PAID:
            return f"{name} paid this. {row.reason}".strip()
        case State.UNKNOWN | State.FAILED:
            return f"{name} did not pay this. {row.reason}" if row.state == State.FAILED else row.reason
    return row.reason
