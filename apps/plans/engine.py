"""Looking at a run of a plan: what is decided under its lock, and then what follows outside of it.

What follows (sending, canceling, telling) is idempotent: the next who looks does again what was interrupted.
"""

from __future__ import annotations

import math
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.db.models import Q

from agentkit import Failed
from apps.engine import canceling, finish, suspending
from apps.engine.delegation import question_of
from apps.plans import concluding, sending
from apps.plans.board import Board
from apps.plans.deciding import Decision, Over, decide, reread
from apps.plans.models import PlanRun, Step
from apps.record.errors import Refusal
from apps.record.models import Context, Task
from db import statements

AWAY = (OperationalError, InterfaceError, ConnectionError, TimeoutError)
"""What a database or a broker that is away raises: that says nothing of the run."""

MOST_FAILURES = 5  # of looks at a run one after the other, as far apart as sweeps are
GIVEN_UP = "Parley could not go on with this plan. Whoever operates it finds why in its log."

MOST_LOOKS = 200  # in one go: the sweep goes on with a run that does not come to rest

_failures: dict[uuid.UUID, Failures] = {}  # of the looks of this process, since the last that went well


@dataclass
class Failures:
    """How often looks failed, and when (`time.monotonic`) that was counted last."""

    number: int = 0
    counted_at: float = -math.inf

    def count(self) -> None:
        now = time.monotonic()
        if now - self.counted_at >= settings.SWEEP_SECONDS:
            self.number, self.counted_at = self.number + 1, now


def advance(run_id: uuid.UUID) -> None:
    """Move a run on as far as it goes now. Anybody may do so at any time, several at once.

    One that cannot be moved on, however often this process tries, ends: nobody waits for it in vain.
    """
    try:
        for _ in range(MOST_LOOKS):
            decision = decide(run_id)
            if decision is None or not _carry_out(decision):
                _failures.pop(run_id, None)
                return
        PlanRun.objects.filter(pk=run_id).update(advanced_at=None)
    except (Context.DoesNotExist, Task.DoesNotExist, PlanRun.DoesNotExist):
        _failures.pop(run_id, None)  # it was cleared just now
    except AWAY:
        _put_back(run_id)
        raise
    except Exception:
        failures = _failures.setdefault(run_id, Failures())
        failures.count()
        if failures.number < MOST_FAILURES:
            _put_back(run_id)
        else:
            _give_up(run_id)
        raise


def _put_back(run_id: uuid.UUID) -> None:
    """The sweep comes to others first; one that is to be looked at whatever its steps are stays so."""
    looked_at = PlanRun.objects.filter(pk=run_id, advanced_at__isnull=False)
    looked_at.update(advanced_at=statements.database_time())


def _give_up(run_id: uuid.UUID) -> None:
    task = reread(run_id)
    if task is not None:
        finish.record(task, Failed(GIVEN_UP, "engine_error"))  # whoever looks next closes the run
    _failures.pop(run_id, None)


def _carry_out(decision: Decision | Over) -> bool:
    """Do what was decided; True where it is to be looked at again."""
    if isinstance(decision, Over):
        canceling.cancel_children(decision.task)
        return False
    board = decision.board
    task = board.run.task
    if decision.failed is not None:
        failed = Failed(concluding.sentence_of_failure(board, decision.failed), "step_failed")
        return finish.record(task, failed)
    if decision.is_done:
        return finish.record(task, concluding.completed(board))
    for unwanted in board.unwanted:
        _cancel(unwanted)
    again = decision.is_spent
    if board.plan.definition.answering:
        again |= sending.pass_answers_on(board.run)
    if board.starting:
        again |= sending.start_all(board.run, board.starting)
    if decision.asking is not None and _ask(board, decision.asking):
        return True  # by then others may ask, too
    concluding.tell(board)
    return again


def _cancel(key: uuid.UUID) -> None:
    task = reread(key)
    if task is not None:
        with suppress(Refusal):  # it has ended just now
            canceling.cancel_found(task)


def _ask(board: Board, asking: uuid.UUID) -> bool:
    """Put the question of a child on the plan's task; True where the task asks now, whoever put it there."""
    child, task = reread(asking), board.run.task
    if child is None or not child.slot or not Step.objects.filter(run=task.pk, state=Step.State.ASKING).exists():
        return False
    if finish.record(task, concluding.with_others(question_of(child), board), child):
        concluding.told_others(board)
        suspending.take_along(Q(task=task.pk))  # the child may have gone on just before
    return True
