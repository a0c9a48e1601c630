"""The ledger of a task's outside effects: one row each, claimed before the effect and settled after it."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace
from typing import Any

from django.utils import timezone

from agentkit import ToolCall, ToolResult
from agentkit.effects import Claim
from apps.engine.turns.assignment import Assignment
from apps.engine.turns.output import MAX_MEMORY_BYTES, clean
from apps.engine.turns.recorder import Recorder, event_of
from apps.record.execution import Effect, Run
from apps.record.runs import LeaseLost
from parley import db
from parley.db.sql import write_transaction


@dataclass(frozen=True)
class TaskEffects:
    """The effects of a turn's task (see `agentkit.effects.Effects`). In the log, they are calls of tools.

    Only a run that holds its lease claims. A result is a fact, so it is stored even if the lease is lost meanwhile,
    unless another attempt has claimed the effect instead.
    """

    assignment: Assignment
    recorder: Recorder

    async def claim(self, name: str, key: str, instead_of: str | None = None) -> Claim:
        """Raises LeaseLost."""
        held = await db.persist(_claim, self.assignment, name, key, uuid.uuid4(), instead_of)
        if held.state == "new":
            await self._record(ToolCall(held.id, name, {"key": key}))
        return held

    async def settle(self, claim: Claim, result: Any) -> Any:
        """Raises ValueError for what is not JSON or larger than a memory may be, and LeaseLost once it is stored."""
        kept = self.assignment.redaction(clean(result))
        if len(json.dumps(kept, ensure_ascii=False).encode()) > MAX_MEMORY_BYTES:
            raise ValueError("The result of an effect is at most 64 KiB of JSON.")
        await db.persist(_settle, claim.id, kept)
        await self._record(ToolResult(claim.id, claim.name, kept))
        return kept

    async def release(self, claim: Claim, why: str) -> None:
        """Raises LeaseLost once it is released."""
        await db.persist(_release, claim.id)
        await self._record(ToolResult(claim.id, claim.name, why, is_error=True))

    async def _record(self, emission: ToolCall | ToolResult) -> None:
        checked = await self.recorder.checked(emission)
        hidden: dict[str, Any] = {"arguments": {}} if isinstance(emission, ToolCall) else {"result": None}
        await self.recorder.record_now(event_of(checked or replace(emission, **hidden)))


def _claim(assignment: Assignment, name: str, key: str, claim: uuid.UUID, instead_of: str | None) -> Claim:
    lease, task = assignment.lease, assignment.task.pk
    with write_transaction():
        if not Run.objects.filter(**lease.is_held, state=Run.State.RUNNING).exists():
            raise LeaseLost
        if instead_of is not None:
            unsettled = Effect.objects.filter(claim=instead_of, finished_at=None)
            unsettled.update(claim=claim, started_at=timezone.now())
        else:
            row = Effect(task_id=task, name=name, key=key, claim=claim)
            Effect.objects.bulk_create([row], ignore_conflicts=True)
        held = Effect.objects.filter(task=task, name=name, key=key).first()
    if held is None:  # released at this moment by an attempt that goes on
        return Claim(str(claim), name, "unknown")
    if held.finished_at is not None:
        return Claim(str(held.claim), name, "done", held.result)
    return Claim(str(held.claim), name, "new" if held.claim == claim else "unknown")


def _settle(claim: str, result: Any) -> None:
    Effect.objects.filter(claim=claim, finished_at=None).update(result=result, finished_at=timezone.now())


def _release(claim: str) -> None:
    Effect.objects.filter(claim=claim, finished_at=None).delete()
