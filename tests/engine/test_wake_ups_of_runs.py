"""A worker process acknowledges a broker's message, or gets it again."""

import asyncio
import socket

import pytest
from celery import current_app

import db
from apps.engine import cancel, queue, send, worker
from apps.record import wire
from apps.record.execution import Run
from tests.engine.agents import Waiting
from tests.working import state_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("wake-ups come by the broker")]
SOON = 10


@pytest.fixture
def room_for_one(settings, monkeypatch):
    """A worker process that executes one run."""
    settings.RUNS_PER_PROCESS = 1
    monkeypatch.setattr(worker, "FULL_WAIT_SECONDS", 0.01)


async def test_what_a_full_process_gave_back_comes_again(room_for_one, worker, ada, agent, said):
    Waiting.begun.clear()
    waiting = await agent("Waiting")
    first = await send.send(ada.principal, waiting, said("wait"))
    assert await asyncio.to_thread(Waiting.begun.wait, SOON)
    second = await send.send(ada.principal, waiting, said("other"))
    third = await send.send(ada.principal, waiting, said("third"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await send.wait_until_settled(second.context, second.task, second.index, wire.load_task)
    assert await db.run(state_of, second.task) == "submitted"
    await db.run(cancel.cancel_by_id, ada.principal, waiting, str(first.task))
    async with asyncio.timeout(SOON):
        for sent in (second, third):
            shown = await send.wait_until_settled(sent.context, sent.task, sent.index, wire.load_task)
            assert shown["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_wake_up_of_a_run_that_is_not_to_be_had_is_no_error(worker, ada, echo, said):
    sent = await send.send(ada.principal, echo, said())
    await send.wait_until_settled(sent.context, sent.task, sent.index, wire.load_task)
    run = await db.run(lambda: Run.objects.get(task=sent.task).pk)
    await asyncio.to_thread(queue.publish, run)
    await asyncio.to_thread(queue.publish, sent.task)
    again = await send.send(ada.principal, echo, said())
    async with asyncio.timeout(SOON):
        assert await send.wait_until_settled(again.context, again.task, again.index, wire.load_task)


def cut_the_line():
    """Break the connection to the broker, as a firewall or restart does."""
    with current_app.producer_or_acquire() as producer:
        line = producer.connection.connection
        if hasattr(line, "transport"):
            line.transport.sock.shutdown(socket.SHUT_RDWR)
        else:
            producer.channel.pool.disconnect()


@pytest.mark.services("a broker whose line can be cut", only=True)
async def test_a_wake_up_goes_out_over_a_line_that_broke(worker, ada, echo, said, caplog):
    sent = await send.send(ada.principal, echo, said())
    await send.wait_until_settled(sent.context, sent.task, sent.index, wire.load_task)
    await asyncio.to_thread(cut_the_line)
    again = await send.send(ada.principal, echo, said())
    async with asyncio.timeout(SOON):
        assert await send.wait_until_settled(again.context, again.task, again.index, wire.load_task)
    assert "the broker is away" not in caplog.text
