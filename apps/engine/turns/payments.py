"""Payment as a state: a task waits until its client has paid, by the x402 extension of A2A.

The slot of such a question has `payment`, which only the platform writes, so that no agent can claim a payment. The
payload of a client (a signed authorization) is verified and settled by the facilitator of this installation before its
message is recorded, and never enters the log. The log has the receipt.

A payload for a remote or a called agent is sealed: encrypted beside the log until it is handed on, then forgotten.
"""

from __future__ import annotations

import datetime
import json
import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import IntegrityError

from agentkit import PaymentRequired
from apps.agents import cards
from apps.agents.models import Agent
from apps.record.content.strict_json import digest_of
from apps.record.errors import (
    AlreadyAnswered,
    FacilitatorUnreachable,
    InvalidParams,
    NotAccepting,
    PaymentMissing,
    PaymentUnderWay,
    PaymentUsed,
)
from apps.record.events import JSON
from apps.record.execution import MAX_ADDRESS, MAX_AMOUNT, Payment
from apps.record.models import TERMINAL_STATES, Task, TaskState
from parley import outbound
from parley.db import sql
from parley.db.sql import write_transaction
from parley.outbound.targets import allowed_hosts

log = logging.getLogger("parley.engine")

PREFIX = "x402.payment."
STATUS, REQUIRED, PAYLOAD = f"{PREFIX}status", f"{PREFIX}required", f"{PREFIX}payload"
RECEIPTS, ERROR, AUTHORIZATION = f"{PREFIX}receipts", f"{PREFIX}error", f"{PREFIX}authorization"
VERSION, SCHEME, REJECTED = 1, "exact", "payment-rejected"
OFF = "This agent asks for a payment, but this installation takes none. An operator can set PAYMENTS_FACILITATOR."
ASKING = ("payment-required", "payment-failed")
MAX_RECEIPT = 500  # characters of one value
MAX_REASON = 200
PAID_BEFORE = ". An earlier try may have paid: look at the account before you pay again"


class NotPaid(NotAccepting):
    """The facilitator cannot be reached, so nothing was paid. Send the payment again later."""


def is_on() -> bool:
    return bool(settings.PAYMENTS_FACILITATOR)


def requirements(outcome: PaymentRequired) -> JSON:
    """What is asked for, as one of x402's `accepts`, still without its `resource`."""
    return {
        "scheme": SCHEME,
        "network": outcome.network,
        "asset": outcome.asset,
        "payTo": outcome.pay_to,
        "maxAmountRequired": outcome.amount,
        "description": outcome.description,
        "mimeType": "application/json",
        "maxTimeoutSeconds": outcome.seconds,
        "extra": outcome.extra,
    }


def asked_of(task: Task, slot: JSON) -> JSON:
    """The slot of a question that asks for a payment, for this task."""
    return slot | {"payment": slot["payment"] | {"resource": cards.agent_url(task.agent)}}


def asks_payment(slot: JSON | None) -> bool:
    return slot is not None and "payment" in slot


def question_metadata(slot: JSON) -> JSON:
    """Of a message that asks for a payment."""
    return {STATUS: "payment-required", REQUIRED: {"x402Version": VERSION, "accepts": [slot["payment"]]}}


def metadata_of(task: Task) -> JSON:
    """Of the messages of a task that was paid for. A query if payments are on."""
    if not is_on():
        return {}
    tried = Payment.objects.filter(task=task.pk).exclude(state=Payment.State.UNKNOWN).order_by("pk")
    receipts = [one for one in tried.values_list("receipt", flat=True) if one]
    is_paid = any(one["success"] for one in receipts)
    return {STATUS: "payment-completed" if is_paid else "payment-failed", RECEIPTS: receipts} if receipts else {}


def choices_in(slot: JSON | None, message: JSON | None) -> list[JSON]:
    """What a waiting task takes as a payment: what is asked here, or the choices of a remote or a called agent."""
    if slot is None:
        return []
    if "payment" in slot:
        return [slot["payment"]]
    metadata = (message or {}).get("metadata") or {}
    required = metadata.get(REQUIRED)
    accepts = required.get("accepts") if isinstance(required, dict) else None
    is_asking = isinstance(accepts, list) and metadata.get(STATUS) in ASKING
    return [one for one in accepts or () if isinstance(one, dict)] if is_asking else []


def price_in(slot: JSON | None, message: JSON | None) -> JSON | None:
    """What a waiting task asks to be paid, to be shown: the first choice."""
    return next(iter(choices_in(slot, message)), None)


