"""Wallets: services that sign a payment for what a task asks. Parley has no keys of its own.

A wallet is a URL, or a name in PAYMENT_WALLETS, which stands for a URL or for the dotted path of an async function

    async def sign(requirements: dict, key: str) -> dict: ...

that does the same: it returns x402's payment payload (`x402Version`, `scheme`, `network`, `payload`). A URL gets

    POST {"x402Version": 1, "paymentRequirements": {…}, "idempotencyKey": "…"}

with the key also in the header `Idempotency-Key`. For one key a wallet signs once, and then returns the same.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from apps.engine.turns.payments import VERSION
from apps.payments.models import PaymentBudget
from apps.record.events import JSON
from parley import outbound
from parley.outbound.targets import allowed_hosts

MAX_ANSWER = 64 * 1024  # bytes
PASSING = (408, 409, 425, 429)  # statuses after which a wallet may sign later


class NotSigned(Exception):
    """The wallet signed nothing; `str()` is a sentence for people. `is_final`: asking it again leads to the same."""

    def __init__(self, sentence: str, *, is_final: bool = False) -> None:
        super().__init__(sentence)
        self.is_final = is_final


async def sign(budget: PaymentBudget, requirements: JSON, key: str) -> JSON:
    """What a budget's wallet signs for these requirements. Raises NotSigned."""
    named = settings.PAYMENT_WALLETS.get(budget.wallet, "")
    try:
        if named and "://" not in named:
            async with asyncio.timeout(settings.PAYMENT_SECONDS):
                return dict(await import_string(named)(requirements, key))
        also = allowed_hosts(named)  # an operator's wallet may be in a private network
        return await _ask(named or budget.wallet, budget.secret, requirements, key, also)
    except NotSigned:
        raise
    except outbound.Forbidden as refusal:
        raise NotSigned(f"Its wallet may not be called: {refusal}", is_final=True) from refusal
    except Exception as error:
        raise NotSigned("Its wallet does not answer.") from error


async def _ask(url: str, secret: str, requirements: JSON, key: str, also: list[str]) -> JSON:
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    if secret:
        headers["Authorization"] = f"Bearer {secret}"
    body = {"x402Version": VERSION, "paymentRequirements": requirements, "idempotencyKey": key}
    limits = outbound.Limits(seconds=settings.PAYMENT_SECONDS, bytes=MAX_ANSWER)
    async with (
        outbound.exchange(limits, also=also) as way,
        way.send("POST", url, headers, json.dumps(body).encode()) as answer,
    ):
        content = await answer.read()
    if 400 <= answer.status < 500 and answer.status not in PASSING:
        raise NotSigned(f"Its wallet refuses to sign (HTTP {answer.status}).", is_final=True)
    signed: Any = json.loads(content)
    if answer.status != 200 or not isinstance(signed, dict):
        raise ValueError(f"the wallet answered with the status {answer.status}")
    return signed
