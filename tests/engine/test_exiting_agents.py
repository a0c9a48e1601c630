"""An agent's code that exits fails its own task, and nothing else."""

import asyncio

import pytest

import db
from apps.engine import handlers, worker
from apps.engine.send import send
from apps.record.execution import Run
from tests.engine import exiting_agents
from tests.engine.delegating import done, until, words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("a worker claims over the broker")]


@pytest.fixture
def exiting(agent_at):
    async def register(name):
        return await agent_at(f"{exiting_agents.__name__}:{name}")

    return register


@pytest.mark.usefixtures("worker")
async def test_exiting_handlers_fail_alone(ada, exiting, echo, said):
    for name, text in (
        ("Exiting", "exit"),
        ("Exiting", "interrupt"),
        ("Exiting", "own"),
        ("ExitingInAThread", "exit"),
        ("ExitingInAThread", "interrupt"),
        ("ExitingBeside", "exit"),
        ("ExitingWhileItChooses", "exit"),
    ):
        task = await done(ada.principal, await exiting(name), said(text))
        run = await db.run(Run.objects.get, task=task)
        assert (task.state, run.error["code"]) == ("failed", "agent_exited"), (name, text)
        assert "its code raised" in words(task)
        assert (await done(ada.principal, echo, said())).state == "completed"


async def test_exiting_handlers_answer_with_an_error(ada, exiting, said):
    sent = await send(ada.principal, await exiting("ExitingAtOnce"), said("exit"))
    assert sent.answer["metadata"]["error"]["code"] == "agent_exited"
    assert "SystemExit" in sent.answer["parts"][0]["text"]


async def test_exiting_health_checks_are_a_reason(exiting):
    assert "Escaped" in handlers.health_problem(await exiting("ExitingWhileItChooses"))


async def test_dead_loops_are_missed_and_replaced(monkeypatch, settings):
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
