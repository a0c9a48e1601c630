"""A worker process stops turns at once, and leaves to others what it has no room for."""

import asyncio
import threading

import pytest

from apps.engine import accept, cancel, send
from apps.engine import finish as engine_finish
from apps.engine.finish import finish as record_finish
from apps.engine.jobs import sweep
from apps.engine.send import wait_until_settled
from apps.engine.turns import handlers, turn
from apps.engine.worker import WorkerProcess
from apps.record import projection
from apps.record.errors import NoAnswer
from apps.record.execution import Run
from apps.record.models import Message
from parley import db
from tests.engine.agents import Stuck, Waiting, WaitingInAThread
from tests.working import begin, state_of, types_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("stops come by the channel layer")]
SOON = 10


@pytest.fixture
def start(published, transactional_db, settings):
    """Start a worker process without a broker, with these settings."""
    for kind in (Waiting, WaitingInAThread):
        kind.begun.clear()
        kind.stopped.clear()
    started = []

    def start(**changed):
        for name, value in changed.items():
            setattr(settings, name, value)
        started.append(WorkerProcess())
        return started[-1]

    yield start
    for one in started:
        if one._thread.is_alive():
            one.close(0)


async def working(ada, agent, said, carrier, kind=Waiting):
    receipt = await db.run(accept.accept, ada.principal, agent, said("wait"))
    assert await asyncio.to_thread(carrier.claim_and_wait, receipt.run)
    assert await asyncio.to_thread(kind.begun.wait, SOON)
    return receipt


async def end_of(sent):
    return await wait_until_settled(sent.context, sent.task, sent.index, lambda task: task.state)


@pytest.mark.parametrize("kind", [Waiting, WaitingInAThread])
async def test_cancel_stops_the_handler_at_once(ada, agent, said, start, kind):
    waiting = await agent(kind.__name__)
    sent = await working(ada, waiting, said, start(), kind)
    await db.run(cancel.cancel_by_id, ada.principal, waiting, str(sent.task))
    assert await asyncio.to_thread(kind.stopped.wait, SOON)
    assert await db.run(state_of, sent.task) == "canceled"
    assert await db.run(projection.differences, sent.context) == []


async def test_newer_message_interrupts_and_is_next(ada, agent, said, start, published):
    waiting, carrier = await agent("Waiting", on_busy="interrupt"), start()
    sent = await working(ada, waiting, said, carrier)
    await db.run(accept.accept, ada.principal, waiting, said("this", taskId=str(sent.task)))
    assert await asyncio.to_thread(Waiting.stopped.wait, SOON)
    assert await asyncio.to_thread(published.came.wait, SOON)
    assert await asyncio.to_thread(carrier.claim_and_wait, published[0])
    assert await end_of(sent) == "completed"
    said_by_agent = await db.run(lambda: [row.parts for row in Message.objects.filter(role=Message.Role.AGENT)])
    assert said_by_agent == [[{"text": "went on with this"}]]
    assert await db.run(projection.differences, sent.context) == []


async def test_interrupting_an_ending_turn_loses_nothing(ada, echo, said, published, monkeypatch):
    """If the stop comes during the recording, the outcome stands and the message is the next turn."""
    ending, go_on = threading.Event(), threading.Event()

    def finish(*args, real=record_finish):
        ending.set()
        go_on.wait(SOON)
        return real(*args)

    monkeypatch.setattr(engine_finish, "finish", finish)
    echo.on_busy = "interrupt"
    sent = await db.run(accept.accept, ada.principal, echo, said("first"))
    assignment = await db.run(begin, sent.run)
    work = asyncio.create_task(turn.execute_turn(assignment, lambda: True))
    await asyncio.to_thread(ending.wait, SOON)
    await db.run(accept.accept, ada.principal, echo, said("second", taskId=str(sent.task)))
    for _ in range(2):
        work.cancel()
        await asyncio.sleep(0)
    go_on.set()
    await asyncio.wait({work})
    following = await db.run(lambda: Run.objects.get(turn=2))
    assert published == [following.pk]
    assert await db.run(lambda: Run.objects.get(turn=1).state) == Run.State.DONE
    assert "agent_message" in await db.run(types_of, sent.task)


