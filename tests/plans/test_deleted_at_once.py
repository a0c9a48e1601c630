"""Deleting a session and ticking its plan lock in the same order."""

from __future__ import annotations

import time

import pytest
from django.db import connection

from apps.conversations.sessions import deletion
from apps.engine import accept
from apps.plans.models import PlanRun, Step
from apps.plans.running import runs
from apps.plans.running.runs import begin_run
from apps.plans.running.transitions import LOCKED_RUN, decide
from apps.record.models import Context, Task
from parley import db
from parley.db.sql import write_transaction

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("SQLite locks no rows", only=True)]

STEPS = {key: {"agent": "loud", "message": key} for key in ("one", "two", "three")}
# Not by `pg_stat_activity`, which stays the same within a transaction.
WAITS = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"


@pytest.fixture
def run(ada, plan, said):
    agent = plan(STEPS)
    task = Task.objects.get(pk=accept.accept(ada.principal, agent, said("go")).task)
    assert agent.current_version
    begin_run(task, agent.current_version)
    return PlanRun.objects.select_related("task").get(pk=task.pk)


def until_somebody_waits_for_a_lock() -> None:
    deadline = time.monotonic() + 20
    while True:
        with connection.cursor() as cursor:
            cursor.execute(WAITS)
            if cursor.fetchone()[0]:
                return
        assert time.monotonic() < deadline, "nobody waits"
        time.sleep(0.01)  # the other transaction waits in the database


def test_deleting_waits_for_a_tick(ada, run):
    with write_transaction():
        assert LOCKED_RUN.one(run.pk), "as `decide` takes it"
        deleting = db.submit(deletion.delete_session, ada.principal, run.task.context_id)
        until_somebody_waits_for_a_lock()
        assert Step.objects.filter(run=run).update(state=Step.State.STARTING) == len(STEPS)
    deleting.result(20)
    assert not PlanRun.objects.exists()
    assert Context.objects.get().deleted_at


def test_a_tick_waits_for_deleting(run):
    with write_transaction():
        runs.lock_runs([run.task.context_id])
        looking = db.submit(decide, run.pk)
        until_somebody_waits_for_a_lock()
        Task.objects.filter(context=run.task.context).delete()
    assert looking.result(20) is None
    assert not Step.objects.exists()
