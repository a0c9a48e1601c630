"""Handlers that ignore a stop hold threads; a full process leaves work to others."""

import asyncio

import pytest

import db
from apps.engine import accept, handlers
from apps.engine.jobs import sweep
from apps.engine.send import send, wait_until_settled
from apps.engine.worker import WorkerProcess
from apps.record.errors import NoAnswer
from apps.record.execution import Run
from tests.engine.agents import Stuck

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _two_threads(settings):
    settings.HANDLER_THREADS = 2
    handlers.handler_threads.cache_clear()
    Stuck.let_go.clear()
    yield
    Stuck.let_go.set()
    handlers.handler_threads.cache_clear()


@pytest.fixture
def named(monkeypatch):
    """Run ids that the sweep sends to workers."""
    runs = []
    monkeypatch.setattr("apps.engine.jobs.publish", runs.append)
    return runs


@pytest.fixture
def carrier(transactional_db):
    carrier = WorkerProcess()
    yield carrier
    carrier.close(0)


async def offered(carrier, ada, agent, message):
    sent = await db.run(accept.accept, ada.principal, agent, message)
    assert await asyncio.to_thread(carrier.claim_and_wait, sent.run)
    return sent


async def end_of(sent):
    return await wait_until_settled(sent.context, sent.task, sent.index, lambda task: task.state)


async def lose_all_threads(carrier, ada, stuck, said):
    for _ in range(20):  # on a busy machine a handler may not even have begun
        if len(handlers.handler_threads().lost) == 2:
            return
        sent = await offered(carrier, ada, stuck, said())
        assert await end_of(sent) == "failed", "by its time limit"


async def test_a_process_without_threads_takes_no_turn_that_needs_one_and_says_who_holds_them(
    ada, agent, said, carrier, named, settings, caplog
):
    stuck, waiting = await agent("Stuck"), await agent("Waiting")
    await lose_all_threads(carrier, ada, stuck, said)
    told = [record.getMessage() for record in caplog.records if record.name == "parley.engine"]
    assert sum("agent stuck was stopped and does not end" in line for line in told) == 2
    assert "all 2 threads for handlers are held" in told[-1]

    left = await offered(carrier, ada, stuck, said())
    run = await db.run(Run.objects.get, pk=left.run)
    assert (run.state, run.attempt) == (Run.State.QUEUED, 0)
    settings.SWEEP_SECONDS = -1
    await db.run(sweep)
    assert named == [left.run], "another is asked"

    taken = await offered(carrier, ada, waiting, said("go"))
    assert await end_of(taken) == "completed", "what is async goes on"


async def test_it_takes_them_again_when_a_thread_is_back(ada, agent, said, carrier):
    stuck = await agent("Stuck")
    await lose_all_threads(carrier, ada, stuck, said)
    Stuck.let_go.set()
    pool = handlers.handler_threads().pool
    await asyncio.get_running_loop().run_in_executor(pool, int)  # runs once a thread is free
    sent = await offered(carrier, ada, stuck, said())
    assert await end_of(sent) == "completed"


async def test_who_wants_a_message_is_refused_at_once(ada, agent, said, carrier):
    await lose_all_threads(carrier, ada, await agent("Stuck"), said)
    with pytest.raises(NoAnswer, match="too busy"):
        await send(ada.principal, await agent("StuckAnswering"), said())