def asks_anew(message: JSON | None) -> bool:
    """Does a question ask for a payment that was not tried before?"""
    return ((message or {}).get("metadata") or {}).get(STATUS) == ASKING[0]


def speaks_of_payment(outcome: object) -> bool:
    """May the record of an outcome write more than the log, because it asks for a payment or has a receipt?"""
    metadata = getattr(outcome, "message_metadata", None) or {}
    return isinstance(outcome, PaymentRequired) or is_spoken_of(metadata)


def is_spoken_of(metadata: Mapping[str, Any]) -> bool:
    """Does the metadata of a message say something about payments?"""
    return any(str(name).startswith(PREFIX) for name in metadata)


def passed_on(child: Task) -> JSON:
    """Of the message in which a task asks what the called agent's task `child` asks: its price, if it has one."""
    metadata = (child.status_message or {}).get("metadata") or {}
    if metadata.get(STATUS) not in ASKING:
        return {}
    return {name: metadata[name] for name in (STATUS, REQUIRED, ERROR) if name in metadata}


def receipt_in(payload: JSON) -> JSON | None:
    """The receipt of the payment by which a task goes on, in the payload of its status."""
    metadata = (payload.get("message") or {}).get("metadata", {})
    if payload["state"] != TaskState.WORKING or metadata.get(STATUS) != "payment-completed":
        return None
    return next((one for one in reversed(metadata[RECEIPTS]) if one["success"]), None)


def without_payments(metadata: Mapping[str, Any]) -> JSON:
    """Metadata of an agent or a user without what only the platform may say about payments."""
    return {name: value for name, value in metadata.items() if not str(name).startswith(PREFIX)}


def payload_in(message: JSON) -> JSON | None:
    """What a payer signed, if a message brings it."""
    payload = (message.get("metadata") or {}).get(PAYLOAD)
    return payload if isinstance(payload, dict) and isinstance(payload.get("payload"), dict) else None


def storable(agent: Agent, message: JSON) -> JSON:
    """A user's message with a digest instead of the payload. All else that is for a remote agent stays."""
    metadata = message.get("metadata") or {}
    if not any(name.startswith(PREFIX) for name in metadata):
        return message
    is_remote, payload = agent.kind == Agent.Kind.REMOTE, payload_in(message)
    kept = {name: value for name, value in metadata.items() if name not in (PAYLOAD, AUTHORIZATION)}
    kept = kept if is_remote else without_payments(kept)
    if payload is not None:
        kept |= {STATUS: "payment-submitted", AUTHORIZATION: authorization_of(payload)}
    elif is_rejected(message):
        kept[STATUS] = REJECTED
    return {**message, "metadata": kept}


def seal(task: uuid.UUID, asked: int, choices: Sequence[JSON], payload: JSON) -> Payment | None:
    """Keep a payload for a remote or a called agent's task until it is handed on. Returns a new row to insert, if any.

    Call it in the transaction that records the message. Raises PaymentUsed.
    """
    key, sealed = authorization_of(payload), json.dumps(payload)
    row = Payment.objects.filter(authorization=key).first()
    if row is None:
        sent = {"state": Payment.State.SENT, "claimed_until": sql.database_time(), "sealed": sealed}
        return Payment(task_id=task, authorization=key, asked=asked, **_terms(choices, payload), **sent)
    if row.task_id != task or row.state not in (Payment.State.SENT, Payment.State.SETTLED, Payment.State.FAILED):
        raise PaymentUsed
    Payment.objects.filter(pk=row.pk).update(sealed=sealed)
    return None


def _terms(choices: Sequence[JSON], payload: JSON) -> dict[str, str]:
    """What is paid, by the choice that a payload is for, and by what was signed."""
    network, signed = payload.get("network"), payload["payload"].get("authorization")
    signed = signed if isinstance(signed, dict) else {}
    chosen = next((one for one in choices if one.get("network") == network), {})
    told = {"amount": signed.get("value", chosen.get("maxAmountRequired")), "asset": chosen.get("asset")}
    told |= {"network": network, "pay_to": signed.get("to", chosen.get("payTo"))}
    return {name: str(value or "")[: MAX_AMOUNT if name == "amount" else MAX_ADDRESS] for name, value in told.items()}


def with_payload(metadata: Mapping[str, Any], task: uuid.UUID) -> JSON:
    """Metadata of a stored message with what was sealed for the task, to hand it on. A query if it is a payment."""
    key = metadata.get(AUTHORIZATION)
    if key is None:
        return dict(metadata)
    others = {name: value for name, value in metadata.items() if name != AUTHORIZATION}
    sealed = Payment.objects.filter(authorization=key, task=task).values_list("sealed", flat=True).first()
    return others | ({PAYLOAD: json.loads(sealed)} if sealed else {})


