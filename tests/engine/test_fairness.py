"""Workspaces take turns in the queue, priorities count within one, and limits hold runs back."""

import datetime
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from django.db import connection
from django.utils import timezone

from agentkit import Completed
from apps.accounts.models import ApiKey, User
from apps.engine import accept, fairness
from apps.engine.fairness import Turns, Waiting
from apps.engine.queue import Lane
from apps.engine.worker import WorkerProcess
from apps.limits.models import Limit
from apps.record.execution import Run
from tests.working import end

pytestmark = [pytest.mark.django_db, pytest.mark.services("each database chooses by its own SQL")]

CAPACITY = 4
FLOOD = 10 * CAPACITY


@pytest.fixture
def sent(echo, said):
    """Queue runs of a person, as if they had waited for a while."""

    def send(person, count=1, *, agent=echo, priority="normal"):
        message = {"metadata": {"priority": priority}}
        runs = [accept.accept(person.principal, agent, said(**message)).run for _ in range(count)]
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


def together(*works):
    """Do it in threads that begin at the same moment."""
    ready = threading.Barrier(len(works))

    def work(call):
        ready.wait(10)
        call()
        connection.close()

    with ThreadPoolExecutor(len(works)) as threads:
        list(threads.map(work, works))


def test_tenfold_flood_delays_others_by_one_claim(ada, bob, sent, claimed):
    flood = sent(ada, FLOOD)
    before = claimed(flood[:CAPACITY])
    sent(bob)
    for one in before:
        end(one, Completed("done"))
    after = owners(claimed(flood[CAPACITY : 2 * CAPACITY]))  # Bob's own message is still behind the flood's
    assert "Bob" in after[:2]


def test_each_message_is_worth_one_claim(ada, bob, sent, claimed):
    first = claimed(sent(ada, 3))
    runs = sent(ada, 3) + sent(bob, 3)
    assert owners(first + claimed(runs)) == ["Ada"] * 3 + ["Bob"] * 3 + ["Ada"] * 3, "fewer running runs come first"
    assert not Run.objects.filter(state=Run.State.QUEUED).exists()
    assert claimed(runs) == [], "messages that come again find nothing"
    assert list(Run.objects.exclude(notes=[])) == []


def test_messages_used_by_others_leave_no_run_behind(ada, bob, sent, turns, monkeypatch):
    """After the reading, others take all that was found, one by the message of a run that came since."""
    behind, read = Turns(is_behind=True), Waiting.read
    eve = User.objects.create_user("eve@example.org", name="Eve")
    first, own = sent(ada)[0], sent(bob)[0]

    def read_and_lose(after=""):
        found = read(after)
        monkeypatch.setattr(Waiting, "read", read)
        assert Turns().claim(first, "a worker:1").lease.run_id == first
        late = sent(eve)[0]
        assert behind.claim(late, "a worker:2").lease.run_id == own
        return found

    monkeypatch.setattr(Waiting, "read", read_and_lose)
    turns.is_behind = True
    assert turns.claim(own, "a worker:3") is not None
    assert not Run.objects.filter(state=Run.State.QUEUED).exists()


def test_priorities_count_within_a_workspace_only(ada, bob, sent, claimed):
    low, normal, high, awaited = (sent(ada, priority=one)[0] for one in ("low", "normal", "high", "normal"))
    Run.objects.filter(pk=awaited).update(priority=Run.Priority.CONTINUED)
    bobs = sent(bob, priority="low")[0]
    order = [one.lease.run_id for one in claimed([low] * 5)]
    assert [run for run in order if run != bobs] == [awaited, high, normal, low]
    assert bobs in order[:2]


def test_agents_and_keys_of_a_workspace_take_turns(ada, echo, countdown, sent, claimed, said):
    flood = sent(ada, 4)
    other = sent(ada, agent=countdown)[0]
    key = ApiKey.issue(ada, "batch")[0]
    keyed = accept.accept(key.principal, echo, said()).run
    assert Lane.read(Run.objects.get(pk=keyed).lane) == Lane(key.workspace_id, echo.pk, str(key))
    assert {other, keyed} < {one.lease.run_id for one in claimed(flood[:3])}


def test_lanes_beyond_those_read_get_their_turn(sent, claimed, monkeypatch):
    people = [User.objects.create_user(f"{name}@example.org", name=name) for name in "CDEFG"]
    monkeypatch.setattr(fairness, "LANES_AT_ONCE", 2)
    runs = [run for person in people for run in sent(person, 2)]
    order = owners(claimed(runs[:1] * 10))
    assert sorted(order[:5]) == sorted(order[5:]) == list("CDEFG")


def test_threads_choose_workspaces_in_turn(ada, bob, sent, turns, monkeypatch):
    monkeypatch.setattr(fairness, "KEPT_SECONDS", 60.0)
    sent(ada, 2), sent(bob, 2)
    waiting = Waiting.read()
    lanes = [turns._next_lane(waiting, set()) for _ in range(4)]
    assert lanes == [*waiting.heads] * 2


def test_reserved_run_is_not_chosen_until_reservation_ends(ada, sent, turns):
    [run] = sent(ada)
    assert turns.choose() == (run, Run.objects.get().lane)
    assert Turns().choose() is None
    assert Waiting.read().busy.total() == 1
    Run.objects.update(lease_until=timezone.now() - datetime.timedelta(seconds=1))
    assert Turns().choose() is not None


@pytest.mark.django_db(transaction=True)
def test_worker_with_one_slot_serves_others_next(ada, bob, sent, settings):
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


# Limits


def test_runs_above_the_limit_wait(ada, bob, sent, turns, claimed):
    Limit.objects.create(workspace=ada.personal_workspace, running_runs=2)
    held = claimed(sent(ada, 4))
    assert len(held) == 2
    [bobs] = sent(bob)
    assert turns.claim(bobs, "one").lease.run_id == bobs
    end(held[0], Completed("done"))
    assert turns.claim(None, "two").task.owner == ada
    assert turns.claim(None, "three") is None


def test_agents_and_keys_have_their_own_limits(ada, bob, echo, countdown, sent, claimed):
    key = ApiKey.issue(ada, "test")[0]
    Limit.objects.create(agent=echo, running_runs=1)
    Limit.objects.create(api_key=key, running_runs=1)
    assert len(claimed(sent(ada) + sent(bob))) == 1
    assert len(claimed(sent(key, 2, agent=countdown))) == 1
    assert len(claimed(sent(ada, 2, agent=countdown))) == 2


def test_limit_holds_no_awaited_run_back(ada, sent, turns, claimed):
    Limit.objects.create(workspace=ada.personal_workspace, running_runs=1)
    assert len(claimed(sent(ada))) == 1
    child, other = sent(ada, 2)
    Run.objects.filter(pk=child).update(priority=Run.Priority.CONTINUED)
    assert turns.claim(other, "one").lease.run_id == child
    assert turns.claim(other, "two") is None


@pytest.mark.django_db(transaction=True)
def test_workers_together_keep_the_limit(ada, sent):
    Limit.objects.create(workspace=ada.personal_workspace, running_runs=3)
    runs, held = sent(ada, 12), []

    def work(part):
        turns = Turns()
        held.extend(filter(None, [turns.claim(run, f"worker of {run}") for run in part]))

    together(*[partial(work, runs[n::4]) for n in range(4)])
    assert len(held) == Run.objects.filter(state=Run.State.RUNNING).count() == 3