@pytest.mark.parametrize(("retry_safe", "state"), [(True, "queued"), (False, "failed")])
async def test_ending_process_gives_back_its_runs(ada, agent, echo, said, start, published, retry_safe, state):
    carrier, waiting = start(), await agent("Waiting", retry_safe=retry_safe)
    short = await db.run(accept.accept, ada.principal, echo, said())
    sent = await working(ada, waiting, said, carrier)
    await asyncio.to_thread(carrier.claim_and_wait, short.run)
    await asyncio.to_thread(carrier.close, 1)
    assert await db.run(state_of, short.task) == "completed", "it ended within the grace"
    assert Waiting.stopped.is_set()
    run = await Run.objects.aget(pk=sent.run)
    assert (run.state, run.lease_until) == (state, None)
    assert published == ([sent.run] if retry_safe else [])
    assert not await asyncio.to_thread(carrier.claim_and_wait, sent.run), "it takes no more"
    assert await db.run(projection.differences, sent.context) == []


@pytest.fixture
def two_threads(settings):
    settings.HANDLER_THREADS = 2
    handlers.handler_threads.cache_clear()
    Stuck.let_go.clear()
    yield
    Stuck.let_go.set()
    handlers.handler_threads.cache_clear()


async def test_process_without_threads_waits_for_one(ada, agent, said, start, two_threads, published, settings, caplog):
    stuck, waiting, carrier = await agent("Stuck"), await agent("Waiting"), start()

    async def offered(agent, message):
        sent = await db.run(accept.accept, ada.principal, agent, message)
        assert await asyncio.to_thread(carrier.claim_and_wait, sent.run)
        return sent

    while len(handlers.handler_threads().lost) < 2:  # on a busy machine a handler may not even have begun
        assert await end_of(await offered(stuck, said())) == "failed", "by its time limit"
    told = [record.getMessage() for record in caplog.records if record.name == "parley.engine"]
    assert sum("agent stuck was stopped and does not end" in line for line in told) == 2
    assert "all 2 threads for handlers are held" in told[-1]

    left = await offered(stuck, said())
    run = await Run.objects.aget(pk=left.run)
    assert (run.state, run.attempt) == (Run.State.QUEUED, 0)
    settings.SWEEP_SECONDS = -1
    await db.run(sweep)
    assert published == [left.run], "another is asked"
    with pytest.raises(NoAnswer, match="too busy"):
        await send.send(ada.principal, await agent("StuckAnswering"), said())
    assert await end_of(await offered(waiting, said("go"))) == "completed", "what is async goes on"

    Stuck.let_go.set()
    await asyncio.get_running_loop().run_in_executor(handlers.handler_threads().pool, int)  # once a thread is free
    assert await end_of(await offered(stuck, said())) == "completed"


@pytest.fixture
def room_for_one(monkeypatch, settings):
    """Ask for it before the worker, which reads the settings when it begins."""
    settings.RUNS_PER_PROCESS = 1
    monkeypatch.setattr("apps.engine.worker.FULL_WAIT_SECONDS", 0.01)


async def test_returned_wake_up_comes_again(room_for_one, worker, ada, agent, said):
    Waiting.begun.clear()
    waiting = await agent("Waiting")
    first = await send.send(ada.principal, waiting, said("wait"))
    assert await asyncio.to_thread(Waiting.begun.wait, SOON)
    second, third = [await send.send(ada.principal, waiting, said(text)) for text in ("other", "third")]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await end_of(second)
    assert await db.run(state_of, second.task) == "submitted"
    await db.run(cancel.cancel_by_id, ada.principal, waiting, str(first.task))
    async with asyncio.timeout(SOON):
        assert [await end_of(sent) for sent in (second, third)] == ["completed"] * 2
