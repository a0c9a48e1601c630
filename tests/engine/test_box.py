"""Whatever a handler does or raises, its task ends clearly, and others go on."""

import asyncio
import logging
import sys
import threading

import pytest

from agentkit import Artifact, SkillHandler
from agentkit import agent as described
from apps.engine import accept, worker
from apps.engine.turns import handlers
from apps.record import projection
from apps.record.execution import Run
from apps.record.models import Artifact as ArtifactRow
from apps.record.models import Event
from parley import db
from tests.engine.delegating import ended, run_of, sent, until, words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("a worker claims over the broker")]

OVER = threading.Event()
"""What ends those that nothing else ends, once a test is over."""


@pytest.fixture
def boxed(worker, ada, agent, said):
    async def send(handler, text="go"):
        return await sent(ada.principal, await agent(handler), said(text))

    OVER.clear()
    yield send
    OVER.set()


async def failed(receipt, code):
    """A failed task's words, with this code."""
    task = await ended(receipt)
    assert task.state == "failed", words(task)
    assert (await run_of(task)).error["code"] == code
    assert await db.run(projection.differences, receipt.context) == []
    return words(task)


async def test_endless_loop_in_a_thread_is_ended(boxed):
    @described(time_limit=0.3)
    def looping(task):
        number = 0
        while not OVER.is_set() or number < 0:
            number += 1

    assert "0.3 seconds" in await failed(await boxed(looping), "time_limit")
    await until(lambda: not handlers.handler_threads().lost)


async def test_endless_loop_without_await_is_ended(boxed, ada, echo, said, settings):
    @described(time_limit=0.3)
    async def clinging(task):
        while not OVER.is_set():
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                continue
        await task.progress("I am still here")

    async def looping(task):
        while not OVER.is_set():
            pass

    settings.BLOCKED_SECONDS = 0.5
    beside, endless = await boxed(clinging), await boxed(looping)
    assert "without letting others go on" in await failed(endless, "blocked")
    assert (await ended(await sent(ada.principal, echo, said()))).state == "completed"
    await failed(beside, "time_limit")
    assert [run.attempt async for run in Run.objects.all()] == [1, 1, 1], "none began twice"


async def test_stuck_process_leaves_runs_to_others(boxed, ada, echo, said, settings, caplog):
    async def sleeping(task):
        OVER.wait(30)  # in the operating system, where nothing reaches it

    settings.BLOCKED_SECONDS = 0.2
    stuck = await boxed(sleeping)
    process = await asyncio.to_thread(worker.current_worker)
    await until(lambda: process._watchdog.is_stuck)
    waiting = await db.run(accept.accept, ada.principal, echo, said())
    assert await asyncio.to_thread(process.claim_and_wait, waiting.run) is False
    OVER.set()
    await failed(stuck, "blocked")
    await until(lambda: not process._watchdog.is_stuck)
    assert await asyncio.to_thread(process.claim_and_wait, waiting.run) is True
    assert (await ended(waiting)).state == "completed"
    assert "agent sleeping computes and awaits nothing" in caplog.text


@pytest.mark.parametrize(
    ("text", "most", "told"),
    [("whole", 100, "at most 5 MB"), ("stubborn", 100, "at most 5 MB"), ("chunks", 3, "at most 3 MB together")],
)
async def test_artifacts_have_only_so_many_bytes(boxed, settings, text, most, told):
    appended = []

    async def bulky(task):
        if task.message.text == "whole":
            return Artifact.bytes("all.bin", b"x" * 12 * 1024**2, "application/octet-stream")
        log = task.artifact("all.txt")
        for number in range(12):
            try:
                await log.append("x" * 1024**2)
                appended.append(number)
            except Exception:
                if task.message.text != "stubborn":
                    raise
        return "done"

    settings.MAX_ARTIFACT_BYTES, settings.MAX_TURN_BYTES = 5 * 1024**2, most * 1024**2
    assert told in await failed(await boxed(bulky, text), "artifact_too_large")
    assert len(appended) <= 5, "more was refused at once"
    sizes = [len(str(event.payload)) async for event in Event.objects.filter(type="artifact_update")]
    assert sum(sizes) < 6 * 1024**2
    assert not await db.run(ArtifactRow.objects.delivered().exists)


async def test_printed_lines_are_in_the_log(boxed, caplog, capsys):
    async def flooding(task):
        for line in range(1_000):
            print("flood", line)
        print("without an end", end="")
        return "done"

    def printing_in_a_thread(text):
        print("from a thread")
        return "done"

    caplog.set_level(logging.INFO, "parley.agents")
    for handler in (flooding, printing_in_a_thread):
        assert (await ended(await boxed(handler))).state == "completed"
    await until(lambda: "more lines" in caplog.text)
    lines = [record.getMessage() for record in caplog.records if record.name == "parley.agents"]
    flood = [line for line in lines if line.startswith("printed: flood")]
    assert flood == [f"printed: flood {number}" for number in range(100)]
    assert "the agent printed 901 more lines, which are not kept" in lines
    assert "printed: from a thread" in lines
    print("the process's own")
    assert capsys.readouterr().out == "the process's own\n"


def leave(text):
    raise {"exit": SystemExit(3), "interrupt": KeyboardInterrupt(), "own": BaseException("its own")}[text]


async def exiting(task):
    leave(task.message.text)


def exiting_in_a_thread(text):
    yield "half"
    leave(text)


async def exiting_beside(task):
    """Its own task and a callback exit while it waits."""
    asyncio.get_running_loop().call_soon(sys.exit, 3)
    await asyncio.create_task(exiting(task))


class ExitingWhileItChooses(SkillHandler):
    def select_response_type(self, message):
        sys.exit(3)

    negotiate = select_response_type

    def ailment(self):
        sys.exit(3)

    def on_request(self, task):
        return "never"


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        (exiting, "interrupt"),
        (exiting_in_a_thread, "exit"),
        (exiting_in_a_thread, "own"),
        (exiting_beside, "exit"),
        (ExitingWhileItChooses, "exit"),
    ],
)
async def test_exiting_handler_fails_alone(boxed, ada, echo, said, handler, text):
    assert "its code raised" in await failed(await boxed(handler, text), "agent_exited")
    assert (await ended(await sent(ada.principal, echo, said()))).state == "completed"


async def test_dead_loop_is_replaced(monkeypatch, settings):
    settings.BLOCKED_SECONDS = 0.1
    replaced, beats = [], []
    monkeypatch.setattr(worker, "restart_process", lambda: replaced.append(True))
    monkeypatch.setattr(handlers, "DEAD_SECONDS", 0.5)
    process = await asyncio.to_thread(worker.current_worker)
    worker.call_on_loop(lambda: beats.append("alive"))
    await until(lambda: beats)
    process.on_loop(process._loop.stop)
    await until(lambda: replaced)
    worker.call_on_loop(lambda: beats.append("dead"))
    await asyncio.to_thread(worker.close_current_worker, 1)
    assert (beats, process._thread.is_alive()) == (["alive"], False)
