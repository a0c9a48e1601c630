"""A Celery task: pay by budgets."""

from __future__ import annotations

import asyncio

from celery import shared_task

from apps.features.payments import paying


@shared_task(name=paying.PAY_TASK)  # type: ignore[untyped-decorator]
def pay() -> int:
    """Makes the payments that budgets have reserved. It may run twice: each payment is claimed once."""
    return asyncio.run(paying.pay_due())
