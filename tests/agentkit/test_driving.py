"""A turn ends with an outcome or an error, and can be stopped."""

import asyncio
import threading

import pytest

from agentkit import HandlerError, SkillHandler, Stopped, as_handler, drive, testing


def started(handler, recorder=None, **more):
    """A started handler, as (task context, driving to cancel, what the host hears)."""
    recorder = recorder or testing.Recorder()
    task = testing.task_for(testing.user_message("go"), recorder)
    return task, asyncio.ensure_future(drive(as_handler(handler), task, **more)), recorder


async def stopped(driving):
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving


async def test_stopping_an_awaiting_handler_cleans_up():
    happened = []

    class Sleeper(SkillHandler):
        async def on_request(self, task):
            await task.progress("Sleeping")
            try:
                await asyncio.Event().wait()
            finally:
                happened.append(("ended", task.cancelled))

        async def on_cancel(self, task):
            happened.append(("cleaned up", task.cancelled))

    _, driving, recorder = started(Sleeper)
    await recorder.heard.wait()
    await stopped(driving)
    assert happened == [("ended", True), ("cleaned up", True)]


async def test_a_stopped_thread_ends_at_its_next_word():
    said, go_on, seen = threading.Event(), threading.Event(), []

    class Talker(SkillHandler):
        def on_request(self, task):
            task.token("1")
            said.set()
            go_on.wait(5)
            try:
                task.token("2")
            except Exception:
                seen.append("swallowed")
            finally:
                seen.append("ended")

        def on_cancel(self, task):
            seen.append("cleaned up")

    _, driving, recorder = started(Talker)
    await asyncio.to_thread(said.wait, 5)
    asyncio.get_running_loop().call_later(0.01, go_on.set)
    await stopped(driving)
    assert recorder.text == "1"
    assert seen == ["ended", "cleaned up"]


async def test_stopping_closes_generators():
    closed = []

    async def async_stream(text):
        try:
            yield "a"
            await asyncio.Event().wait()
        finally:
            closed.append("async")

    def sync_stream(text):
        try:
            while True:
                yield "a"
        finally:
            closed.append("sync")

    for handler in (async_stream, sync_stream):
        _, driving, recorder = started(handler)
        await recorder.heard.wait()
        await stopped(driving)
    assert closed == ["async", "sync"]


async def test_an_unstoppable_handler_is_left_behind(monkeypatch):
    monkeypatch.setattr("agentkit.runner.STOP_SECONDS", 0.01)
    release, cleaned = asyncio.Event(), []

    class Stubborn(SkillHandler):
        async def on_request(self, task):
            await task.token("1")
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            with pytest.raises(Stopped):
                await task.token("2")

        async def on_cancel(self, task):
            cleaned.append(True)

    _, driving, recorder = started(Stubborn)
    await recorder.heard.wait()
    await stopped(driving)
    release.set()
    assert cleaned == [True]
    assert recorder.text == "1"


async def test_hidden_coroutines_and_false_stops_are_errors():
    async def work(text):
        return "x"

    async def canceled(text):
        raise asyncio.CancelledError

    def stopped(text):
        raise Stopped

    for handler, told in ((lambda text: work(text), "async def"), (canceled, "nobody stopped"), (stopped, "nobody")):
        with pytest.raises(HandlerError, match=told):
            await testing.run(handler, "go")