def forget_payloads(**which: Any) -> None:
    """Forget what was sealed for these payments, because it was handed on or nobody needs it any more."""
    Payment.objects.filter(sealed__isnull=False, **which).update(sealed=None)


def forget_unneeded() -> None:
    """A sweep (`parley.registry`): forget what was sealed for tasks that have ended."""
    forget_payloads(task__state__in=TERMINAL_STATES)


def note_receipt(task: Task, message: JSON) -> None:
    """Keep the last receipt that a remote agent gives for the payments that were sent to it."""
    receipts = (message.get("metadata") or {}).get(RECEIPTS)
    receipt = receipts[-1] if isinstance(receipts, list) and receipts else None
    if isinstance(receipt, dict):
        names = ("success", "transaction", "network", "payer", "errorReason")
        kept = {name: receipt[name] for name in names if isinstance(receipt.get(name), bool | str)}
        kept = {name: value[:MAX_RECEIPT] if isinstance(value, str) else value for name, value in kept.items()}
        newest = Payment.objects.filter(task=task.pk, state=Payment.State.SENT).order_by("-pk").first()
        if newest is not None:
            Payment.objects.filter(pk=newest.pk).update(receipt=kept)


def is_rejected(message: JSON) -> bool:
    """Does the client say that it will not pay?"""
    return (message.get("metadata") or {}).get(STATUS) == REJECTED


def check_payload(asked: JSON, message: JSON) -> JSON:
    """The payload in a message, which pays what is asked. Raises PaymentMissing, InvalidParams."""
    payload = (message.get("metadata") or {}).get(PAYLOAD)
    if payload is None:
        raise PaymentMissing
    field, signed = f"metadata.{PAYLOAD}", payload.get("payload") if isinstance(payload, dict) else None
    if not isinstance(payload, dict) or not isinstance(signed, dict):
        raise InvalidParams("Send the payment as x402 describes it: x402Version, scheme, network and payload.", field)
    told = {"x402Version": VERSION, "scheme": asked["scheme"], "network": asked["network"]}
    found: JSON = {name: payload.get(name) for name in told}
    if isinstance(authorization := signed.get("authorization"), dict):  # EVM; the facilitator reads the others
        told |= {"to": asked["payTo"], "value": asked["maxAmountRequired"]}
        found |= {name: str(authorization.get(name, "")) for name in ("to", "value")}
    told, found = told | {"asset": asked["asset"]}, found | {"asset": signed.get("asset", asked["asset"])}
    for name, value in told.items():
        if found[name] != value and str(found[name]).casefold() != str(value).casefold():
            raise InvalidParams(f"The task asks for {name} {value}; this payment has {str(found[name])[:100]}.", field)
    return payload


def authorization_of(payload: JSON) -> str:
    """The digest of what its payer signed: x402's nonce makes it unique."""
    signed = payload["payload"].get("authorization")
    if not isinstance(signed, dict):
        return digest_of(payload["payload"])
    return digest_of([str(one).casefold() for one in (payload.get("network"), signed.get("from"), signed.get("nonce"))])


@dataclass(frozen=True, slots=True)
class Claim:
    """A payment that this process may bring to the facilitator."""

    row: int
    payload: JSON
    asked: JSON
    is_repeated: bool = False  # the result of an earlier try is unknown


def claim(task: Task, message: JSON) -> Claim | None:
    """Claim the payment in a message to a task that asks for one; None if it is settled already.

    Raises PaymentMissing, InvalidParams, PaymentUsed, PaymentUnderWay, AlreadyAnswered.
    """
    asked: JSON = (task.slot or {})["payment"]
    payload = check_payload(asked, message)
    now = sql.database_time()
    fresh = {
        "task": task,
        "asked": task.status_event,
        "state": Payment.State.UNKNOWN,
        "claimed_until": now + datetime.timedelta(seconds=4 * settings.PAYMENT_SECONDS),
        **_terms([asked], payload),
    }
    key = authorization_of(payload)
    try:
        with write_transaction():
            row = Payment.objects.select_for_update().filter(authorization=key).first()
            if row is not None:
                if row.state == Payment.State.USED or (row.task_id != task.pk and row.state != Payment.State.FAILED):
                    raise PaymentUsed
                if row.state == Payment.State.SETTLED:
                    return None
                if row.state == Payment.State.UNKNOWN and row.claimed_until > now:
                    raise PaymentUnderWay
                Payment.objects.filter(pk=row.pk).update(**fresh)
            claimed = row or Payment.objects.create(authorization=key, **fresh)
            # Only now, because one payment of a task at a time is claimed (`one_unknown_payment_per_task`), and in this
            # order: one that was settled before is settled still, or was used, and then the task asks no longer.
            if Payment.objects.filter(task=task, state=Payment.State.SETTLED).exists():
                raise PaymentUnderWay
            if not Task.objects.filter(pk=task.pk, status_event=task.status_event).exists():
                raise AlreadyAnswered
            is_repeated = row is not None and row.state == Payment.State.UNKNOWN
            return Claim(claimed.pk, payload, asked, is_repeated)
    except IntegrityError:
        raise PaymentUnderWay from None


