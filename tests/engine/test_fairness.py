"""Workspaces take turns in the queue, and priorities count within a workspace."""

import datetime
import threading
import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agentkit import Completed
from apps.accounts.models import ApiKey
from apps.engine import accept, activity, fairness
from apps.engine.fairness import Turns, Waiting
from apps.engine.queue import Lane
from apps.engine.worker import WorkerProcess
from apps.installation.models import Activity
from apps.record.execution import Run
from tests.working import begin, end

pytestmark = [pytest.mark.django_db, pytest.mark.services("each database chooses by its own SQL")]

CAPACITY = 4
FLOOD = 10 * CAPACITY


@pytest.fixture
def sent(echo, said):
    """Queue runs of a person, as if they had waited for a while."""

    def send(person, count=1, *, agent=echo, priority="normal", **fields):
        runs = [
            accept.accept(person.principal, agent, said(metadata={"priority": priority}), **fields).run
            for _ in range(count)
        ]
        Run.objects.filter(pk__in=runs).update(queued_at=timezone.now() - datetime.timedelta(seconds=30))
        return runs

    return send


@pytest.fixture(autouse=True)
def read_for_each_claim(monkeypatch):
    monkeypatch.setattr(fairness, "KEPT_SECONDS", 0.0)


@pytest.fixture
def turns():
    return Turns()


@pytest.fixture
def claimed(turns):
    """Claim as many runs as messages arrive; each message names a run."""

    def claim(named):
        held = [turns.claim(one, f"worker:{uuid.uuid4().hex}") for one in named]
        return [one for one in held if one is not None]

    return claim


def owners(assignments):
    return [one.task.owner.short_name for one in assignments]


def test_a_tenfold_flood_delays_anothers_first_run_by_one_claim(ada, bob, sent, claimed):
    flood = sent(ada, FLOOD)
    before = claimed(flood[:CAPACITY])
    sent(bob)
    for one in before:
        end(one, Completed("done"))
    after = owners(claimed(flood[CAPACITY : 2 * CAPACITY]))  # Bob's own message is still behind the flood's
    assert "Bob" in after[:2]


def test_workspaces_take_turns_though_runs_end_at_once(ada, bob, sent, turns):
    flood = sent(ada, 6)
    sent(bob, 3)
    order = []
    for named in flood:
        held = turns.claim(named, f"worker:{len(order)}")
        order += owners([held])
        end(held, Completed("done"))
    assert order in (["Ada", "Bob"] * 3, ["Bob", "Ada"] * 3)


def test_who_has_fewer_runs_at_work_is_next(ada, bob, sent, claimed):
    working = sent(ada, 3)
    assert owners(claimed(working)) == ["Ada"] * 3
    flood = sent(ada, 3)
    sent(bob, 3)
    assert owners(claimed(flood)) == ["Bob"] * 3


def test_a_message_is_worth_one_claim_and_no_run_is_left(ada, bob, sent, claimed):
    runs = sent(ada, 3) + sent(bob, 3)
    assert len(claimed(runs)) == len(runs)
    assert not Run.objects.filter(state=Run.State.QUEUED).exists()
    assert claimed(runs) == [], "messages that come again find nothing"
    assert list(Run.objects.exclude(notes=[])) == []


def test_priorities_count_within_a_workspace_only(ada, bob, sent, claimed):
    low, normal, high = (sent(ada, priority=one)[0] for one in ("low", "normal", "high"))
    bobs = sent(bob, priority="low")[0]
    order = [one.lease.run_id for one in claimed([low] * 4)]
    assert [run for run in order if run != bobs] == [high, normal, low]
    assert bobs in order[:2]


def test_what_a_running_turn_waits_for_comes_before_what_has_not_begun(ada, sent, claimed):
    others = sent(ada, 3, priority="high")
    child = sent(ada)[0]
    Run.objects.filter(pk=child).update(priority=Run.Priority.CONTINUED)
    assert claimed(others)[0].lease.run_id == child


def test_agents_and_keys_of_a_workspace_take_turns(ada, echo, countdown, sent, claimed, said):
    flood = sent(ada, 4)
    other = sent(ada, agent=countdown)[0]
    key = ApiKey.issue(ada, "batch")[0]
    keyed = accept.accept(key.principal, echo, said()).run
    assert Lane.read(Run.objects.get(pk=keyed).lane) == Lane(key.workspace_id, echo.pk, str(key))
    assert {other, keyed} < {one.lease.run_id for one in claimed(flood[:3])}


