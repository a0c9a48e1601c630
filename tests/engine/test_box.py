"""Whatever a handler does, its task ends clearly, and others go on."""

import asyncio
import logging

import pytest
from django.test import override_settings

import db
from apps.agents.registration import register_hosted
from apps.engine import accept, handlers
from apps.engine.worker import current_worker
from apps.record import projection
from apps.record.execution import Run
from apps.record.models import Artifact, Event, Task
from tests.engine import boxed_agents
from tests.engine.boxed_agents import LET_GO, Blocking, Bulky, Late
from tests.engine.delegating import ended, sent, until, words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker", "let_go")]


@pytest.fixture
def let_go():
    LET_GO.clear()
    yield
    LET_GO.set()


@pytest.fixture
def boxed(ada, said):
    async def send(name, text="go"):
        path = f"{boxed_agents.__name__}:{name}"
        return await sent(ada.principal, await db.run(register_hosted, name.lower(), path), said(text))

    return send


async def run_of(receipt):
    return await db.run(lambda: Run.objects.get(task=receipt.task))


async def failed(receipt, code):
    """A failed task's words, with this code."""
    task = await ended(receipt)
    assert task.state == "failed", words(task)
    assert (await run_of(receipt)).error["code"] == code
    assert await db.run(projection.differences, receipt.context) == []
    return words(task)


async def test_an_endless_loop_in_a_thread_is_ended_and_its_thread_comes_back(boxed):
    said = await failed(await boxed("LoopingInAThread"), "time_limit")
    assert "0.3 seconds" in said
    await until(lambda: not handlers.handler_threads().lost)


async def test_an_endless_loop_that_awaits_nothing_is_ended_and_the_others_go_on(boxed, ada, echo, said, monkeypatch):
    with override_settings(BLOCKED_SECONDS=0.5, RUN_LEASE_SECONDS=1.5):
        beside = await boxed("Clinging")
        looping = await boxed("Looping")
        assert "without letting others go on" in await failed(looping, "blocked")
        assert (await ended(await sent(ada.principal, echo, said()))).state == "completed"
        await failed(beside, "time_limit")
    assert [run.attempt for run in await db.run(list, Run.objects.all())] == [1, 1, 1], "no lease was lost"


async def test_a_process_whose_loop_nothing_frees_leaves_runs_to_others(boxed, ada, echo, said, caplog):
    with override_settings(BLOCKED_SECONDS=0.2):
        sleeping = await boxed("Sleeping")
        process = await asyncio.to_thread(current_worker)
        await until(lambda: process._watchdog.is_stuck)
        waiting = await db.run(accept.accept, ada.principal, echo, said())
        assert await asyncio.to_thread(process.claim_and_wait, waiting.run) is False
        LET_GO.set()
        await failed(sleeping, "blocked")
        await until(lambda: not process._watchdog.is_stuck)
        assert await asyncio.to_thread(process.claim_and_wait, waiting.run) is True
    assert (await ended(waiting)).state == "completed"
    assert "agent sleeping computes and awaits nothing" in caplog.text


@pytest.mark.parametrize("text", ["whole", "chunks", "stubborn"])
async def test_an_artifact_may_have_only_so_many_bytes(boxed, text):
    Bulky.appended = 0
    with override_settings(MAX_ARTIFACT_BYTES=5 * 1024**2):
        said = await failed(await boxed("Bulky", text), "artifact_too_large")
    assert "at most 5 MB" in said
    if text == "chunks":
        assert Bulky.appended == 4, "the fifth was refused at once"

    def recorded():
        sizes = [len(str(event.payload)) for event in Event.objects.filter(type="artifact_update")]
        assert sum(sizes) < 6 * 1024**2
        assert not Artifact.objects.delivered().exists()

    await db.run(recorded)


@override_settings(MAX_ARTIFACT_BYTES=5 * 1024**2, MAX_TURN_BYTES=3 * 1024**2)
async def test_all_artifacts_of_a_turn_are_counted_together(boxed):
    said = await failed(await boxed("Bulky", "chunks"), "artifact_too_large")
    assert "at most 3 MB together" in said


async def test_what_may_not_be_yielded_is_an_invalid_response(boxed):
    receipt = await boxed("Yielding")
    assert "internal error" in await failed(receipt, "invalid_agent_response")
    assert "yielded object" in (await run_of(receipt)).error["message"]


async def test_what_is_said_after_the_end_is_ignored_and_noted(boxed):
    Late.spoken.clear()
    receipt = await boxed("Late")
    assert (await ended(receipt)).state == "completed"
    before = await db.run(Event.objects.count)
    Late.ended.add(str(receipt.task))
    assert await asyncio.to_thread(Late.spoken.wait, 10)
    ignored = ["What the agent said after its end was ignored."]
    await until(lambda: [note["note"] for note in Run.objects.get().notes] == ignored)
    assert await db.run(Event.objects.count) == before


async def test_what_is_printed_goes_to_the_log_of_its_run_as_far_as_it_goes(boxed, caplog, capsys):
    caplog.set_level(logging.INFO, "parley.agents")
    for receipt in [await boxed("Printing", "flood 10000"), await boxed("PrintingInAThread")]:
        assert (await ended(receipt)).state == "completed"
    await until(lambda: "more lines" in caplog.text)
    lines = [record.getMessage() for record in caplog.records if record.name == "parley.agents"]
    flood = [line for line in lines if line.startswith("printed: flood")]
    assert flood == [f"printed: flood {number}" for number in range(100)]
    assert "the agent printed 9901 more lines, which are not kept" in lines
    assert "printed: from a thread" in lines
    print("the process's own")
    assert capsys.readouterr().out == "the process's own\n"


@pytest.mark.slow("a million tokens")
async def test_a_million_tokens_are_one_artifact(boxed):
    receipt = await boxed("Million")
    assert (await ended(receipt, within=100)).state == "completed"
    text = await db.run(lambda: Artifact.objects.get(task=receipt.task).parts[0])
    assert "stored" in text or len(text["text"]) == 2_000_000
    assert await db.run(Event.objects.filter(type="agent_token").count) < 3000


async def test_too_much_of_anything_else_fails_in_words(boxed):
    codes = {"memory": "memory_too_large", "slot": "question_too_large", "progress": "too_large"}
    for text, code in codes.items():
        assert "at most 1 MB" in await failed(await boxed("Hoarding", text), code)


async def test_a_handler_that_blocks_its_thread_blocks_nobody_else(boxed, ada, echo, said):
    Blocking.begun.clear()
    blocking = await boxed("Blocking")
    assert await asyncio.to_thread(Blocking.begun.wait, 10)
    assert (await ended(await sent(ada.principal, echo, said()))).state == "completed"
    assert await db.run(lambda: Task.objects.get(pk=blocking.task).state) == "working"
    LET_GO.set()
    assert words(await ended(blocking)) == "at last"
