"""What is above the number of runs at work waits in the queue."""

import asyncio
import threading

import pytest
from django.db import connection

import db
from agentkit import Completed
from apps.accounts.models import ApiKey
from apps.engine import accept, fairness
from apps.engine.fairness import Turns
from apps.engine.send import wait_until_settled
from apps.engine.worker import WorkerProcess
from apps.limits.models import Limit
from apps.record.execution import Run
from tests.working import end

pytestmark = [pytest.mark.django_db, pytest.mark.services("each database chooses by its own SQL")]


@pytest.fixture
def turns(monkeypatch):
    monkeypatch.setattr(fairness, "KEPT_SECONDS", 0.0)
    return Turns()


@pytest.fixture
def sent(echo, said):
    def send(principal, count=1, agent=echo):
        return [accept.accept(principal, agent, said()).run for _ in range(count)]

    return send


def claimed(turns, named):
    held = [turns.claim(run, f"worker of {run}") for run in named]
    return [one for one in held if one is not None]


def test_what_is_above_the_limit_waits_and_others_go_on(ada, bob, sent, turns):
    Limit.objects.create(workspace=ada.personal_workspace, running_runs=2)
    runs = sent(ada.principal, 4)
    held = claimed(turns, runs)
    assert len(held) == 2
    [bobs] = sent(bob.principal)
    assert turns.claim(bobs, "one").lease.run_id == bobs
    end(held[0], Completed("done"))
    assert turns.claim(None, "two").task.owner == ada
    assert turns.claim(None, "three") is None


def test_agents_and_keys_have_limits_of_their_own(ada, bob, echo, countdown, sent, turns):
    key = ApiKey.issue(ada, "test")[0]
    Limit.objects.create(agent=echo, running_runs=1)
    Limit.objects.create(api_key=key, running_runs=1)
    assert len(claimed(turns, sent(ada.principal) + sent(bob.principal))) == 1
    assert len(claimed(turns, sent(key.principal, 2, countdown))) == 1
    assert len(claimed(turns, sent(ada.principal, 2, countdown))) == 2


def test_what_a_running_turn_waits_for_is_not_held_back(ada, sent, turns):
    Limit.objects.create(workspace=ada.personal_workspace, running_runs=1)
    assert len(claimed(turns, sent(ada.principal))) == 1
    [child] = sent(ada.principal)
    [other] = sent(ada.principal)
    Run.objects.filter(pk=child).update(priority=Run.Priority.CONTINUED)
    assert turns.claim(other, "one").lease.run_id == child
    assert turns.claim(other, "two") is None


@pytest.mark.django_db(transaction=True)
def test_workers_together_do_not_exceed_it(ada, sent):
    Limit.objects.create(workspace=ada.personal_workspace, running_runs=3)
    runs, held, together = sent(ada.principal, 12), [], threading.Barrier(4)

    def work(part):
        turns = Turns()
        together.wait(10)
        held.extend(claimed(turns, part))
        connection.close()

    threads = [threading.Thread(target=work, args=(runs[n::4],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(held) == Run.objects.filter(state=Run.State.RUNNING).count() == 3


@pytest.mark.django_db(transaction=True)
async def test_the_end_of_a_run_makes_room_for_what_has_no_message_any_more(ada, echo, said):
    def send():
        Limit.objects.create(workspace=ada.personal_workspace, running_runs=1)
        return [accept.accept(ada.principal, echo, said()) for _ in range(5)]

    receipts = await db.run(send)
    carrier = await asyncio.to_thread(WorkerProcess)
    try:
        for one in receipts:
            assert await asyncio.wrap_future(carrier.claim_soon(one.run))
        async with asyncio.timeout(20):
            for one in receipts:
                await wait_until_settled(one.context, one.task, one.index, lambda task: task.pk)
    finally:
        await asyncio.to_thread(carrier.close, 10)
