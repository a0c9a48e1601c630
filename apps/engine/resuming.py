"""Letting a task that waits go on without a new message: what it waited for came by another way."""

from __future__ import annotations

import uuid

from apps.engine import accept
from apps.engine.queue import publish
from apps.record import ledger
from apps.record.events import EventType
from apps.record.ledger import Ledger
from apps.record.lifecycle import TaskState
from apps.record.models import Context, Task


def resume(task_id: uuid.UUID, *, because: str) -> bool:
    """Let a task in input-required or auth-required go on; False where it does not wait, or no longer.

    However many do so at once, there is one turn. `because`, a few words without secrets, goes into the log.
    Call it outside a transaction: it names the run to the workers when it is committed.
    """
    context_id = Task.objects.filter(pk=task_id).values_list("context_id", flat=True).first()
    if context_id is None:
        return False
    try:
        with ledger.writing(context_id) as log:
            run = go_on(log, task_id, because=because)
    except (Context.DoesNotExist, Task.DoesNotExist):  # it was cleared or deleted just now
        return False
    if run is None:
        return False
    publish(run)
    return True


def go_on(log: Ledger, task_id: uuid.UUID, *, because: str) -> uuid.UUID | None:
    """The same within a transaction; gives the run, to be published after the commit, or None.

    The turn has the message of the one before, whose question it answers. Raises Task.DoesNotExist.
    """
    task = log.task(task_id)
    if not TaskState(task.state).is_interrupted:
        return None
    slot = task.slot
    log.add(EventType.AGENT_STATUS, {"state": TaskState.WORKING, "because": because}, task=task_id)
    run = accept.next_run(task_id, None, slot)
    log.also_insert(run)
    return run.pk
