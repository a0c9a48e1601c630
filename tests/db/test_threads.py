"""The database's threads: errors, cancellation and closing."""

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from contextvars import copy_context
from functools import partial

import pytest
from django.conf import settings

from parley import db

pytestmark = pytest.mark.django_db(transaction=True)
WAIT = 20  # seconds, for a busy machine


async def test_abandoned_work_is_not_begun():
    go_on, begun = threading.Event(), []
    holding = [asyncio.ensure_future(db.run(go_on.wait, WAIT)) for _ in range(settings.BRIDGE_THREADS)]
    unwanted = asyncio.ensure_future(db.run(begun.append, "unwanted"))
    wanted = asyncio.ensure_future(db.run(begun.append, "wanted"))
    await asyncio.sleep(0)
    unwanted.cancel()
    with suppress(asyncio.CancelledError):
        await unwanted
    go_on.set()
    await asyncio.gather(wanted, *holding)
    assert begun == ["wanted"]


def test_a_loop_that_ends_meanwhile_costs_no_thread():
    go_on = threading.Event()

    async def leave():
        left = asyncio.ensure_future(db.run(go_on.wait, WAIT))
        await asyncio.sleep(0)
        assert not left.done()

    for _ in range(settings.BRIDGE_THREADS):
        asyncio.run(leave())
    go_on.set()
    answers = [db.submit(threading.get_ident) for _ in range(settings.BRIDGE_THREADS)]
    assert all(answer.result(WAIT) for answer in answers)


def test_threads_end_with_their_process():
    script = "import django; django.setup(); from parley import db; print(db.submit(int).result())"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=WAIT * 3)
    assert ended.stdout == "0\n"


@pytest.fixture
def threads():
    made = []

    def of(count):
        made.append(db.DatabaseThreads(count, "test"))
        return made[-1]

    yield of
    for one in made:
        one.shutdown()


def on_behalf_of(caller, function, *args):
    def call():
        db.caller.set(caller)
        return function(*args)

    return copy_context().run(call)


def test_a_caller_with_many_calls_delays_no_other(threads):
    one, go_on, begun = threads(1), threading.Event(), []
    one.submit(go_on.wait, WAIT)
    calls = [on_behalf_of("ada", one.submit, begun.append, f"ada {number}") for number in range(20)]
    for caller in ("bob", "eve"):
        calls.append(on_behalf_of(caller, one.submit, begun.append, caller))
    go_on.set()
    assert not wait(calls, WAIT).not_done
    assert begun[:4] == ["ada 0", "bob", "eve", "ada 1"]
    assert begun[4:] == [f"ada {number}" for number in range(2, 20)]


def test_a_caller_leaves_threads_to_others(threads):
    six, go_on, has_begun, begun = threads(6), threading.Event(), threading.Semaphore(0), []

    def note(name):
        begun.append(name)
        has_begun.release()
        go_on.wait(WAIT)

    calls = [on_behalf_of("ada", six.submit, note, f"ada {number}") for number in range(5)]
    assert on_behalf_of("bob", six.submit, threading.get_ident).result(WAIT)
    assert has_begun.acquire(timeout=WAIT)
    assert has_begun.acquire(timeout=WAIT)
    assert sorted(begun) == ["ada 0", "ada 1"]
    go_on.set()
    assert not wait(calls, WAIT).not_done
    assert len(begun) == len(calls)


def test_streams_take_turns_and_leave_threads(threads):
    three, go_on, has_begun, begun = threads(3), threading.Event(), threading.Semaphore(0), []

    def note(name):
        begun.append(name)
        has_begun.release()
        go_on.wait(WAIT)

    stream = partial(three.enqueue, is_stream=True)
    calls = [on_behalf_of("ada", stream, partial(note, f"ada {number}"), Future()) for number in range(3)]
    calls.append(on_behalf_of("bob", stream, partial(note, "bob"), Future()))
    assert on_behalf_of("ada", three.submit, threading.get_ident).result(WAIT)
    assert has_begun.acquire(timeout=WAIT)
    assert begun == ["ada 0"]
    go_on.set()
    assert not wait(calls, WAIT).not_done
    assert begun == ["ada 0", "ada 1", "bob", "ada 2"]


@pytest.mark.parametrize("cancels", [False, True])
def test_shutdown_finishes_or_cancels_what_waits(threads, cancels):
    one, go_on = threads(1), threading.Event()
    one.submit(go_on.wait, WAIT)
    waiting = one.submit(threading.get_ident)
    ending = threading.Thread(target=one.shutdown, kwargs={"cancel_futures": cancels})
    ending.start()
    if cancels:
        with pytest.raises(CancelledError):
            waiting.result(WAIT)
    go_on.set()
    ending.join(WAIT)
    assert waiting.cancelled() == cancels
    assert waiting.done()
