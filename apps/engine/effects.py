"""The ledger of a task's outside effects: one row each, claimed before the effect and settled after it."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

import db
from agentkit.effects import Claim
from apps.engine.assignment import Assignment
from apps.engine.output import MAX_MEMORY_BYTES, clean
from apps.record.execution import Effect, Run
from apps.record.runs import LeaseLost
from db.sql import write_transaction


@dataclass(frozen=True)
class TaskEffects:
    """The effects of a turn's task (see `agentkit.effects.Effects`).

    Only a run that holds its lease claims. A result is a fact, so it is stored even if the lease is lost meanwhile,
    unless another attempt has claimed the effect instead.
    """

    assignment: Assignment

    async def claim(self, name: str, key: str, instead_of: str | None = None) -> Claim:
        """Raises LeaseLost."""
        return await db.persist(_claim, self.assignment, name, key, uuid.uuid4(), instead_of)

    async def settle(self, claim: str, result: Any) -> Any:
        """Raises ValueError for what is not JSON or larger than a memory may be."""
        kept = self.assignment.redaction(clean(result))
        if len(json.dumps(kept, ensure_ascii=False).encode()) > MAX_MEMORY_BYTES:
            raise ValueError("The result of an effect is at most 64 KiB of JSON.")
        await db.persist(_settle, claim, kept)
        return kept

    async def release(self, claim: str) -> None:
        await db.persist(_release, claim)


def _claim(assignment: Assignment, name: str, key: str, claim: uuid.UUID, instead_of: str | None) -> Claim:
    lease, task = assignment.lease, assignment.task.pk
    with write_transaction():
        if not Run.objects.filter(pk=lease.run_id, fence=lease.fence, state=Run.State.RUNNING).exists():
            raise LeaseLost
        if instead_of is not None:
            unsettled = Effect.objects.filter(claim=instead_of, finished_at=None)
            unsettled.update(claim=claim, started_at=timezone.now())
        else:
            row = Effect(task_id=task, name=name, key=key, claim=claim)
            Effect.objects.bulk_create([row], ignore_conflicts=True)
        held = Effect.objects.filter(task=task, name=name, key=key).first()
    if held is None:  # released at this moment by an attempt that goes on
        return Claim(str(claim), "unknown")
    if held.finished_at is not None:
        return Claim(str(held.claim), "done", held.result)
    return Claim(str(held.claim), "new" if held.claim == claim else "unknown")


def _settle(claim: str, result: Any) -> None:
    Effect.objects.filter(claim=claim, finished_at=None).update(result=result, finished_at=timezone.now())


def _release(claim: str) -> None:
    Effect.objects.filter(claim=claim, finished_at=None).delete()
