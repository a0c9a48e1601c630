"""A worker process stops turns at once, and limits and returns runs."""

import asyncio
import threading
import uuid

import pytest

import db
from apps.agents.registration import register_hosted
from apps.engine import accept, cancel, claim, recorder, turn, worker
from apps.engine import finish as engine_finish
from apps.engine.finish import finish as record_finish
from apps.engine.send import wait_until_settled
from apps.engine.worker import WorkerProcess
from apps.record import notifications, projection, wire
from apps.record.execution import Run
from apps.record.models import Message
from apps.record.runs import Lease
from tests.engine.agents import Stoppable, Waiting, WaitingInAThread
from tests.working import begin, let_the_lease_run_out, state_of, types_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("stops come by the channel layer")]
SOON = 5


class Published(list):
    """Run ids sent to workers; each sets the event."""

    def __init__(self):
        super().__init__()
        self.came = threading.Event()

    def append(self, run):
        super().append(run)
        self.came.set()


@pytest.fixture
def published(monkeypatch):
    runs = Published()
    for module in ("worker", "turn", "claim"):
        monkeypatch.setattr(f"apps.engine.{module}.publish", runs.append)
    return runs


@pytest.fixture
def carrier(published, transactional_db):
    """A worker process without a broker."""
    Waiting.begun.clear(), Waiting.stopped.clear()
    WaitingInAThread.begun.clear(), WaitingInAThread.stopped.clear()
    carrier = WorkerProcess()
    yield carrier
    carrier.close(0)


async def working(ada, agent, said, carrier, kind=Waiting):
    receipt = await db.run(accept.accept, ada.principal, agent, said("wait"))
    assert await asyncio.to_thread(carrier.claim_and_wait, receipt.run)
    assert await asyncio.to_thread(kind.begun.wait, SOON)
    return receipt


@pytest.mark.parametrize("kind", [Waiting, WaitingInAThread])
async def test_a_cancel_stops_the_handler_at_once(ada, agent, said, carrier, kind):
    waiting = await agent(kind.__name__)
    sent = await working(ada, waiting, said, carrier, kind)
    await db.run(cancel.cancel_by_id, ada.principal, waiting, str(sent.task))
    assert await asyncio.to_thread(kind.stopped.wait, SOON)
    assert await db.run(state_of, sent.task) == "canceled"
    assert await db.run(projection.differences, sent.context) == []


async def test_a_stop_that_got_lost_is_made_good_by_the_heartbeat(ada, agent, said, published, settings, monkeypatch):
    settings.RUN_LEASE_SECONDS = 0.6
    Waiting.begun.clear(), Waiting.stopped.clear()
    monkeypatch.setattr(notifications, "stop", lambda run: None)
    carrier, waiting = WorkerProcess(), await agent("Waiting")
    try:
        sent = await working(ada, waiting, said, carrier)
        await db.run(cancel.cancel_by_id, ada.principal, waiting, str(sent.task))
        assert await asyncio.to_thread(Waiting.stopped.wait, SOON)
    finally:
        await asyncio.to_thread(carrier.close, 0)


async def test_a_stop_that_comes_between_the_claim_and_the_beginning_is_heard(
    ada, agent, said, published, settings, monkeypatch
):
    def claim_and_cancel(run_id, worker, claim=claim.claim):
        assignment = claim(run_id, worker)
        if assignment is not None:
            cancel.cancel_by_id(ada.principal, waiting, str(sent.task))
        return assignment

    settings.RUNS_PER_PROCESS, settings.RUN_LEASE_SECONDS = 1, 600
    monkeypatch.setattr(worker, "FULL_WAIT_SECONDS", SOON)
    monkeypatch.setattr(worker, "claim", claim_and_cancel)
    carrier, waiting = WorkerProcess(), await agent("Waiting")
    try:
        sent = await db.run(accept.accept, ada.principal, waiting, said("wait"))
        assert await asyncio.to_thread(carrier.claim_and_wait, sent.run)
        assert await asyncio.to_thread(carrier.claim_and_wait, uuid.uuid4()), "there is room again"
    finally:
        await asyncio.to_thread(carrier.close, 0)


@pytest.mark.parametrize("kind", ["Waiting", "WaitingSilently"])
async def test_a_newer_message_interrupts_and_is_the_next_turn(ada, agent, said, carrier, published, kind):
    waiting = await agent(kind, on_busy="interrupt")
    sent = await working(ada, waiting, said, carrier)
    await db.run(accept.accept, ada.principal, waiting, said("this", taskId=str(sent.task)))
    assert await asyncio.to_thread(Waiting.stopped.wait, SOON)
    assert await asyncio.to_thread(published.came.wait, SOON)
    assert await asyncio.to_thread(carrier.claim_and_wait, published[0])
    await wait_until_settled(sent.context, sent.task, sent.index, wire.load_task)
    said_by_agent = await db.run(lambda: [row.parts for row in Message.objects.filter(role=Message.Role.AGENT)])
    assert said_by_agent == [[{"text": "went on with this"}]]
    assert await db.run(projection.differences, sent.context) == []