def test_the_next_turn_keeps_lane_and_priority(ada, echo, sent, claimed, said):
    first = claimed(sent(ada, priority="high"))[0]
    accept.accept(ada.principal, echo, said(taskId=str(first.task.pk)))
    following = Run.objects.get(pk=end(first, Completed("one")))
    before = Run.objects.get(pk=first.lease.run_id)
    assert (following.lane, following.priority) == (before.lane, before.priority)


def test_a_paused_agents_queue_is_passed_over(ada, bob, echo, countdown, sent, turns):
    held = sent(ada, 2)
    wanted = sent(bob, agent=countdown)
    activity.set_activity(echo, Activity.PAUSED)
    assert turns.claim(held[0], "one").lease.run_id == wanted[0]
    assert turns.claim(held[0], "two") is None
    activity.set_activity(echo, Activity.ACTIVE)
    assert turns.claim(held[0], "three").lease.run_id == held[0], "though the lane is still passed over"


def test_without_a_backlog_the_named_run_is_claimed_by_the_same_statements(ada, echo, said, django_assert_num_queries):
    named = accept.accept(ada.principal, echo, said()).run
    again = accept.accept(ada.principal, echo, said()).run
    begin(accept.accept(ada.principal, echo, said()).run)  # reads what is kept afterwards
    with CaptureQueriesContext(connection) as alone:
        begin(again)
    with django_assert_num_queries(len(alone)):
        assert Turns().claim(named, "a worker").lease.run_id == named


def test_a_reserved_run_is_nobody_elses_until_the_reservation_ends(ada, sent, turns):
    [run] = sent(ada)
    assert turns.choose() == (run, Run.objects.get().lane)
    assert Turns().choose() is None
    assert Waiting.read().busy.total() == 1
    Run.objects.update(lease_until=timezone.now() - datetime.timedelta(seconds=1))
    assert Turns().choose() is not None


def test_what_waits_is_kept_for_a_moment_and_read_again_before_nothing_is_found(ada, bob, sent, turns, monkeypatch):
    monkeypatch.setattr(fairness, "KEPT_SECONDS", float("inf"))
    sent(ada, 2)
    assert turns.choose()
    [bobs] = sent(bob)
    assert turns.choose()[0] != bobs, "it is not known yet"
    assert turns.choose()[0] == bobs
    assert turns.choose() is None


@pytest.mark.django_db(transaction=True)
def test_workers_that_choose_at_the_same_time_get_different_runs(ada, bob, sent):
    sent(ada, 8), sent(bob, 8)
    chosen, together = [], threading.Barrier(4)

    def choose():
        turns = Turns()
        together.wait(10)
        for _ in range(4):
            chosen.append(turns.choose())
        connection.close()

    threads = [threading.Thread(target=choose) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len({run for run, _ in filter(None, chosen)}) == 16


@pytest.mark.django_db(transaction=True)
def test_a_worker_with_one_slot_serves_the_other_workspace_next(ada, bob, sent, settings):
    settings.RUNS_PER_PROCESS = 1
    flood, [bobs] = sent(ada, 10), sent(bob)
    carrier = WorkerProcess()
    try:
        for named in flood[:3]:
            assert carrier.claim_soon(named).result(20)
    finally:
        carrier.close(10)
    assert Run.objects.get(pk=bobs).started_at is not None
    assert Run.objects.exclude(started_at=None).count() == 3


@pytest.mark.services("PostgreSQL shows its plan", only=True)
def test_the_choice_reads_a_long_queue_by_its_index(db):
    runs = Run.objects.bulk_create(
        Run(task_id=uuid.uuid4(), message_id=uuid.uuid4(), turn=1, lane=f"lane {n % 20}") for n in range(5_000)
    )
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {Run._meta.db_table}")
        cursor.execute("EXPLAIN " + fairness.QUEUE.format(now="clock_timestamp()"))
        plan = "\n".join(row[0] for row in cursor.fetchall())
    Run.objects.filter(pk__in=[run.pk for run in runs])._raw_delete(connection.alias)  # they have no tasks
    assert plan.count("queued_runs") >= 2
    assert "Seq Scan on record_run" not in plan