@dataclass(frozen=True, slots=True)
class Result:
    """`error`: why the payment failed; "" if it was made."""

    receipt: JSON
    error: str = ""


async def bring(claimed: Claim) -> Result:
    """Have the facilitator verify and settle a payment.

    Raises FacilitatorUnreachable: then the result is unknown. Raises NotPaid: then nothing was paid.
    """
    body = {"x402Version": VERSION, "paymentPayload": claimed.payload, "paymentRequirements": claimed.asked}
    limits = outbound.Limits(seconds=settings.PAYMENT_SECONDS, bytes=64 * 1024)
    is_unknown = claimed.is_repeated
    try:
        async with outbound.exchange(limits, also=allowed_hosts(settings.PAYMENTS_FACILITATOR)) as way:
            verified = await _ask(way, "verify", body)
            if verified.get("isValid") is not True:
                return _failed(claimed, verified.get("invalidReason"))
            is_unknown = True
            settled = await _ask(way, "settle", body)
    except (outbound.OutboundError, ValueError) as error:
        log.warning("a payment of %s: %s", claimed.asked["resource"], error)
        raise (FacilitatorUnreachable if is_unknown else NotPaid) from error
    if settled.get("success") is not True:
        return _failed(claimed, settled.get("errorReason"))
    told = {name: str(settled.get(name) or "")[:MAX_RECEIPT] for name in ("transaction", "payer")}
    return Result({"success": True, "network": claimed.asked["network"], **told})


async def _ask(way: outbound.Exchange, what: str, body: JSON) -> JSON:
    """Raises OutboundError, ValueError."""
    url, headers = f"{settings.PAYMENTS_FACILITATOR}/{what}", {"Content-Type": "application/json"}
    async with way.send("POST", url, headers, json.dumps(body).encode()) as answer:
        content = await answer.read()
    told = json.loads(content)
    if answer.status >= 500 or not isinstance(told, dict) or not {"isValid", "success"} & told.keys():
        raise ValueError(f"{what}: the facilitator answered with the status {answer.status}")
    return told


def _failed(claimed: Claim, reason: object) -> Result:
    error = str(reason or "unexpected_error")[:MAX_REASON]
    receipt = {"success": False, "transaction": "", "network": claimed.asked["network"], "errorReason": error}
    return Result(receipt, f"{error}{PAID_BEFORE if claimed.is_repeated else ''}")


def keep(claimed: Claim, result: Result) -> None:
    state = Payment.State.FAILED if result.error else Payment.State.SETTLED
    Payment.objects.filter(pk=claimed.row).update(state=state, receipt=result.receipt, error=result.error)


def let_go(claimed: Claim) -> None:
    """Nothing was paid, so that this payment or another may come."""
    Payment.objects.filter(pk=claimed.row).update(state=Payment.State.FAILED, asked=0)


def result_for(task: Task, stored: JSON) -> Result:
    """What the facilitator said about the payment in a message, as it is stored. It counts from now on.

    Call it in the transaction that records the message. Raises PaymentMissing.
    """
    key = (stored.get("metadata") or {}).get(AUTHORIZATION, "")
    row = Payment.objects.filter(authorization=key, task=task.pk).first()
    has_failed = row is not None and row.state == Payment.State.FAILED and row.asked == task.status_event
    if row is None or not (has_failed or row.state == Payment.State.SETTLED):
        raise PaymentMissing("" if is_on() else OFF)
    Payment.objects.filter(pk=row.pk).update(sealed=None, **({} if has_failed else {"state": Payment.State.USED}))
    return Result(row.receipt, row.error)


def result_metadata(task: Task, result: Result) -> JSON:
    """Of the message that tells what became of a payment."""
    told = metadata_of(task)
    return told | {STATUS: "payment-failed", ERROR: result.receipt["errorReason"]} if result.error else told