@pytest.mark.parametrize("moment", ["close", "finish"])
async def test_a_message_that_interrupts_a_turn_that_is_ending_does_not_lose_it(
    ada, echo, said, published, monkeypatch, moment
):
    """If the stop comes during the recording, the outcome stands and the message is the next turn."""
    ending, go_on = threading.Event(), threading.Event()

    async def close(recorder):
        ending.set()
        await asyncio.to_thread(go_on.wait, SOON)

    def finish(*args, real=record_finish):
        ending.set()
        go_on.wait(SOON)
        return real(*args)

    if moment == "close":
        monkeypatch.setattr(recorder.Recorder, "close", close)
    else:
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


async def test_a_full_process_leaves_the_wake_up_to_others(ada, agent, said, published, settings, monkeypatch):
    settings.RUNS_PER_PROCESS = 1
    monkeypatch.setattr(worker, "FULL_WAIT_SECONDS", 0.01)
    Waiting.begun.clear()
    carrier, waiting = WorkerProcess(), await agent("Waiting")
    try:
        sent = await working(ada, waiting, said, carrier)
        other = await db.run(accept.accept, ada.principal, waiting, said("other"))
        assert not await asyncio.to_thread(carrier.claim_and_wait, other.run)
        assert await db.run(lambda: Run.objects.get(pk=other.run).state) == Run.State.QUEUED
        await db.run(cancel.cancel_by_id, ada.principal, waiting, str(sent.task))
        while not await asyncio.to_thread(carrier.claim_and_wait, other.run):
            pass
        await wait_until_settled(other.context, other.task, other.index, wire.load_task)
    finally:
        await asyncio.to_thread(carrier.close, 0)


async def test_what_is_not_to_be_had_takes_no_room(carrier, settings):
    for _ in range(settings.RUNS_PER_PROCESS + 1):
        assert await asyncio.to_thread(carrier.claim_and_wait, uuid.uuid4())


@pytest.mark.parametrize(("retry_safe", "state"), [(True, "queued"), (False, "failed")])
async def test_a_process_that_ends_gives_back_what_it_carries(ada, agent, said, published, retry_safe, state):
    Waiting.begun.clear(), Waiting.stopped.clear()
    carrier, waiting = WorkerProcess(), await agent("Waiting", retry_safe=retry_safe)
    sent = await working(ada, waiting, said, carrier)
    await asyncio.to_thread(carrier.close, 0.05)
    assert Waiting.stopped.is_set()
    run = await db.run(lambda: Run.objects.get(pk=sent.run))
    assert (run.state, run.lease_until) == (state, None)
    assert published == ([sent.run] if retry_safe else [])
    assert not await asyncio.to_thread(carrier.claim_and_wait, sent.run), "it takes no more"
    assert await db.run(projection.differences, sent.context) == []


async def test_what_ends_within_the_grace_is_not_given_back(ada, echo, said, published):
    carrier = WorkerProcess()
    sent = await db.run(accept.accept, ada.principal, echo, said())
    await asyncio.to_thread(carrier.claim_and_wait, sent.run)
    await asyncio.to_thread(carrier.close, SOON)
    assert await db.run(state_of, sent.task) == "completed"


async def test_a_late_end_leaves_a_note(ada, echo, said, published, monkeypatch):
    sent = await db.run(accept.accept, ada.principal, echo, said())
    assignment = await db.run(begin, sent.run)
    await db.run(cancel.cancel_by_id, ada.principal, echo, str(sent.task))
    await turn.execute_turn(assignment, lambda: False)
    run = await db.run(lambda: Run.objects.get(pk=sent.run))
    assert [note["note"] for note in run.notes] == ["Attempt 1 ended after the run was no longer its own."]


def test_a_process_that_takes_up_a_run_again_stops_what_it_was_at_before(ada, said):
    agent = register_hosted("stoppable", "tests.engine.agents:Stoppable", retry_safe=True)
    sent = accept.accept(ada.principal, agent, said())
    process = WorkerProcess()
    try:
        Stoppable.begun.clear()
        Stoppable.stopped.clear()
        assert process.claim_and_wait(sent.run)
        assert Stoppable.begun.wait(15)
        let_the_lease_run_out(Lease(sent.run, 1))
        assert process.claim_and_wait(sent.run)
        assert Stoppable.stopped.wait(15)
    finally:
        process.close(0)
