"""Steps of a worker, by hand."""

import datetime
import uuid
from typing import Any

from agentkit import Chunk, Emission, Outcome
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine import send
from apps.engine.claim import claim
from apps.engine.finish import Ending, finish
from apps.engine.turns.assignment import Assignment
from apps.engine.turns.recorder import EventBatch, event_of
from apps.engine.turns.turn import execute_turn
from apps.record.execution import Run
from apps.record.models import Event, Task
from apps.record.runs import Lease
from parley import db
from parley.db import sql


def begin(run_id: uuid.UUID | None, worker: str = "") -> Assignment:
    """Claim an available run, for a process that has nothing else."""
    assert run_id is not None
    assignment = claim(run_id, worker or f"a worker:{uuid.uuid4().hex[:6]}:1", alone=True)
    assert assignment is not None
    return assignment


def say(assignment: Assignment, *emissions: Emission) -> None:
    EventBatch(assignment, [event_of(emission) for emission in emissions]).write()


def end(assignment: Assignment, outcome: Outcome | None, **fields: Any) -> uuid.UUID | None:
    """Record the turn's end; returns the next turn's run. Raises LeaseLost."""
    known = {"turn": assignment.turn, "span": assignment.span, "streamed": True}
    ending = Ending(assignment.lease, outcome, **(known | fields))
    return finish(assignment.task, assignment.message, ending)


async def carry_out(run_id: uuid.UUID | None) -> None:
    assignment = await db.run(begin, run_id)
    await execute_turn(assignment, lambda: False)


def chunk(artifact_id: str, text: str, *, append: bool = False, last: bool = True) -> Chunk:
    return Chunk(artifact_id, artifact_id, "", [{"text": text}], append, last)


def let_the_lease_run_out(lease: Lease) -> None:
    past = sql.database_time() - datetime.timedelta(seconds=1)
    Run.objects.filter(pk=lease.run_id, state=Run.State.RUNNING).update(lease_until=past)


def state_of(task_id: uuid.UUID) -> str:
    return Task.objects.get(pk=task_id).state


def types_of(task_id: uuid.UUID) -> list[str]:
    return list(Event.objects.filter(task=task_id).order_by("index").values_list("type", flat=True))


def log_of(context_id: uuid.UUID) -> list[tuple[int, str, Any]]:
    return list(Event.objects.filter(context=context_id).order_by("index").values_list("index", "type", "payload"))


async def worked_on(principal: Principal, agent: Agent, message: dict[str, Any]) -> Task:
    """The task of a message that a running worker has settled."""
    sent = await send.send(principal, agent, message, require_task=True)
    return await send.wait_until_settled(sent.context, sent.task, sent.index, lambda task: task)
